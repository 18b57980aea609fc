package schedule

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/store"
)

const (
	maxPause   = 5 * time.Second        // within which Run finds schedules that other processes put
	errorPause = 5 * time.Second        // after an error
	busyPause  = 100 * time.Millisecond // after a conflict with another transaction

	patience     = 3 * time.Second // for one schedule: a locked record does not delay the others
	lessPatience = patience / 6    // for the others of a turn after a locked one: a process that stopped can lock many
	groupWait    = time.Second     // for a group, whose schedules fire one by one afterwards

	groupSize  = 50  // schedules that fire in one transaction,
	groupTasks = 500 // and their tasks, if they make up for missed times
	maxMet     = 20  // groups of which another process has fired a schedule; then they fire one by one

	firstRead = 10     // schedules read at once, while few are due
	oneRound  = 1000   // if all of these are due
	allRounds = 10_000 // if some of these cannot fire
)

var (
	errBusy  = errors.New("conflict with another transaction")
	errSlow  = fmt.Errorf("%w: its transaction has not ended after %v", errBusy, patience)
	errFired = errors.New("another process has fired or changed the schedule")
)

// A fireError is the error of schedules that cannot fire, while others can.
type fireError struct {
	names []string // of the schedules
	err   error
}

func (e *fireError) add(name string, err error) {
	e.names = append(e.names, name)
	e.err = errors.Join(e.err, fmt.Errorf("schedule %q: %w", name, err))
}

func (e *fireError) Error() string { return e.err.Error() }
func (e *fireError) Unwrap() error { return e.err }

// failingNow describes which schedules cannot fire: all, because the database does not answer, or some. Without an
// error it returns "". It does not depend on the text of the error, which may contain a port.
func failingNow(err error) string {
	var some *fireError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &some):
		return strings.Join(slices.Sorted(slices.Values(some.names)), "\n")
	}
	return "all"
}

// Run fires the schedules until ctx ends, and then returns nil. Any number of processes can run it: each time fires
// once. It reads from the database when the next schedule is due, at least every five seconds. If the database cannot
// be reached, Run logs that once and keeps trying; CatchUp then determines which missed times fire.
func (s *Schedules) Run(ctx context.Context) error {
	failing := "" // the logged errors
	for {
		pause, err := s.fireDue(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, dbq.ErrClosed):
			return s.wrap("run schedules", "", err)
		case err != nil && failing != failingNow(err):
			s.core.Logger.Error("dbq: schedules cannot fire", "error", err)
		case err == nil && failing != "":
			s.core.Logger.Info("dbq: schedules fire again")
		}
		failing = failingNow(err)
		if pause == 0 && err != nil { // one schedule that cannot fire does not delay the others
			pause = errorPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Fire fires the schedules that are due now, once, and returns: for a process that something else starts from time to
// time, and for tests. Run does so until its context ends.
func (s *Schedules) Fire(ctx context.Context) error {
	_, err := s.fireDue(ctx)
	return s.wrap("fire schedules", "", err)
}

// poke wakes this process's own Run after a change.
func (s *Schedules) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fireDue fires each schedule that is due, and returns when to check again. Usually few are due, so it first reads few.
func (s *Schedules) fireDue(ctx context.Context) (pause time.Duration, err error) {
	for limit, met := firstRead, 0; ; {
		records, err := s.store.EarliestKV(ctx, namespace, limit)
		if err != nil {
			return 0, err
		}
		n := len(records)
		if n > 0 && s.setBack(records[0].Now) {
			if err := s.correct(ctx); err != nil {
				s.newest.Store(0) // again
				return 0, err
			}
			continue
		}
		more := n == limit && records[n-1].Expired() // there may be more that are due
		if more && limit == firstRead {
			limit = oneRound
			continue
		}
		pause, err = s.fireEach(ctx, records, met < maxMet)
		switch {
		case errors.Is(err, errFired): // read which are still due
			met++
			continue
		case !more || ctx.Err() != nil || limit == allRounds:
			return pause, err
		case err == nil:
			return busyPause, nil
		}
		limit = allRounds
	}
}

// fireEach fires the records that are due. They are in the order in which they are due. If there are many, it begins at
// a random one, because other processes fire them at the same time. If together, it fires groups in one transaction
// each, and returns errFired if another process has fired one of a group. Otherwise, if a group cannot fire, and after
// one that took too long, they fire one by one; once fireEach meets one that another process has fired, it checks each
// before it fires it.
func (s *Schedules) fireEach(ctx context.Context, records []store.Record, together bool) (
	pause time.Duration, err error) {
	read, due, again := time.Now(), len(records), maxPause
	if i := slices.IndexFunc(records, func(r store.Record) bool { return !r.Expired() }); i >= 0 {
		due, again = i, min(again, micros(*records[i].Expires-records[i].Now))
	}
	first := 0
	if due > firstRead {
		first = rand.IntN(due)
	}
	limit, busy, met, failed := patience, false, false, &fireError{}
	for group := range slices.Chunk(slices.Concat(records[first:due], records[:first]), groupSize) {
		if together && len(group) > 1 {
			var next time.Duration
			switch next, group, err = s.fireTogether(ctx, group, read); {
			case err == nil:
				again = min(again, next)
			case errors.Is(err, errFired):
				return 0, err
			case errors.Is(err, errSlow): // a record is locked, or the server is far away: do not wait like that again
				together = false
			}
		}
		for _, r := range group {
			if met && s.changed(ctx, r) {
				continue
			}
			next, err := s.fireOne(ctx, r, read, limit)
			switch {
			case err == nil:
				again = min(again, next)
			case ctx.Err() != nil:
				return 0, err
			case errors.Is(err, errFired):
				met = true
			case errors.Is(err, errSlow) && micros(r.Now-*r.Expires) >= missed: // it cannot fire, and no log line would say so
				failed.add(r.Name, err)
			case errors.Is(err, errBusy):
			default:
				failed.add(r.Name, err)
			}
			busy = busy || errors.Is(err, errBusy)
			if errors.Is(err, errSlow) { // as are all of a group, if its process has stopped
				limit = lessPatience
			}
		}
	}
	pause = max(again-time.Since(read), time.Millisecond)
	if busy {
		pause = busyPause
	}
	if failed.err != nil {
		return pause, failed
	}
	return pause, nil
}

// changed reports whether a record has certainly changed since it was read.
func (s *Schedules) changed(ctx context.Context, r store.Record) bool {
	now, exists, err := s.store.GetKV(ctx, namespace, r.Name)
	return err == nil && (!exists || now.Version != r.Version)
}

// stampOf writes a scheduled time.
func stampOf(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// reference returns the reference of the task of one time.
func (d *Schedule) reference(at time.Time) string { return "schedule:" + d.Name + ":" + stampOf(at) }

// taskFor returns the task of one time.
func (d *Schedule) taskFor(at time.Time) dbq.NewTask {
	t, stamp := d.Task, stampOf(at)
	t.Reference = d.reference(at)
	t.Headers = maps.Clone(t.Headers)
	if t.Headers == nil {
		t.Headers = map[string]string{}
	}
	t.Headers[HeaderName], t.Headers[HeaderTime] = d.Name, stamp
	t.Delay += d.jitter(stamp)
	return t
}

// jitter returns a delay below Jitter that is the same in every process.
func (d *Schedule) jitter(stamp string) time.Duration {
	if d.Jitter == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.Name + " " + stamp))
	return time.Duration(h.Sum64() % uint64(d.Jitter)).Truncate(time.Microsecond)
}
