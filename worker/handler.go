package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/invoke"
)

// A Handler does the work of a task and returns the outcome of the attempt: see dbq.Completed, dbq.Failed,
// dbq.RetryIn, dbq.Parked, dbq.Poisoned, dbq.Released and dbq.Deleted. If a time or delay is outside its limits, the
// worker uses the nearest limit.
//
// ctx has the values of Run's context. It ends when the task's lease is lost, when Timeout has passed, or when
// DrainTimeout has passed during a shutdown; context.Cause returns the reason.
//
// A panic fails the attempt with an error that contains the stack. So does runtime.Goexit, which t.FailNow calls; the
// worker then continues in another goroutine.
type Handler interface {
	HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome
}

// HandlerFunc adapts a function that returns an Outcome to a Handler.
type HandlerFunc func(ctx context.Context, t dbq.Task) dbq.Outcome

// HandleTask calls f.
func (f HandlerFunc) HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome { return f(ctx, t) }

// Func adapts a function that returns an error to a Handler. Nil completes the task, and an error fails the attempt,
// which is retried after the worker's backoff. A dbq.Outcome, which is an error too, ends the attempt as it says, even
// if an error wraps it:
//
//	return dbq.Parked(err)
func Func(f func(ctx context.Context, t dbq.Task) error) Handler {
	return HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome { return dbq.OutcomeOf(f(ctx, t)) })
}

// A Middleware wraps a handler: it returns a handler that may call next.
type Middleware func(next Handler) Handler

// A BatchHandler does the work of several tasks in one call, such as a bulk insert. It returns one outcome for each
// task, in the order of the tasks; a task without an outcome fails. ctx ends when the leases of all tasks are lost.
// If a task's lease was lost, its outcome is ignored. A panic fails all tasks of the call.
type BatchHandler interface {
	HandleTasks(ctx context.Context, ts []dbq.Task) []dbq.Outcome
}

// BatchFunc adapts a function to a BatchHandler.
type BatchFunc func(ctx context.Context, ts []dbq.Task) []dbq.Outcome

// HandleTasks calls f.
func (f BatchFunc) HandleTasks(ctx context.Context, ts []dbq.Task) []dbq.Outcome { return f(ctx, ts) }

// callBatch is invoke.Call for several tasks.
func callBatch(ctx context.Context, h BatchHandler, ts []dbq.Task) (out []dbq.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			out = failures(len(ts), invoke.NewPanicError(v))
		}
	}()
	out = h.HandleTasks(ctx, ts)
	for _, o := range out {
		invoke.Read(o.Cause())
	}
	for len(out) < len(ts) {
		out = append(out, dbq.Failed(errNoOutcome))
	}
	return out
}

// failures returns n outcomes for a call that failed as a whole.
func failures(n int, err error) []dbq.Outcome {
	return slices.Repeat([]dbq.Outcome{dbq.Failed(err)}, n)
}

var errNoOutcome = errors.New("worker: the batch handler returned no outcome for this task")

// Policy has the timeout, the attempts and the backoff of some of a worker's tasks. A zero field means the worker's own
// setting.
type Policy struct {
	Timeout     time.Duration
	MaxAttempts int
	Backoff     func(attempt int) time.Duration
}

// A PolicyHandler is a Handler with a policy for some of its tasks, as a Mux has for kinds. The worker calls Policy
// before each task.
type PolicyHandler interface {
	Policy(t dbq.Task) Policy
}
