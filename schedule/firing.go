package schedule

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/store"
)

// A firing is the effect of a schedule that is due: the tasks that it enqueues, and its record afterwards.
type firing struct {
	record store.Record
	read   time.Time // when the record had been read, by this process's clock
	value  value
	def    Schedule
	times  []time.Time
}

// fireTogether fires schedules in one transaction, because the commit is most of the cost. It returns how long after
// the records were read the first of the schedules that have fired is due again, and those that must fire one by one:
// all, with the error, if one of them cannot fire, another process has fired one (errFired), or they take too long
// together (errSlow).
func (s *Schedules) fireTogether(ctx context.Context, records []store.Record, read time.Time) (
	again time.Duration, rest []store.Record, err error,
) {
	bounded, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	// Processes that fire the same schedules lock them in the same order.
	records = slices.SortedFunc(slices.Values(records), func(a, b store.Record) int {
		return strings.Compare(a.Name, b.Name)
	})
	var all []firing
	tasks := 0
	for _, r := range records {
		f, err := s.plan(bounded, r, read)
		if err != nil || tasks+len(f.times) > groupTasks {
			rest = append(rest, r)
			continue
		}
		all, tasks = append(all, f), tasks+len(f.times)
	}
	err = s.commit(bounded, all)
	switch {
	case err == nil:
		again = maxPause
		for i := range all {
			again = min(again, all[i].again())
		}
		return again, rest, nil
	case bounded.Err() != nil && ctx.Err() == nil:
		err = errSlow
	}
	return 0, records, err
}

// fireOne fires one schedule, with a time limit. It returns how long after the record was read the schedule is due
// again. If another process was faster, fireOne does nothing and returns errFired.
func (s *Schedules) fireOne(ctx context.Context, r store.Record, read time.Time, limit time.Duration) (
	again time.Duration, err error,
) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, err := s.plan(bounded, r, read)
	if err == nil {
		err = s.commit(bounded, []firing{f})
		if errors.Is(err, dbq.ErrInvalid) { // it would fail each time: skip this time, and store the reason
			text := err.Error()
			f.value.Problem = strings.ToValidUTF8(text[:min(len(text), maxProblem)], "") // the cut may be inside a character
			f.times = nil
			err = s.commit(bounded, []firing{f})
		}
	}
	switch {
	case err == nil:
		return f.again(), nil
	case ctx.Err() != nil:
		return 0, err
	case bounded.Err() != nil, errors.Is(err, dbq.ErrWriterBusy):
		return 0, errSlow
	case s.store.IsConflict(err):
		return 0, errBusy
	}
	return 0, err
}

// again returns how long after the record was read the schedule is due again, at most maxPause.
func (f *firing) again() time.Duration {
	if f.value.Next.IsZero() {
		return maxPause
	}
	return min(f.value.Next.Sub(nowOf(f.record)), maxPause)
}

// plan determines the firing of a due schedule.
func (s *Schedules) plan(ctx context.Context, r store.Record, read time.Time) (f firing, err error) {
	f = firing{record: r, read: read}
	if f.value, err = parse(r); err != nil {
		return f, err
	}
	f.def = f.value.schedule(r.Name)
	c, err := f.def.clock(f.value.Start)
	if err != nil { // such as a zone that is unknown here: another process may know it
		return f, err
	}
	f.times, f.value.Next = f.def.due(c, f.value.Next, nowOf(r))
	f.value.Problem = ""
	if len(f.times) == 0 {
		f.value.Problem = "the time was missed"
	}
	if f.def.NoOverlap && len(f.times) > 0 {
		f.times = f.times[len(f.times)-1:]
		if f.value.Problem, err = s.overlap(ctx, &f.value); err != nil {
			return f, err
		}
		if f.value.Problem != "" {
			f.times = nil
		}
	}
	return f, nil
}

// commit enqueues the tasks of schedules and moves each to its next time, in one transaction. If another process has
// changed one of them, commit does nothing and returns errFired.
func (s *Schedules) commit(ctx context.Context, all []firing) error {
	tx, err := s.client.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	queues := map[string][]*firing{}
	for i := range all {
		queues[all[i].def.Queue] = append(queues[all[i].def.Queue], &all[i])
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		if err := s.enqueue(ctx, tx, queue, queues[queue]); err != nil {
			return err
		}
	}
	for _, f := range all {
		text, ttl, err := f.value.encode(f.now())
		if err != nil {
			return err
		}
		switch done, err := s.store.SwapKVTx(ctx, tx, f.record, text, ttl); {
		case err != nil:
			return err
		case !done:
			return errFired
		}
	}
	return tx.Commit()
}

// enqueue adds the tasks of schedules of one queue.
func (s *Schedules) enqueue(ctx context.Context, tx *sql.Tx, queue string, all []*firing) error {
	var tasks []dbq.NewTask
	for _, f := range all {
		for _, at := range f.times {
			tasks = append(tasks, f.def.taskFor(at))
		}
	}
	added, err := s.client.Queue(queue).EnqueueManyTx(ctx, tx, tasks)
	if err != nil {
		return err
	}
	for _, f := range all {
		if n := len(f.times); n > 0 {
			f.value.Last = f.times[n-1].UTC()
			f.value.LastTaskID = &added[n-1].ID // including one that already existed
			added = added[n:]
		}
	}
	return nil
}

// clockError is the maximum by which two measurements of the same few seconds differ.
const clockError = time.Millisecond

// now returns the database's time, or slightly less: a record may expire after the next time but not before it, and
// with a thousand schedules due together, the last fires long after it was read.
func (f *firing) now() time.Time {
	return nowOf(f.record).Add(max(time.Since(f.read)-clockError, 0))
}
