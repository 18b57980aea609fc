package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/handling"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

// work calls the handler for a task, and passes its outcome on. If the handler ignores the end of its context, work
// continues without it.
func (r *run) work(ctx context.Context, h *held) {
	begin := time.Now()
	if timeout := r.limits(&h.task).Timeout; timeout > 0 {
		limited, stop := context.WithTimeoutCause(ctx, timeout, worker.ErrTimeout)
		defer stop()
		ctx = limited
	}
	done := make(chan dbq.Outcome, 1)
	go func() {
		o := dbq.Failed(handling.ErrGoexit)
		defer func() { done <- o }()
		o = handling.Call(ctx, r.handler, h.task)
	}()
	select {
	case o := <-done:
		r.ended(ctx, h, o)
		return
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		r.ended(ctx, h, o)
	case <-time.After(r.Grace):
		r.abandon(h, context.Cause(ctx), begin)
		<-done
		r.addStuck(-1)
		r.log.each(lineReturned, about(h, "after", rounded(time.Since(begin)))...)
	}
}

func (r *run) addStuck(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck += n
}

// abandon continues without a handler that ignores the end of its context. After Timeout, its attempt has failed.
// Otherwise the lease is lost, or left to expire because the handler may still be working.
func (r *run) abandon(h *held, cause error, begin time.Time) {
	r.addStuck(1)
	r.log.each(lineStuck, about(h, "cause", cut(cause.Error()), "after", rounded(time.Since(begin)))...)
	if errors.Is(cause, worker.ErrTimeout) {
		r.finish(h, r.within(h, dbq.Failed(worker.ErrTimeout)))
		return
	}
	r.holds(r.Lease)
	r.remove(h)
}

// ended ends the attempt of a handler that has returned.
func (r *run) ended(ctx context.Context, h *held, o dbq.Outcome) {
	cause := context.Cause(ctx)
	r.mu.Lock()
	lost := h.lost || h.expired && (o.Event() != state.Complete || o.Deletes()) // the fence decides about a success
	r.mu.Unlock()
	failed := o.UsesBackoff() // a plain error, without a retry time or parking
	switch {
	case lost:
		r.log.each(lineLost, about(h)...)
		r.holds(r.Lease)
		r.remove(h)
		return
	case failed && errors.Is(cause, worker.ErrShutdown):
		o = dbq.Released(0)
	case failed && errors.Is(cause, worker.ErrTimeout):
		o = r.within(h, timedOut(o))
	default:
		o = r.within(h, o)
	}
	if n := len(o.Result()); o.Event() == state.Complete && n > dbq.MaxResult && !o.Deletes() {
		r.log.each(lineResult, about(h, "bytes", n, "most", dbq.MaxResult)...)
	}
	r.finish(h, o)
}

// timedOut returns a failure with worker.ErrTimeout in front of its error.
func timedOut(o dbq.Outcome) dbq.Outcome {
	switch err := o.Cause(); {
	case err == nil:
		return dbq.Failed(worker.ErrTimeout)
	case !errors.Is(err, worker.ErrTimeout):
		return dbq.Failed(fmt.Errorf("%w: %w", worker.ErrTimeout, err))
	}
	return o
}

// limits returns the limits of a task's attempt: the handler's for this task, and otherwise the worker's.
func (r *run) limits(t *dbq.Task) worker.Limits {
	l := worker.Limits{Timeout: r.Timeout, MaxAttempts: r.MaxAttempts, Backoff: r.Backoff}
	limiter, ok := r.Handler.(worker.Limiter)
	if !ok {
		return l
	}
	own := limiter.Limits(*t)
	if own.Timeout > 0 {
		l.Timeout = own.Timeout
	}
	if own.MaxAttempts > 0 {
		l.MaxAttempts = own.MaxAttempts
	}
	if own.Backoff != nil {
		l.Backoff = own.Backoff
	}
	return l
}

// within returns an outcome within the limits of times and attempts, with the pause before a retry.
func (r *run) within(h *held, o dbq.Outcome) dbq.Outcome {
	if p := handling.AsPanic(o.Cause()); p != nil && o.UsesBackoff() {
		r.log.each(linePanic, about(h, "panic", cut(p.Short()), "stack", string(p.Stack))...)
	}
	o = access.Bounded(o)
	limits := r.limits(&h.task)
	if o.Retries() && limits.MaxAttempts > 0 && h.task.Attempt >= limits.MaxAttempts {
		return dbq.Poisoned(o.Cause()).WithResult(o.Result())
	}
	if o.UsesBackoff() {
		o = o.WithBackoff(min(max(limits.Backoff(h.task.Attempt), 0), dbq.MaxDelay))
	}
	return o
}

// about returns the attributes of a line about one task.
func about(h *held, more ...any) []any {
	return append([]any{"task", h.task.ID.String(), "kind", h.task.Kind, "attempt", h.task.Attempt}, more...)
}

// causeText returns the text of a handler's error for a line, without the stack of a panic.
func causeText(err error) string {
	if err == nil {
		return ""
	}
	if p := handling.AsPanic(err); p != nil {
		return cut(p.Short())
	}
	return cut(err.Error())
}
