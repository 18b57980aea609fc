package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dbq-go/dbq"
)

// A Handler does a task's work. Its result (nil for none) is kept with the completed task, up to dbq.MaxResult bytes. An error
// fails the attempt; the values of this package, such as Poison and RetryIn, say how. ctx ends when the task's lease is lost, or the
// worker's time to drain is over; context.Cause tells which. A panic is an error with its stack.
type Handler interface {
	Handle(ctx context.Context, t dbq.Task) (result []byte, err error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, t dbq.Task) (result []byte, err error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, t dbq.Task) ([]byte, error) { return f(ctx, t) }

// handle is one handler's goroutine.
func (r *run) handle() {
	for {
		select {
		case <-r.quit:
			return
		default:
		}
		select {
		case <-r.quit:
			return
		case j := <-r.ready:
			select {
			case r.hungry <- struct{}{}:
			default: // it has been told already
			}
			r.one(j)
		}
	}
}

// one runs the handler on a task and passes on how it ended.
func (r *run) one(j *job) {
	ctx, begun := r.held.begin(j)
	if !begun { // lost, or out of time, before it was started
		r.held.remove(j)
		r.cfg.Logger.Warn("worker: a lease ended before its task was started", "task", j.task.ID, "attempt", j.task.Attempt)
		return
	}
	result, err := call(ctx, r.cfg.Handler, j.task)
	cause := context.Cause(ctx)
	r.held.finish(j)
	switch {
	case errors.Is(err, Settled):
		r.held.remove(j)
	case errors.Is(cause, dbq.ErrLeaseLost):
		r.held.remove(j)
		r.cfg.Logger.Warn("worker: a lease was lost while its task was worked on", "task", j.task.ID, "attempt", j.task.Attempt)
	case err != nil && errors.Is(cause, ErrShutdown):
		r.settler.add(j, dbq.Released(j.currentLease(), 0))
	default:
		r.settler.add(j, r.settlement(j, result, err))
	}
}

// settlement is how an attempt ends.
func (r *run) settlement(j *job, result []byte, err error) dbq.Settlement {
	l := j.currentLease()
	var o *outcome
	switch {
	case err == nil:
		return dbq.Completed(l, result)
	case errors.As(err, &o):
		return o.settle(l, err)
	}
	var p *panicError
	if errors.As(err, &p) {
		r.cfg.Logger.Error("worker: a handler panicked", "task", j.task.ID, "attempt", j.task.Attempt, "panic", fmt.Sprint(p.value))
	}
	wait := min(max(r.cfg.Backoff(j.task.Attempt), 0), dbq.MaxDelay)
	return dbq.Failed(l, dbq.RetryIn(wait), err)
}

// panicError is a handler's panic as the error of its attempt.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }

func call(ctx context.Context, h Handler, t dbq.Task) (result []byte, err error) {
	returned := false
	defer func() {
		// runtime.Goexit leaves no panic behind, but the handler did not return either.
		if v := recover(); v != nil || !returned {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	result, err = h.Handle(ctx, t)
	returned = true
	return result, err
}

// remaining is how much of a lease is left by this process's monotonic clock.
func remaining(l dbq.Lease) time.Duration { return time.Until(l.Until) }
