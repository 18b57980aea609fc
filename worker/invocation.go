package worker

import (
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
	reported  bool // as running for long; only the controller uses it

	// The following are guarded by leases.mu.
	deadline  time.Time // from Timeout; zero means none
	ended     time.Time // when ctx ended; zero if it has not
	returned  bool
	inTx      bool // the Func of a TxHandler runs
	abandoned bool // the worker continues without it
}

// begin starts the invocation of the tasks whose leases are still valid, and returns the other tasks separately. If
// none is left, it returns a nil invocation. base is the parent of the handler's context.
func (s *leases) begin(base context.Context, goroutine int, tasks []*leased, timeout time.Duration) (
	inv *invocation, gone []*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inv = &invocation{in: s, goroutine: goroutine, start: time.Now()}
	inv.tasks = inv.one[:0]
	for _, l := range tasks {
		if l.state != waiting || !l.ends().After(inv.start) {
			gone = append(gone, l)
			continue
		}
		l.state, l.invocation, l.began = running, inv, inv.start
		inv.tasks = append(inv.tasks, l)
	}
	if len(inv.tasks) == 0 {
		return nil, gone
	}
	inv.parent = handlerContext{base, inv}
	inv.setContext(&inv.parent, timeout)
	if s.over != nil {
		inv.end(inv.start, s.over)
	}
	s.checkBy(inv.nextCheck())
	return inv, gone
}

func (inv *invocation) setContext(base context.Context, timeout time.Duration) {
	if timeout <= 0 {
		inv.ctx, inv.cancel = context.WithCancelCause(base)
		return
	}
	inv.deadline = inv.start.Add(timeout)
	base, stop := context.WithDeadlineCause(base, inv.deadline, ErrTimeout)
	ctx, cancel := context.WithCancelCause(base)
	inv.ctx, inv.cancel = ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// check ends the context if it is time. The caller holds leases.mu.
func (inv *invocation) check(now time.Time) {
	if inv.returned {
		return
	}
	held := false
	for _, l := range inv.tasks {
		if l.state == running && !l.ends().After(now) {
			l.state, l.lostBy = expired, errUnreachable
			inv.in.stored.Broadcast()
		}
		held = held || l.state == running || l.state == ended
	}
	switch {
	case !held:
		inv.end(now, inv.lostBy())
	case !inv.deadline.IsZero() && !inv.deadline.After(now):
		inv.end(now, ErrTimeout)
	}
	inv.in.checkBy(inv.nextCheck())
}

// lostBy returns how the leases were lost, if it is the same for all. The caller holds leases.mu.
func (inv *invocation) lostBy() error {
	cause := inv.tasks[0].lostBy
	for _, l := range inv.tasks {
		if l.lostBy != cause {
			return dbq.ErrLeaseLost
		}
	}
	return cause
}

// end ends the context. The caller holds leases.mu.
func (inv *invocation) end(now time.Time, cause error) {
	if inv.returned || !inv.ended.IsZero() {
		return
	}
	inv.ended = now
	inv.cancel(cause)
	inv.in.checkBy(inv.nextCheck())
}

// nextCheck returns when check may have something to do. The caller holds leases.mu.
func (inv *invocation) nextCheck() time.Time {
	if !inv.ended.IsZero() {
		return inv.ended.Add(inv.in.cfg.Grace)
	}
	next := inv.deadline
	for _, l := range inv.tasks {
		if until := l.ends(); l.state == running && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// isStuck reports whether the handler has ignored the end of its context for Grace. The caller holds leases.mu.
func (inv *invocation) isStuck(now time.Time) bool {
	return !inv.returned && !inv.ended.IsZero() && now.Sub(inv.ended) >= inv.in.cfg.Grace
}

// abandon records that the worker continues without the handler. The caller holds leases.mu.
func (inv *invocation) abandon() {
	inv.returned, inv.abandoned = true, true
	for _, l := range inv.tasks {
		l.invocation = nil
	}
	inv.in.stored.Broadcast()
}

// finish records that the handler has returned. It returns false if the worker has continued without it.
func (inv *invocation) finish() bool {
	inv.in.mu.Lock()
	defer inv.in.mu.Unlock()
	inv.cancel(nil)
	if inv.abandoned {
		return false
	}
	inv.returned = true
	for _, l := range inv.tasks {
		if l.invocation = nil; l.state == running {
			l.state = finished
		}
	}
	inv.in.stored.Broadcast()
	return true
}
