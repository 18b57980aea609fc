package worker

import (
	"cmp"
	"context"
	"time"

	"github.com/dbq-go/dbq"
)

// remaining is how much of a lease is left by this process's monotonic clock.
func remaining(l dbq.Lease) time.Duration { return time.Until(l.Until) }

// A flight is one call of a handler, on one task or on several.
type flight struct {
	h      *held
	jobs   []*job  // at least one
	one    [1]*job // what jobs is for a handler of single tasks
	slot   *slot
	ctx    context.Context
	cancel context.CancelCauseFunc
	start  time.Time

	// The following are guarded by held.mu.
	lostBy    error     // why the lease was lost, where that is known
	deadline  time.Time // of the processing timeout; zero is none
	ended     time.Time // when ctx ended; zero is not yet
	returned  bool
	abandoned bool // the worker goes on without it
}

// begin makes the flight of those jobs whose leases still hold, and returns the others apart. With none it is nil.
func (h *held) begin(base context.Context, s *slot, jobs []*job, timeout time.Duration) (f *flight, gone []*job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f = &flight{h: h, slot: s, start: time.Now()}
	f.jobs = f.one[:0]
	for _, j := range jobs {
		if j.state != waiting || !j.ends().After(f.start) {
			gone = append(gone, j)
			continue
		}
		j.state, j.flight, j.began = running, f, f.start
		f.jobs = append(f.jobs, j)
	}
	if len(f.jobs) == 0 {
		return nil, gone
	}
	var stop context.CancelFunc
	if timeout > 0 {
		f.deadline = f.start.Add(timeout)
		base, stop = context.WithDeadlineCause(base, f.deadline, ErrTimeout)
	}
	ctx, cancel := context.WithCancelCause(base)
	f.ctx, f.cancel = ctx, cancel
	if stop != nil {
		f.cancel = func(cause error) {
			cancel(cause)
			stop()
		}
	}
	if h.over != nil {
		f.end(f.start, h.over)
	}
	h.watchBy(f.next(f.start))
	return f, gone
}

// watchBy makes look come at a time, or earlier. held.mu is held.
func (h *held) watchBy(t time.Time) {
	if !h.closed && (h.watchAt.IsZero() || t.Before(h.watchAt)) {
		h.watchAt = t
		h.watch.Reset(time.Until(t))
	}
}

// look sees whether a lease has run out by the local clock, as when the database cannot be reached, or a handler's time is over.
func (h *held) look() {
	h.looking.Lock()
	defer h.looking.Unlock()
	var stuck []*flight
	h.mu.Lock()
	h.watchAt = time.Time{}
	now := time.Now()
	for _, f := range h.flying() {
		f.check(now)
		if !f.returned && !f.ended.IsZero() && now.Sub(f.ended) >= h.grace {
			f.returned, f.abandoned = true, true
			for _, j := range f.jobs {
				j.flight = nil
			}
			stuck = append(stuck, f)
		}
	}
	h.mu.Unlock()
	if len(stuck) > 0 {
		h.stuck(stuck)
	}
}

// close ends look, and waits for one under way: it may be settling the attempt of a handler that is stuck.
func (h *held) close() {
	h.mu.Lock()
	h.closed = true
	h.watch.Stop()
	h.mu.Unlock()
	h.looking.Lock() // look has ended then, and comes no more
	defer h.looking.Unlock()
}

// check ends the context when it is time, and says when to look again. held.mu is held.
func (f *flight) check(now time.Time) {
	if f.returned {
		return
	}
	alive := 0
	for _, j := range f.jobs {
		if j.state == running && j.ends().Sub(now) <= 0 {
			j.state = expired
		}
		if j.state == running {
			alive++
		}
	}
	switch {
	case alive == 0:
		f.end(now, cmp.Or(f.lostBy, dbq.ErrLeaseLost))
	case !f.deadline.IsZero() && !f.deadline.After(now):
		f.end(now, ErrTimeout)
	}
	f.h.watchBy(f.next(now))
}

// end ends the context. held.mu is held.
func (f *flight) end(now time.Time, cause error) {
	if f.returned || !f.ended.IsZero() {
		return
	}
	f.ended = now
	f.cancel(cause)
	f.h.watchBy(now.Add(f.h.grace))
}

// next is when there is something to look at again.
func (f *flight) next(now time.Time) time.Time {
	if !f.ended.IsZero() {
		return f.ended.Add(f.h.grace)
	}
	next := f.deadline
	for _, j := range f.jobs {
		if until := j.ends(); j.state == running && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// finish notes that the handler has returned. It is false when the worker has gone on without it.
func (f *flight) finish() bool {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.cancel(nil)
	if f.abandoned {
		return false
	}
	f.returned = true
	for _, j := range f.jobs {
		if j.flight = nil; j.state == running {
			j.state = finished
		}
	}
	return true
}
