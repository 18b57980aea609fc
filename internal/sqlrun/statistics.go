package sqlrun

// StatisticsRow is a row of the table of statistics. Times are in microseconds.
type StatisticsRow struct {
	Queue      string `db:"queue" arg:"queue_name"`
	Period     int64  `db:"period"` // in seconds; 0 is the minute of one source
	Since      int64  `db:"since" arg:"began"`
	Source     string `db:"source"`
	Enqueued   int64  `db:"enqueued"`
	Started    int64  `db:"started"`
	Completed  int64  `db:"completed"`
	Failed     int64  `db:"failed"`
	Poisoned   int64  `db:"poisoned"`
	Released   int64  `db:"released"`
	Created    int64  `db:"created"`
	Processing int64  `db:"processing"`
	Error      int64  `db:"error" arg:"errors"`
	Poison     int64  `db:"poison"`
	Due        int64  `db:"due"`
	Parked     int64  `db:"parked"`
	OldestDue  int64  `db:"oldest_due"`
	Latency    string `db:"latency"`
	RunTime    string `db:"run_time"`
}

// TimeRow is a time in microseconds, or null if there is none.
type TimeRow struct {
	Since *int64 `db:"since"`
}

// QueueCount is a number of tasks of a queue.
type QueueCount struct {
	Queue string `db:"queue"`
	Tasks int64  `db:"tasks"`
}

// StatisticsTexts are the statements on statistics over time, besides dialect.Statements.AddStatistics.
type StatisticsTexts struct {
	// Statistics returns at most :limit rows with :period of all queues that began from :from to before :until, and
	// StatisticsOf the rows of :queue and :samples only.
	Statistics, StatisticsOf string
	// OldestStatistics returns, as since, when the first row with :period began that began at :from or later, or null.
	OldestStatistics string
	// DropStatistics removes the rows with :period that began from :from to before :until.
	DropStatistics string
	// CountIDs counts the tasks with an id from :after to below :before, by queue, as tasks.
	CountIDs string
}

const statisticsColumns = `queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time`

const addStatistics = `INSERT INTO {stat} (
       ` + statisticsColumns + `)
VALUES {rows}`

const addStatisticsRow = `(:queue_name, :period, :began, :source, :enqueued, :started, :completed, :failed, :poisoned,
       :released, :created, :processing, :errors, :poison, :due, :parked, :oldest_due, :latency, :run_time)`

// statisticsTexts returns the statements. t fills in names.
func statisticsTexts(t func(string) string) StatisticsTexts {
	const all = `SELECT ` + statisticsColumns + `
  FROM {stat}
 WHERE period = :period
   AND since >= :from
   AND since < :until`
	return StatisticsTexts{
		Statistics: t(all + `
 {limit}`),
		StatisticsOf: t(all + `
   AND queue IN (:queue, :samples)
 {limit}`),
		OldestStatistics: t(`SELECT min(since) AS since
  FROM {stat}
 WHERE period = :period
   AND since >= :from`),
		DropStatistics: t(`DELETE FROM {stat}
 WHERE period = :period
   AND since >= :from
   AND since < :until`),
		CountIDs: t(`SELECT t.queue, count(*) AS tasks
  FROM {task} t
 WHERE t.id >= :after
   AND t.id < :before
 GROUP BY t.queue`),
	}
}
