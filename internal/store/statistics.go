package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// Statistics over time are rows of one table. Each worker adds a row for each minute in which it was busy, under its
// own name as the source, and the sampler one for each queue. These rows have period 0. A row never changes. RollUp
// adds the rows of all sources up to rows of minutes, those to rows of hours and these to rows of days, each once the
// period is final. A record has the times up to which that is done, the cursors. A reader takes the rows of a period up
// to its cursor, and rows of shorter periods for the time after it. Each sample also adds a row of no queue, so that a
// minute in which it found no tasks differs from one without a sample. These rows are added up like all the others.

const (
	second = int64(time.Second / time.Microsecond)
	minute = 60 * second

	namespaceStatistics = "statistics"
	rolledUp            = "rolled up"
	sampler, total      = "sampler", "total" // sources
	// samples stands for a queue in the row of each sample. No queue's name has a control character.
	samples = "\tsamples"

	// ReportsUntil is how long after a minute its reports may come.
	ReportsUntil = 10 * time.Minute
	// The sampler counts tasks up to sampleAll of each state in all queues, which it divides by the number of queues,
	// but at most sampleMost and at least sampleLeast of each queue.
	sampleAll, sampleMost, sampleLeast = 100_000, 10_000, 100
	// sampleEnqueued is how many tasks of all queues it counts that were enqueued in a minute. If there are more, it
	// counts an equal share of them in each of sampleParts of the minute.
	sampleEnqueued, sampleParts = 50_000, 60
	// maxSeriesRows is how many rows a series may read: about 100 MB of memory.
	maxSeriesRows = 200_000
)

// A level is a length of periods: its rows are totals of the rows of the level before. keep is how long its rows are
// kept at least.
type level struct {
	seconds int64 // the period, as stored
	keep    time.Duration
}

// period is the length of a level's periods in microseconds.
func (l level) period() int64 { return max(l.seconds*second, minute) }

// levels are in order. The reports of workers are kept a while after they were added up, for readers that have read the
// cursors before.
var levels = []level{{0, time.Hour}, {60, 48 * time.Hour}, {3600, 60 * 24 * time.Hour}, {86400, 730 * 24 * time.Hour}}

// cursors are the times before which the totals of a level are there and final, by its period.
type cursors map[int64]int64

// AddReport adds the counts of a source in the minute that began at p.Since. A source adds one report for each minute;
// a second one changes nothing, so a call whose answer was lost can be repeated.
func (s *Store) AddReport(ctx context.Context, source string, p series.Period) error {
	return s.AddReports(ctx, source, []series.Period{p})
}

// AddReports is AddReport for several queues in the same minute: in one transaction, so that all of them are added or
// none.
func (s *Store) AddReports(ctx context.Context, source string, ps []series.Period) error {
	args, n := statisticsArgs(0, source, ps), len(ps)
	run := s.write
	if n > 1 {
		run = s.writeTx
	}
	err := run(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddStatistics, args, n)
		return err
	})
	if s.sql.Class(err) == dialect.Duplicate {
		return nil
	}
	return err
}

func statisticsArgs(seconds int64, source string, ps []series.Period) dialect.Args {
	rows := make([]sqlrun.StatisticsRow, len(ps))
	for i := range ps {
		p := &ps[i]
		rows[i] = sqlrun.StatisticsRow{Queue: p.Queue, Period: seconds, Since: p.Since, Source: source,
			Enqueued: p.Enqueued, Started: p.Started, Completed: p.Completed, Failed: p.Failed, Poisoned: p.Poisoned,
			Released: p.Released, Created: p.Created, Processing: p.Processing, Error: p.Error, Poison: p.Poison,
			Due: p.Due, Parked: p.Parked, OldestDue: p.OldestDue,
			Latency: p.Latency.String(), RunTime: p.RunTime.String()}
	}
	return sqlrun.ColumnsOf(rows)
}

// sums adds up rows by queue and period.
type sums map[sumKey]*series.Period

type sumKey struct {
	queue string
	since int64
}

// add adds rows in periods of a length that begin at multiples of it. It reports the first row that cannot be read.
func (m sums) add(rows []sqlrun.StatisticsRow, length int64) error {
	for i := range rows {
		r := &rows[i]
		key := sumKey{r.Queue, floor(r.Since, length)}
		p := m[key]
		if p == nil {
			p = &series.Period{Queue: key.queue, Since: key.since}
			m[key] = p
		}
		p.Add(&series.Period{
			Counts: series.Counts{Enqueued: r.Enqueued, Started: r.Started, Completed: r.Completed, Failed: r.Failed,
				Poisoned: r.Poisoned, Released: r.Released},
			Depth: series.Depth{Created: r.Created, Processing: r.Processing, Error: r.Error, Poison: r.Poison,
				Due: r.Due, Parked: r.Parked, OldestDue: r.OldestDue},
		})
		if err := cmp.Or(p.Latency.Parse(r.Latency), p.RunTime.Parse(r.RunTime)); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the sums by queue and time.
func (m sums) sorted() []series.Period {
	out := make([]series.Period, 0, len(m))
	for _, p := range m {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b series.Period) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Since, b.Since))
	})
	return out
}

// floor returns the last multiple of a length up to t.
func floor(t, length int64) int64 { return t - t%length }

// Series are periods by queue and time. Those in which nothing was counted are missing.
type Series struct {
	Periods []series.Period
	Samples map[int64]int64 // how many were taken in the period that begins at a time, of all queues
}

// Series returns the statistics of a queue, or of all queues if queue is empty, from the period that includes from to
// the one before to. Periods have this length, a multiple of a minute, and begin at multiples of it. It returns
// ErrOption if it had to read more than maxSeriesRows rows.
func (s *Store) Series(ctx context.Context, queue string, from, to time.Time, period time.Duration) (Series, error) {
	at, end, length := floor(from.UnixMicro(), period.Microseconds()), to.UnixMicro(), period.Microseconds()
	out, err := read(sqlrun.Slow(ctx), s, func(ctx context.Context, conn dialect.Conn) (sums, error) {
		out := sums{}
		done, _, err := s.readCursors(ctx, conn)
		most := maxSeriesRows
		for i, from := len(levels)-1, at; err == nil && i >= 0 && from < end; i-- {
			l, before := levels[i], end
			if length%l.period() != 0 {
				continue
			}
			if i > 0 {
				before = min(before, done[l.seconds])
			}
			if from >= before {
				continue
			}
			var rows []sqlrun.StatisticsRow
			if rows, err = s.statistics(ctx, conn, l, queue, from, before, most+1); err == nil {
				err = out.add(rows, length)
			}
			if most -= len(rows); most < 0 {
				return out, fmt.Errorf("%w: a series of more than %d rows; take one queue, a shorter time or a longer period",
					errs.ErrOption, maxSeriesRows)
			}
			from = before
		}
		return out, err
	})
	taken := map[int64]int64{}
	for key, p := range out {
		if key.queue == samples {
			taken[key.since] = p.RunTime.Count()
			delete(out, key)
		}
	}
	return Series{out.sorted(), taken}, err
}

// statistics returns up to most rows of a level that began in some time: the samples, and the rows of a queue or of
// all.
func (s *Store) statistics(ctx context.Context, conn dialect.Conn, l level, queue string, from, until int64, most int) (
	[]sqlrun.StatisticsRow, error) {
	args, text := dialect.Args{"period": l.seconds, "from": from, "until": until, "limit": int64(most)},
		s.sql.Texts.Statistics
	if queue != "" {
		args["queue"], args["samples"], text = queue, samples, s.sql.Texts.StatisticsOf
	}
	return sqlrun.QueryAs[sqlrun.StatisticsRow](ctx, s.sql, conn, text, args)
}

// readCursors returns the cursors, and their record if there is one.
func (s *Store) readCursors(ctx context.Context, conn dialect.Conn) (c cursors, r Record, err error) {
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.GetKV,
		dialect.Args{"namespace": namespaceStatistics, "name": rolledUp})
	if err != nil || len(rows) == 0 {
		return nil, r, err
	}
	return c, rows[0], json.Unmarshal([]byte(rows[0].Value), &c)
}

// Sample adds the numbers of tasks of each queue, and of those enqueued in the minute that began at since, and that
// this minute was sampled. It leaves out the queues that without reports, and queues in which there is nothing to
// count. Call it soon after that minute.
func (s *Store) Sample(ctx context.Context, since int64, without func(queue string) bool) error {
	ctx = sqlrun.Slow(ctx)
	counted, err := s.countSome(ctx)
	if err != nil {
		return err
	}
	enqueued, err := s.countEnqueued(ctx, since)
	if err != nil {
		return err
	}
	rows := []series.Period{Sampled(since)}
	add := func(queue string, d series.Depth) {
		p := series.Period{Queue: queue, Since: since, Depth: d}
		p.Enqueued = enqueued[queue]
		delete(enqueued, queue)
		if !without(queue) && (p.Enqueued > 0 || d != series.Depth{}) {
			rows = append(rows, p)
		}
	}
	for _, q := range counted {
		add(q.Queue, series.Depth{Created: q.Count[state.Created], Processing: q.Count[state.Processing],
			Error: q.Count[state.Error], Poison: q.Count[state.Poison], Due: q.Due, Parked: q.Parked,
			OldestDue: q.OldestDue.Microseconds()})
	}
	for queue := range enqueued { // their tasks have all completed
		add(queue, series.Depth{})
	}
	return s.AddReports(ctx, sampler, rows)
}

// Sampled returns the row of a sample itself. It has a histogram, so the sums of the numbers over all queues count
// tasks only.
func Sampled(since int64) series.Period {
	return series.Period{Queue: samples, Since: since, Counts: series.Counts{RunTime: series.Histogram{1}}}
}

// countSome counts the tasks of each queue up to a limit for each state. With many queues the limit is lower, so that a
// sample costs about the same whatever the tables have.
func (s *Store) countSome(ctx context.Context) ([]QueueStats, error) {
	c, err := s.counting(ctx, func(ctx context.Context, c *counter) error {
		if err := c.findQueues(ctx); err != nil {
			return err
		}
		names := slices.Collect(maps.Keys(c.queues))
		return c.countQueues(ctx, max(min(sampleAll/max(len(names), 1), sampleMost), sampleLeast), names...)
	})
	return c.sorted(), err
}

// countEnqueued counts the tasks of a minute by their ids, which begin with the time. If there are more than
// sampleEnqueued, it counts the first moments of each part of the minute, and multiplies.
func (s *Store) countEnqueued(ctx context.Context, since int64) (map[string]int64, error) {
	out := map[string]int64{}
	begin := time.UnixMicro(since)
	end := begin.Add(time.Minute)
	_, more, err := s.idBehind(ctx, firstID(begin), firstID(end), sampleEnqueued)
	if err != nil || !more {
		if err == nil {
			err = s.addEnqueued(ctx, out, begin, end, end)
		}
		return out, err
	}
	const part = time.Minute / sampleParts
	for ; begin.Before(end) && err == nil; begin = begin.Add(part) {
		until := begin.Add(part)
		last, more, failed := s.idBehind(ctx, firstID(begin), firstID(until), sampleEnqueued/sampleParts)
		if err = failed; more {
			until = TimeOf(last)
			if least := begin.Add(time.Millisecond); until.Before(least) {
				until = least
			}
		}
		if err == nil {
			err = s.addEnqueued(ctx, out, begin, until, begin.Add(part))
		}
	}
	return out, err
}

// addEnqueued counts the tasks from begin until a time, and adds as many for each queue as there are until the end if
// they go on like this.
func (s *Store) addEnqueued(ctx context.Context, out map[string]int64, begin, until, end time.Time) error {
	rows, err := readRows[sqlrun.QueueCount](ctx, s, s.sql.Texts.CountIDs,
		dialect.Args{"after": firstID(begin), "before": firstID(until)})
	for _, r := range rows {
		out[r.Queue] += r.Tasks * end.Sub(begin).Microseconds() / until.Sub(begin).Microseconds()
	}
	return err
}

// RollUp adds up the periods that are final at a time by the database's clock, and removes rows whose retention has
// passed. Calls at the same time do not count anything twice. If the clock was ahead and is right again, RollUp adds
// hours and days up again; it leaves out later reports for the minutes that it had added up too early.
func (s *Store) RollUp(ctx context.Context, now int64) error {
	ctx = sqlrun.Slow(ctx)
	done, err := read(ctx, s, func(ctx context.Context, conn dialect.Conn) (cursors, error) {
		done, _, err := s.readCursors(ctx, conn)
		return done, err
	})
	for i := 1; i < len(levels) && err == nil; i++ {
		for from, to := levels[i-1], levels[i]; err == nil && done.pending(from, to, now); {
			err = s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
				done, err = s.rollUpOne(ctx, conn, from, to, now)
				return err
			})
		}
	}
	if err != nil {
		return err
	}
	return s.dropStatistics(ctx, now, done)
}

// final returns the time before which all rows of a level are there, in whole periods of the next level.
func (c cursors) final(from, to level, now int64) int64 {
	until := c[from.seconds]
	if from.seconds == 0 {
		until = now - ReportsUntil.Microseconds() - minute
	}
	return floor(until, to.period())
}

// pending reports whether rollUpOne has something to do: a period to add up, or a cursor in the future, which comes
// from a clock that was ahead.
func (c cursors) pending(from, to level, now int64) bool {
	return c[to.seconds] < c.final(from, to, now) || c[to.seconds] > now
}

// rollUpOne adds up the next period of a level from the rows of the level before, and moves the cursor behind it. It
// holds the record of the cursors locked, and returns them.
func (s *Store) rollUpOne(ctx context.Context, conn dialect.Conn, from, to level, now int64) (cursors, error) {
	r, exists, err := s.lockKV(ctx, conn, namespaceStatistics, rolledUp)
	if err != nil {
		return nil, err
	}
	done := cursors{}
	if exists {
		if err := json.Unmarshal([]byte(r.Value), &done); err != nil {
			return nil, err
		}
	}
	final := done.final(from, to, now)
	if !done.pending(from, to, now) { // another call has done it
		return done, nil
	}
	if done[to.seconds] > now {
		done[to.seconds] = final
		if from.seconds > 0 { // minutes and hours are kept for days, the reports of workers are not
			args := dialect.Args{"period": to.seconds, "from": final, "until": int64(math.MaxInt64)}
			if _, err := s.sql.Exec(ctx, conn, s.sql.Texts.DropStatistics, args); err != nil {
				return nil, err
			}
		}
		return done, s.putCursors(ctx, conn, r, exists, done)
	}
	next, err := s.oldest(ctx, conn, from, done[to.seconds])
	if err != nil {
		return nil, err
	}
	if next == nil || *next >= final {
		done[to.seconds] = final
		return done, s.putCursors(ctx, conn, r, exists, done)
	}
	begin := floor(*next, to.period())
	done[to.seconds] = begin + to.period()
	// The totals are there already if a clock was ahead.
	rows, err := s.statistics(ctx, conn, to, "", begin, begin+to.period(), 1)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		return done, s.putCursors(ctx, conn, r, exists, done)
	}
	rows, err = s.statistics(ctx, conn, from, "", begin, begin+to.period(), math.MaxInt32)
	if err != nil {
		return nil, err
	}
	totals := sums{}
	if err := totals.add(rows, to.period()); err != nil {
		return nil, err
	}
	ps := totals.sorted()
	args := statisticsArgs(to.seconds, total, ps)
	_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddStatistics, args, len(ps))
	if s.sql.Class(err) == dialect.Duplicate { // another call has done so before there was a record to lock
		return nil, errKVBusy
	}
	if err != nil {
		return nil, err
	}
	return done, s.putCursors(ctx, conn, r, exists, done)
}

func (s *Store) putCursors(ctx context.Context, conn dialect.Conn, old Record, exists bool, c cursors) error {
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.putKV(ctx, conn, old, exists, namespaceStatistics, rolledUp, string(value))
}

// oldest returns when the first row of a level began at a time or later, or nil if there is none.
func (s *Store) oldest(ctx context.Context, conn dialect.Conn, l level, from int64) (*int64, error) {
	rows, err := sqlrun.QueryAs[sqlrun.TimeRow](ctx, s.sql, conn, s.sql.Texts.OldestStatistics,
		dialect.Args{"period": l.seconds, "from": from})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0].Since, nil
}

// dropStatistics removes the rows of each level whose retention has passed and that have been added up, some periods at
// a time.
func (s *Store) dropStatistics(ctx context.Context, now int64, done cursors) (err error) {
	for i, l := range levels {
		before := now - l.keep.Microseconds()
		if i+1 < len(levels) {
			before = min(before, done[levels[i+1].seconds])
		}
		for more := true; more && err == nil; {
			err = s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
				first, err := s.oldest(ctx, conn, l, 0)
				if more = err == nil && first != nil && *first < before; !more {
					return err
				}
				args := dialect.Args{"period": l.seconds, "from": int64(0), "until": min(before, *first+dropPeriods*l.period())}
				_, err = s.sql.Exec(ctx, conn, s.sql.Texts.DropStatistics, args)
				return err
			})
		}
	}
	return err
}

// dropPeriods is how many periods one statement removes.
const dropPeriods = 10
