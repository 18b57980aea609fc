package store

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

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
	// The sample's own row has a histogram, so that the sums of the numbers over all queues are those of tasks.
	rows := []series.Period{{Queue: samples, Since: since, Counts: series.Counts{RunTime: series.Histogram{1}}}}
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

// countSome counts the tasks of each queue up to a limit for each state. With many queues the limit is lower, so that a
// sample costs about the same whatever the tables have.
func (s *Store) countSome(ctx context.Context) ([]QueueStats, error) {
	var c *counter
	err := s.read(ctx, func(ctx context.Context, conn dialect.Conn) error {
		c = &counter{s: s, conn: conn, queues: map[string]*QueueStats{}}
		if err := c.findQueues(ctx); err != nil {
			return err
		}
		names := slices.Collect(maps.Keys(c.queues))
		return c.countQueues(ctx, max(min(sampleAll/max(len(names), 1), sampleMost), sampleLeast), names...)
	})
	return c.sorted(), err
}

// countEnqueued counts the tasks of a minute by their ids, which begin with the time. If there are more than
// sampleEnqueued, it counts in each part of the minute those of its first moments, and multiplies.
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
	return s.read(ctx, func(ctx context.Context, conn dialect.Conn) error {
		rows, err := sqlrun.QueryAs[sqlrun.QueueCount](ctx, s.sql, conn, s.sql.Texts.CountIDs,
			dialect.Args{"after": firstID(begin), "before": firstID(until)})
		for _, r := range rows {
			out[r.Queue] += r.Tasks * end.Sub(begin).Microseconds() / until.Sub(begin).Microseconds()
		}
		return err
	})
}

// RollUp adds up the periods that are final at a time by the database's clock, and removes rows whose retention has
// passed. Calls at the same time do not count anything twice. If the clock was ahead and is right again, RollUp adds
// hours and days up again; it leaves out what came later for the minutes that it had added up too early.
func (s *Store) RollUp(ctx context.Context, now int64) error {
	ctx = sqlrun.Slow(ctx)
	var done cursors
	err := s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		done, _, err = s.readCursors(ctx, conn)
		return err
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
	until := c[from.step]
	if from.step == 0 {
		until = now - ReportsUntil.Microseconds() - minute
	}
	return floor(until, to.period())
}

// pending reports whether rollUpOne has something to do: a period to add up, or a cursor in the future, which comes
// from a clock that was ahead.
func (c cursors) pending(from, to level, now int64) bool {
	return c[to.step] < c.final(from, to, now) || c[to.step] > now
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
	if done[to.step] > now {
		done[to.step] = final
		if from.step > 0 { // minutes and hours are kept for days, the reports of workers are not
			args := dialect.Args{"step": to.step, "from": final, "until": int64(math.MaxInt64)}
			if _, err := s.sql.Exec(ctx, conn, s.sql.Texts.DropStatistics, args); err != nil {
				return nil, err
			}
		}
		return done, s.putCursors(ctx, conn, r, exists, done)
	}
	next, err := s.oldest(ctx, conn, from, done[to.step])
	if err != nil {
		return nil, err
	}
	if next == nil || *next >= final {
		done[to.step] = final
		return done, s.putCursors(ctx, conn, r, exists, done)
	}
	begin := floor(*next, to.period())
	done[to.step] = begin + to.period()
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
	args := statisticsArgs(to.step, total, ps)
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
		dialect.Args{"step": l.step, "from": from})
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
			before = min(before, done[levels[i+1].step])
		}
		for more := true; more && err == nil; {
			err = s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
				first, err := s.oldest(ctx, conn, l, 0)
				if more = err == nil && first != nil && *first < before; !more {
					return err
				}
				args := dialect.Args{"step": l.step, "from": int64(0), "until": min(before, *first+dropPeriods*l.period())}
				_, err = s.sql.Exec(ctx, conn, s.sql.Texts.DropStatistics, args)
				return err
			})
		}
	}
	return err
}

// dropPeriods is how many periods one statement removes.
const dropPeriods = 10
