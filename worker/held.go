package worker

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// job is one task that the worker holds.
type job struct {
	task  dbq.Task
	taken time.Time // when its checkout returned

	// The following are guarded by held.mu.
	held   *held
	lease  dbq.Lease // as renewed last
	state  jobState
	flight *flight   // while it is running
	began  time.Time // when its handler was called; set before that, and not changed
}

type jobState int

const (
	waiting jobState = iota
	running
	finished // its settlement is under way
	lost
)

func (j *job) currentLease() dbq.Lease {
	j.held.mu.Lock()
	defer j.held.mu.Unlock()
	return j.lease
}

func (j *job) isLost() bool {
	j.held.mu.Lock()
	defer j.held.mu.Unlock()
	return j.state == lost
}

// held is all that a worker holds, from checkout to settlement.
type held struct {
	grace time.Duration // how long a handler may ignore the end of its context
	stuck func(f *flight)
	empty chan struct{} // told when nothing is held any more

	mu   sync.Mutex
	jobs map[*job]struct{}
}

func newHeld(grace time.Duration, stuck func(f *flight)) *held {
	return &held{grace: grace, stuck: stuck, empty: make(chan struct{}, 1), jobs: map[*job]struct{}{}}
}

func (h *held) add(t dbq.Task) *job {
	j := &job{task: t, taken: time.Now(), held: h, lease: t.Lease}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs[j] = struct{}{}
	return j
}

func (h *held) remove(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, j)
	if len(h.jobs) == 0 {
		select {
		case h.empty <- struct{}{}:
		default:
		}
	}
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.jobs)
}

// leases are what a heartbeat renews, by the lease's task and fence.
func (h *held) leases() ([]dbq.Lease, map[dbq.Lease]*job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ls, byLease := make([]dbq.Lease, 0, len(h.jobs)), make(map[dbq.Lease]*job, len(h.jobs))
	for j := range h.jobs {
		if j.state != lost {
			ls = append(ls, j.lease)
			byLease[key(j.lease)] = j
		}
	}
	return ls, byLease
}

// key is a lease without its end, which changes.
func key(l dbq.Lease) dbq.Lease {
	l.Until = time.Time{}
	return l
}

// renew notes the new end of a lease. The flight's timer finds it when the old end has come.
func (h *held) renew(j *job, l dbq.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.lease = l
}

// lose marks a task whose lease is gone and ends its handler. What is being settled is gone for another reason: it has been.
func (h *held) lose(j *job) (was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j.state != running && j.state != waiting {
		return false
	}
	f := j.flight
	j.state = lost
	if f != nil {
		f.check(time.Now())
	}
	return true
}

// flights are the calls of handlers that have not returned.
func (h *held) flights() []*flight {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[*flight]bool{}
	var out []*flight
	for j := range h.jobs {
		if f := j.flight; f != nil && !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}

// cancelAll ends the contexts of all handlers.
func (h *held) cancelAll(cause error) {
	for _, f := range h.flights() {
		h.mu.Lock()
		f.end(time.Now(), cause)
		h.mu.Unlock()
	}
}

// remaining is how much of a lease is left by this process's monotonic clock.
func remaining(l dbq.Lease) time.Duration { return time.Until(l.Until) }

// A flight is one call of a handler, on one task or on several.
type flight struct {
	h      *held
	jobs   []*job
	slot   *slot
	ctx    context.Context
	cancel context.CancelCauseFunc
	start  time.Time

	// The following are guarded by held.mu.
	deadline  time.Time // of the processing timeout; zero is none
	timer     *time.Timer
	ended     time.Time // when ctx ended; zero is not yet
	returned  bool
	abandoned bool // the worker goes on without it
}

// begin makes the flight of those jobs whose leases still hold, and returns the others apart. With none it is nil.
func (h *held) begin(base context.Context, s *slot, jobs []*job, timeout time.Duration) (f *flight, gone []*job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f = &flight{h: h, slot: s, start: time.Now()}
	for _, j := range jobs {
		if j.state != waiting || remaining(j.lease) <= 0 {
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
	f.ctx = ctx
	f.cancel = func(cause error) {
		cancel(cause)
		if stop != nil {
			stop()
		}
	}
	f.timer = time.AfterFunc(f.next(f.start).Sub(f.start), f.tick)
	return f, gone
}

// tick looks whether a lease has run out by the local clock, as when the database cannot be reached, or the handler's time is over.
func (f *flight) tick() {
	f.h.mu.Lock()
	now := time.Now()
	f.check(now)
	stuck := !f.returned && !f.ended.IsZero() && now.Sub(f.ended) >= f.h.grace
	if stuck {
		f.returned, f.abandoned = true, true
		f.timer.Stop()
		for _, j := range f.jobs {
			j.flight = nil
		}
	}
	f.h.mu.Unlock()
	if stuck {
		f.h.stuck(f)
	}
}

// check ends the context when it is time, and sets the timer. held.mu is held.
func (f *flight) check(now time.Time) {
	if f.returned {
		return
	}
	alive := 0
	for _, j := range f.jobs {
		if j.state == running && j.lease.Until.Sub(now) <= 0 {
			j.state = lost
		}
		if j.state == running {
			alive++
		}
	}
	switch {
	case alive == 0:
		f.end(now, dbq.ErrLeaseLost)
	case !f.deadline.IsZero() && !f.deadline.After(now):
		f.end(now, ErrTimeout)
	}
	f.timer.Reset(f.next(now).Sub(now))
}

// end ends the context. held.mu is held.
func (f *flight) end(now time.Time, cause error) {
	if f.returned || !f.ended.IsZero() {
		return
	}
	f.ended = now
	f.cancel(cause)
	f.timer.Reset(f.h.grace)
}

// next is when there is something to look at again.
func (f *flight) next(now time.Time) time.Time {
	if !f.ended.IsZero() {
		return f.ended.Add(f.h.grace)
	}
	next := f.deadline
	for _, j := range f.jobs {
		if until := j.lease.Until; j.state == running && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// finish notes that the handler has returned. It is false when the worker has gone on without it.
func (f *flight) finish() bool {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.timer.Stop()
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
