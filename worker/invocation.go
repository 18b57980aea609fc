package worker

import (
	"cmp"
	"context"
	"time"

	"github.com/dbq-go/dbq"
)

// invocation is one call of a handler, on one task or on several.
type invocation struct {
	in        *leases
	tasks     []*leased      // at least one
	one       [1]*leased     // the backing array of tasks for a handler of single tasks
	goroutine int            // its number, to find its stack
	parent    handlerContext // of ctx
	ctx       context.Context
	cancel    context.CancelCauseFunc
	start     time.Time

	// The following are guarded by leases.mu.
	lostBy    error     // why the lease was lost, if known
	deadline  time.Time // from Timeout; zero means none
	ended     time.Time // when ctx ended; zero if it has not
	returned  bool
	abandoned bool // the worker continues without it
}

// begin starts the invocation of the tasks whose leases are still valid, and returns the other tasks separately. If
// none is left, it returns a nil invocation. base is the parent of the handler's context.
func (s *leases) begin(base context.Context, goroutine int, tasks []*leased, timeout time.Duration) (
	f *invocation, gone []*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = &invocation{in: s, goroutine: goroutine, start: time.Now()}
	f.tasks = f.one[:0]
	for _, l := range tasks {
		if l.state != waiting || !l.ends().After(f.start) {
			gone = append(gone, l)
			continue
		}
		l.state, l.invocation, l.began = running, f, f.start
		f.tasks = append(f.tasks, l)
	}
	if len(f.tasks) == 0 {
		return nil, gone
	}
	f.parent = handlerContext{base, f}
	f.setContext(&f.parent, timeout)
	if s.over != nil {
		f.end(f.start, s.over)
	}
	s.checkBy(f.nextCheck())
	return f, gone
}

func (f *invocation) setContext(base context.Context, timeout time.Duration) {
	if timeout <= 0 {
		f.ctx, f.cancel = context.WithCancelCause(base)
		return
	}
	f.deadline = f.start.Add(timeout)
	base, stop := context.WithDeadlineCause(base, f.deadline, ErrTimeout)
	ctx, cancel := context.WithCancelCause(base)
	f.ctx, f.cancel = ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// check ends the context if it is time. The caller holds leases.mu.
func (f *invocation) check(now time.Time) {
	if f.returned {
		return
	}
	held := false
	for _, l := range f.tasks {
		if l.state == running && !l.ends().After(now) {
			l.state = expired
		}
		held = held || l.state == running
	}
	switch {
	case !held:
		f.end(now, cmp.Or(f.lostBy, dbq.ErrLeaseLost))
	case !f.deadline.IsZero() && !f.deadline.After(now):
		f.end(now, ErrTimeout)
	}
	f.in.checkBy(f.nextCheck())
}

// end ends the context. The caller holds leases.mu.
func (f *invocation) end(now time.Time, cause error) {
	if f.returned || !f.ended.IsZero() {
		return
	}
	f.ended = now
	f.cancel(cause)
	f.in.checkBy(f.nextCheck())
}

// nextCheck returns when check may have something to do. The caller holds leases.mu.
func (f *invocation) nextCheck() time.Time {
	if !f.ended.IsZero() {
		return f.ended.Add(f.in.cfg.Grace)
	}
	next := f.deadline
	for _, l := range f.tasks {
		if until := l.ends(); l.state == running && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// isStuck reports whether the handler has ignored the end of its context for Grace. The caller holds leases.mu.
func (f *invocation) isStuck(now time.Time) bool {
	return !f.returned && !f.ended.IsZero() && now.Sub(f.ended) >= f.in.cfg.Grace
}

// abandon records that the worker continues without the handler. The caller holds leases.mu.
func (f *invocation) abandon() {
	f.returned, f.abandoned = true, true
	for _, l := range f.tasks {
		l.invocation = nil
	}
}

// finish records that the handler has returned. It returns false if the worker has continued without it.
func (f *invocation) finish() bool {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	f.cancel(nil)
	if f.abandoned {
		return false
	}
	f.returned = true
	for _, l := range f.tasks {
		if l.invocation = nil; l.state == running {
			l.state = finished
		}
	}
	return true
}
