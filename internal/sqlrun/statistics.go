package sqlrun

import "github.com/dbq-go/dbq/dialect"

// StatisticsRow is a row of the table of statistics. Times are in microseconds.
type StatisticsRow struct {
	Queue      string `db:"queue"`
	Step       int64  `db:"step"` // in seconds; 0 is the minute of one source
	Since      int64  `db:"since"`
	Source     string `db:"source"`
	Enqueued   int64  `db:"enqueued"`
	Started    int64  `db:"started"`
	Completed  int64  `db:"completed"`
	Failed     int64  `db:"failed"`
	Poisoned   int64  `db:"poisoned"`
	Released   int64  `db:"released"`
	Created    int64  `db:"created"`
	Processing int64  `db:"processing"`
	Error      int64  `db:"error"`
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
	// Statistics returns at most :limit rows with :step of all queues that began from :from to before :until, and
	// StatisticsOf those of :queue and :samples.
	Statistics, StatisticsOf string
	// OldestStatistics returns, as since, when the first row with :step began that began at :from or later, or null.
	OldestStatistics string
	// DropStatistics removes the rows with :step that began from :from to before :until.
	DropStatistics string
	// CountIDs counts the tasks with an id from :after to below :before, by queue, as tasks.
	CountIDs string
}

const statisticsColumns = `queue, step, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time`

const addStatistics = `INSERT INTO {stat} (
       ` + statisticsColumns + `)
VALUES {rows}`

const addStatisticsRow = `(:queue_name, :step, :began, :source, :enqueued, :started, :completed, :failed, :poisoned,
       :released, :created, :processing, :errors, :poison, :due, :parked, :oldest_due, :latency, :run_time)`

// statisticsTexts returns the statements. t fills in names.
func statisticsTexts(t func(string) string) StatisticsTexts {
	const all = `SELECT ` + statisticsColumns + `
  FROM {stat}
 WHERE step = :step
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
 WHERE step = :step
   AND since >= :from`),
		DropStatistics: t(`DELETE FROM {stat}
 WHERE step = :step
   AND since >= :from
   AND since < :until`),
		CountIDs: t(`SELECT t.queue, count(*) AS tasks
  FROM {task} t
 WHERE t.id >= :after
   AND t.id < :before
 GROUP BY t.queue`),
	}
}

// StatisticsArgs returns the columns of AddStatistics.
func StatisticsArgs(rows []StatisticsRow) dialect.Args {
	texts := func(of func(r *StatisticsRow) string) dialect.Col[string] { return column(rows, of) }
	numbers := func(of func(r *StatisticsRow) int64) dialect.Col[int64] { return column(rows, of) }
	return dialect.Args{
		"queue_name": texts(func(r *StatisticsRow) string { return r.Queue }),
		"step":       numbers(func(r *StatisticsRow) int64 { return r.Step }),
		"began":      numbers(func(r *StatisticsRow) int64 { return r.Since }),
		"source":     texts(func(r *StatisticsRow) string { return r.Source }),
		"enqueued":   numbers(func(r *StatisticsRow) int64 { return r.Enqueued }),
		"started":    numbers(func(r *StatisticsRow) int64 { return r.Started }),
		"completed":  numbers(func(r *StatisticsRow) int64 { return r.Completed }),
		"failed":     numbers(func(r *StatisticsRow) int64 { return r.Failed }),
		"poisoned":   numbers(func(r *StatisticsRow) int64 { return r.Poisoned }),
		"released":   numbers(func(r *StatisticsRow) int64 { return r.Released }),
		"created":    numbers(func(r *StatisticsRow) int64 { return r.Created }),
		"processing": numbers(func(r *StatisticsRow) int64 { return r.Processing }),
		"errors":     numbers(func(r *StatisticsRow) int64 { return r.Error }),
		"poison":     numbers(func(r *StatisticsRow) int64 { return r.Poison }),
		"due":        numbers(func(r *StatisticsRow) int64 { return r.Due }),
		"parked":     numbers(func(r *StatisticsRow) int64 { return r.Parked }),
		"oldest_due": numbers(func(r *StatisticsRow) int64 { return r.OldestDue }),
		"latency":    texts(func(r *StatisticsRow) string { return r.Latency }),
		"run_time":   texts(func(r *StatisticsRow) string { return r.RunTime }),
	}
}

func column[T any](rows []StatisticsRow, of func(r *StatisticsRow) T) dialect.Col[T] {
	out := make(dialect.Col[T], len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}
