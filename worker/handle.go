package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// A Handler does a task's work. Its result (nil for none) is kept with the completed task, up to dbq.MaxResult bytes. An error
// fails the attempt; the values of this package, such as Poison and RetryIn, say how. ctx carries the values of Run's context, and ends
// when the task's lease is lost, its Timeout is over, or the worker's time to drain is; context.Cause tells which. A panic, also of a
// method of the error, is an error with its stack. A handler that calls runtime.Goexit, as t.FailNow does, fails its attempt; the worker
// goes on in another goroutine.
type Handler interface {
	Handle(ctx context.Context, t dbq.Task) (result []byte, err error)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, t dbq.Task) (result []byte, err error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, t dbq.Task) ([]byte, error) { return f(ctx, t) }

// Middleware is what is done around a handler: it returns a handler that calls next, or does not.
type Middleware func(next Handler) Handler

// A BatchHandler does the work of several tasks in one call, as a bulk insert does. It returns an outcome for each, in their order; too
// few are failures of the tasks that have none. ctx ends when the leases of all of them are lost, not of some: the outcome of a task
// whose lease was lost counts for nothing. A panic fails all of them.
type BatchHandler interface {
	HandleBatch(ctx context.Context, ts []dbq.Task) []Outcome
}

// Outcome is what a Handler returns, as a value.
type Outcome struct {
	Result []byte
	Err    error
}

// BatchFunc is a function as a BatchHandler.
type BatchFunc func(ctx context.Context, ts []dbq.Task) []Outcome

// HandleBatch calls f.
func (f BatchFunc) HandleBatch(ctx context.Context, ts []dbq.Task) []Outcome { return f(ctx, ts) }

// call runs the handler and makes a panic an error. It does not return when the handler ends the goroutine by runtime.Goexit.
func call(ctx context.Context, h Handler, t dbq.Task) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, &panicError{value: v, stack: debug.Stack()}
		}
	}()
	result, err = h.Handle(ctx, t)
	read(err)
	return result, err
}

// read makes an error whose methods panic, as those of a nil pointer in an interface do, panic within the handler's call.
func read(err error) {
	if err != nil {
		_, _ = err.Error(), errors.Is(err, errGoexit)
	}
}

// callBatch is call for several tasks.
func callBatch(ctx context.Context, h BatchHandler, ts []dbq.Task) (out []Outcome) {
	defer func() {
		if v := recover(); v != nil {
			out = failures(len(ts), &panicError{value: v, stack: debug.Stack()})
		}
	}()
	out = h.HandleBatch(ctx, ts)
	for _, o := range out {
		read(o.Err)
	}
	for len(out) < len(ts) {
		out = append(out, Outcome{Err: errNoOutcome})
	}
	return out
}

// failures are n outcomes of a call that failed as a whole.
func failures(n int, err error) []Outcome {
	out := make([]Outcome, n)
	for i := range out {
		out[i].Err = err
	}
	return out
}

// errGoexit is the error of an attempt whose handler ended its goroutine.
var errGoexit = errors.New("worker: the handler called runtime.Goexit, as t.FailNow does, instead of returning")

var errNoOutcome = errors.New("worker: the batch handler returned no outcome for this task")

// panicError is a handler's panic as the error of its attempt.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }

// short is the error without the stack.
func (p *panicError) short() string { return fmt.Sprintf("panic: %v", p.value) }

// asPanic is the panic that an error is, or nil.
func asPanic(err error) *panicError {
	var p *panicError
	errors.As(err, &p)
	return p
}

// Limits bound the attempts of some of a worker's tasks. A zero field means the worker's own.
type Limits struct {
	Timeout     time.Duration
	MaxAttempts int
	Backoff     func(attempt int) time.Duration
}

// A Limiter is a Handler that has limits of its own for some tasks, as a Mux has for kinds. The worker asks it before each task.
type Limiter interface {
	Limits(t dbq.Task) Limits
}

// limits are those that hold for a task.
func (r *run) limits(t *dbq.Task) Limits {
	l := Limits{r.cfg.Timeout, r.now().maxAttempts, r.cfg.Backoff}
	limiter, ok := r.cfg.Handler.(Limiter)
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

// conclude passes on how an attempt ended. cause is why the handler's context ended, nil when it did not.
func (r *run) conclude(j *job, o Outcome, cause error, took time.Duration) {
	var chosen *outcome // how the handler says that it is to end
	if o.Err != nil {
		errors.As(o.Err, &chosen)
	}
	l, isLost := j.current()
	switch {
	case o.Err == nil && isInTransaction(o.Result):
		if r.observed() {
			r.observe(Event{Kind: Ended, Task: j.task, Outcome: string(state.Complete), Duration: took})
		}
		r.done.Add(1)
		r.record(j, dbq.OutcomeCompleted, nil)
		r.conflicts.none(j.task.ID)
		r.held.remove(j)
	case isLost && o.Err != nil: // else the handler may have settled it itself, and the fence tells
		r.leaseLost(j, cmp.Or(cause, dbq.ErrLeaseLost))
	case o.Err != nil && chosen == nil && errors.Is(cause, ErrShutdown):
		r.settle(j, dbq.Released(l, 0), o.Err, took)
	case o.Err != nil && chosen == nil && cause == nil && r.cfg.Queue.Client().IsConflict(o.Err):
		if pause, ok := r.conflicts.met(j.task.ID); ok {
			r.log.each(lineConflict, aboutTask(&j.task, "next", "in "+seconds(pause), "error", errorText(o.Err))...)
			r.settle(j, dbq.Released(l, pause), o.Err, took)
			return
		}
		r.settle(j, r.settlement(j, l, o, chosen), o.Err, took)
	default:
		r.conflicts.none(j.task.ID)
		if o.Err != nil && chosen == nil && errors.Is(cause, ErrTimeout) && !errors.Is(o.Err, ErrTimeout) {
			o.Err = fmt.Errorf("%w: %w", ErrTimeout, o.Err)
		}
		r.settle(j, r.settlement(j, l, o, chosen), o.Err, took)
	}
}

func (r *run) settle(j *job, s dbq.Settlement, err error, took time.Duration) {
	if r.observed() {
		r.observe(Event{Kind: Ended, Task: j.task, Outcome: string(s.Event()), Duration: took, Err: err})
	}
	r.settler.add(j, s, err)
}

// errNotStarted is why a lease was lost whose task had not been given to a handler.
var errNotStarted = errors.New("the lease ended before the task was started")

func (r *run) leaseLost(j *job, cause error) {
	r.held.giveUp(j, r.now().lease)
	r.countLost(&j.task, cause)
}

func (r *run) countLost(t *dbq.Task, cause error) {
	r.losses.Add(1)
	r.observe(Event{Kind: LeaseLost, Task: *t})
	r.log.gather(lineLost, t.ID, errorText(cause), "cause", errorText(cause))
}

// settlement is how an attempt ends.
func (r *run) settlement(j *job, l dbq.Lease, o Outcome, chosen *outcome) dbq.Settlement {
	if o.Err == nil {
		return dbq.Completed(l, o.Result).Again() // the handler may have completed it in a transaction
	}
	limits := r.limits(&j.task)
	if chosen != nil {
		s := chosen.settle(l, o)
		if chosen.repeats && limits.MaxAttempts > 0 && j.task.Attempt >= limits.MaxAttempts {
			s = dbq.Poisoned(l, o.Err)
		}
		return s
	}
	if p := asPanic(o.Err); p != nil {
		r.log.each(linePanic, aboutTask(&j.task, "panic", cutText(fmt.Sprint(p.value)), "stack", string(p.stack))...)
	}
	if limits.MaxAttempts > 0 && j.task.Attempt >= limits.MaxAttempts {
		return dbq.Poisoned(l, o.Err)
	}
	wait := min(max(limits.Backoff(j.task.Attempt), 0), dbq.MaxDelay)
	return dbq.Failed(l, dbq.RetryIn(wait), o.Err)
}
