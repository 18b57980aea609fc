package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
)

// attempts ends attempts: it maps a handler's outcome to a settlement and passes it to the settler.
type attempts struct {
	*env
	leases    *leases
	settler   *settler
	results   *results
	unhandled *unhandled
	conflicts conflicts
}

// errNotStarted is the cause of a lost lease if the task had not been passed to a handler.
var errNotStarted = errors.New("the lease ended before the task was started")

// uncalledPause is for how long a task is released whose handler could not be called, less a random part of up to half.
const uncalledPause = time.Second

func wasNotCalled(err error) bool {
	_, is := errors.AsType[*invoke.NotCalledError](err)
	return is
}

// end ends an attempt with its handler's outcome. cause is the reason why the handler's context ended, or nil if it
// did not.
func (a *attempts) end(l *leased, o dbq.Outcome, cause error, took time.Duration) {
	completes := o.Event() == state.Complete && !o.Deletes()
	failed := o.UsesBackoff() // a plain error, without a retry time or parking
	switch {
	case completes && isInTransaction(o.Result()):
		a.observeEnd(l, state.Complete, nil, took)
		a.results.ended.Add(1)
		a.tally.Completed.Add(1)
		a.conflicts.forget(l.task.ID)
		a.leases.remove(l)
	case !completes && l.isLost(): // a success may be settled by the handler itself; the fence decides
		a.lost(l, l.lostCause())
	case failed && errors.Is(cause, ErrShutdown):
		a.settle(l, dbq.Released(0), o.Cause(), took)
	case failed && errors.Is(o.Cause(), ErrNoHandler): // UntilEmpty does not wait for it
		a.settle(l, dbq.Released(a.unhandled.add(&l.task)), o.Cause(), took)
	case failed && wasNotCalled(o.Cause()):
		pause := store.Jittered(uncalledPause)
		a.log.each(lineUncalled, aboutTask(&l.task, "next", "in "+seconds(pause), "error", errorText(o.Cause()))...)
		a.putBack(l, pause, o.Cause(), took)
	case failed && cause == nil && a.source.isConflict(o.Cause()):
		if pause, ok := a.conflicts.add(l.task.ID); ok {
			a.log.each(lineConflict, aboutTask(&l.task, "next", "in "+seconds(pause), "error", errorText(o.Cause()))...)
			a.putBack(l, pause, o.Cause(), took)
			return
		}
		a.settle(l, a.within(l, o), o.Cause(), took)
	default:
		a.conflicts.forget(l.task.ID)
		if failed && errors.Is(cause, ErrTimeout) {
			o = timedOut(o)
		}
		a.settle(l, a.within(l, o), o.Cause(), took)
	}
}

// timedOut returns a failure with ErrTimeout in front of its error.
func timedOut(o dbq.Outcome) dbq.Outcome {
	switch err := o.Cause(); {
	case err == nil:
		return dbq.Failed(ErrTimeout)
	case !errors.Is(err, ErrTimeout):
		return dbq.Failed(fmt.Errorf("%w: %w", ErrTimeout, err))
	}
	return o
}

// lost gives up a task whose lease is lost.
func (a *attempts) lost(l *leased, cause error) {
	a.leases.giveUp(l)
	a.results.leaseLost(&l.task, cause)
}

// notStarted gives up a task that the worker had no time left to start: its attempt does not count. One that may be
// marked as started is released instead, unless another worker has taken it over meanwhile.
func (a *attempts) notStarted(l *leased) {
	if l.isLost() || !l.mustMark() {
		a.lost(l, errNotStarted)
		return
	}
	a.leases.unmark(l)
	a.settler.release(l, 0)
}

// abandon ends the attempt of a handler that ignores the end of its context, if the worker still holds the task:
// after Timeout it has failed. Otherwise the lease is lost, or left to expire because the handler may still be
// working.
func (a *attempts) abandon(l *leased, cause error, took time.Duration) {
	if cause == ErrTimeout && !l.isLost() { // it is the cause itself
		a.end(l, dbq.Failed(ErrTimeout), cause, took)
	} else {
		a.leases.giveUp(l)
	}
}

// putBack releases a task for a pause through no fault of its own. UntilEmpty waits for it.
func (a *attempts) putBack(l *leased, pause time.Duration, err error, took time.Duration) {
	l.backIn = pause
	a.settle(l, dbq.Released(pause), err, took)
}

func (a *attempts) settle(l *leased, how dbq.Outcome, err error, took time.Duration) {
	a.observeEnd(l, how.Event(), err, took)
	a.settler.add(l, how, err)
}

func (a *attempts) observeEnd(l *leased, how state.Event, err error, took time.Duration) {
	a.tally.RunTime.Record(took)
	if a.observed() {
		a.observe(Observation{Type: Ended, Task: l.task, Event: how, Duration: took, Err: err})
	}
}

// within returns an outcome within its bounds, with the pause before a retry.
func (a *attempts) within(l *leased, o dbq.Outcome) dbq.Outcome {
	if o.Event() == state.Complete { // as almost always
		a.logLongResult(&l.task, o)
		return o
	}
	o = access.Bounded(o)
	if p := invoke.AsPanic(o.Cause()); p != nil && o.UsesBackoff() {
		a.log.each(linePanic, aboutTask(&l.task, "panic", bounds.Brief(fmt.Sprint(p.Value)), "stack", string(p.Stack))...)
	}
	policy := a.policy(&l.task)
	if o.Retries() && policy.MaxAttempts > 0 && l.task.Attempt >= policy.MaxAttempts {
		return dbq.Poisoned(o.Cause()).WithResult(o.Result())
	}
	if o.UsesBackoff() {
		o = o.WithBackoff(min(max(policy.Backoff(l.task.Attempt), 0), dbq.MaxDelay))
	}
	return o
}
