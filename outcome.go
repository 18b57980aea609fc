package dbq

import (
	"errors"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
)

// Outcome describes how an attempt ends. A handler of package worker returns one, also as an error, and Queue.Settle
// takes one. The zero value is Completed(nil). An Outcome is a plain value and can be used for several tasks.
type Outcome struct {
	end    ending
	when   int64 // nanoseconds for retryIn and released, microseconds since 1970 for retryAt
	cause  error
	result []byte // stored with the task: the result, or the text of cause
}

type ending uint8

const (
	completed ending = iota
	deleted
	failed
	retryIn
	retryAt
	parked
	poisoned
	released
)

var endings = [...]struct {
	name  string
	event state.Event
}{
	completed: {"completed", state.Complete},
	deleted:   {"deleted", state.Complete},
	failed:    {"failed", state.Fail},
	retryIn:   {"retry", state.Fail},
	retryAt:   {"retry", state.Fail},
	parked:    {"parked", state.Fail},
	poisoned:  {"poisoned", state.PoisonEvent},
	released:  {"released", state.Release},
}

// Completed ends an attempt successfully: the task is COMPLETED and stores the result. Nil means no result. A result
// longer than MaxResult bytes is cut and ends with a note about the cut.
func Completed(result []byte) Outcome { return Outcome{result: result} }

// Deleted ends an attempt successfully and removes the task.
func Deleted() Outcome { return Outcome{end: deleted} }

// Failed ends an attempt with an error and retries the task after a backoff: the worker's, or DefaultBackoff for
// Queue.Settle. If cause is an Outcome or wraps one, Failed returns that, as OutcomeOf does. As with every failure,
// the task stores the error's text, cut at MaxResult bytes.
//
// After the last attempt of a task, Failed, RetryIn and RetryAt move it to POISON.
func Failed(cause error) Outcome {
	var o Outcome
	if !errors.As(cause, &o) {
		return failure(failed, cause)
	}
	if _, itself := cause.(Outcome); !itself && o.cause != nil {
		o.cause = cause
		o.result = []byte(cause.Error())
	}
	return o
}

// RetryIn ends an attempt with an error and retries the task after d (0 to MaxDelay) by the database's clock.
func RetryIn(d time.Duration, cause error) Outcome {
	o := failure(retryIn, cause)
	o.when = int64(d)
	return o
}

// RetryAt ends an attempt with an error and retries the task at t by the database's clock.
func RetryAt(t time.Time, cause error) Outcome {
	o := failure(retryAt, cause)
	o.when = t.UnixMicro()
	return o
}

// Parked ends an attempt with an error and leaves the task in ERROR until an operator acts.
func Parked(cause error) Outcome { return failure(parked, cause) }

// Poisoned ends an attempt with an error and moves the task to POISON, because no other attempt would succeed.
func Poisoned(cause error) Outcome { return failure(poisoned, cause) }

// Released returns the task to the queue, due again after d (0 to MaxDelay). The attempt does not count.
func Released(d time.Duration) Outcome { return Outcome{end: released, when: int64(d)} }

func failure(end ending, cause error) Outcome {
	o := Outcome{end: end, cause: cause}
	if cause != nil {
		o.result = []byte(cause.Error())
	}
	return o
}

// WithResult returns the outcome with another result to store with the task, or a text that replaces the error's.
// Deleted stores none.
func (o Outcome) WithResult(result []byte) Outcome {
	o.result = result
	return o
}

// WithBackoff returns a Failed outcome as RetryIn(d), and any other unchanged.
func (o Outcome) WithBackoff(d time.Duration) Outcome {
	if o.end == failed {
		o.end, o.when = retryIn, int64(d)
	}
	return o
}

// Event returns the outcome's event in the state table: complete, fail, poison or release.
func (o Outcome) Event() state.Event { return endings[o.end].event }

// Cause returns the error of a failure, and nil for other outcomes.
func (o Outcome) Cause() error { return o.cause }

// Result returns the bytes that are stored with the task: the result, or the text of the error.
func (o Outcome) Result() []byte { return o.result }

// Deletes reports whether the outcome removes the task.
func (o Outcome) Deletes() bool { return o.end == deleted }

// Retries reports whether the outcome requests another attempt after one that counts: Failed, RetryIn or RetryAt.
func (o Outcome) Retries() bool { return o.end == failed || o.end == retryIn || o.end == retryAt }

// UsesBackoff reports whether the outcome is a Failed, for which the worker chooses the pause before the next
// attempt.
func (o Outcome) UsesBackoff() bool { return o.end == failed }

// String describes the outcome without its error and result: "completed", "deleted", "failed", "retry in 1s",
// "retry at 2026-01-02T03:04:05Z", "parked", "poisoned", "released in 0s".
func (o Outcome) String() string {
	name := endings[o.end].name
	switch o.end {
	case retryIn, released:
		return name + " in " + o.in().String()
	case retryAt:
		return name + " at " + o.at().UTC().Format(time.RFC3339Nano)
	}
	return name
}

// Error returns the text of the cause, or what String returns if there is none. An Outcome is an error, so that a
// function that returns an error can return one: `return dbq.Parked(err)`. A nil error is Completed(nil). Do not
// compare such an error with ==: it panics, as for every error with a slice in it.
func (o Outcome) Error() string {
	if o.cause == nil {
		return o.String()
	}
	return o.cause.Error()
}

// Unwrap returns the cause.
func (o Outcome) Unwrap() error { return o.cause }

// OutcomeOf returns the outcome for an error: Completed(nil) for nil, the Outcome that err is or wraps, and Failed(err)
// for any other. If err wraps an Outcome with a cause, err becomes the cause.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	return Failed(err)
}

func (o *Outcome) in() time.Duration { return time.Duration(o.when) }
func (o *Outcome) at() time.Time     { return time.UnixMicro(o.when) }

// check refuses times outside the limits.
func (o *Outcome) check() error {
	switch o.end {
	case retryIn, released:
		return bounds.Delay(o.in())
	case retryAt:
		return bounds.Time(o.at())
	}
	return nil
}

// bounded returns the outcome with its delay within the limits, and its time not before 1970.
func (o Outcome) bounded() Outcome {
	switch o.end {
	case retryIn, released:
		o.when = int64(min(max(o.in(), 0), MaxDelay))
	case retryAt:
		o.when = max(o.when, 0)
	}
	return o
}

// settlement returns the outcome in the store's form. Only a Failed without a backoff needs the attempt's number.
func (o Outcome) settlement(l Lease, again bool) store.SettleRow {
	if o.end == failed {
		o = o.WithBackoff(DefaultBackoff(l.Attempt))
	}
	s := store.SettleRow{
		LeaseKey: l.key(), Until: l.Until, Event: o.Event(), Remove: o.end == deleted,
		Result: o.result, Again: again, Renewed: l.Renewed, Progress: l.Progress,
	}
	switch o.end {
	case retryIn, released:
		in := o.in()
		s.After = &in
	case retryAt:
		s.At = o.at()
	}
	return s
}
