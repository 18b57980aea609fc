package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
)

// Delete is returned by a handler whose work is done and whose task is to be removed instead of kept as COMPLETED.
var Delete error = &outcome{text: "done, delete", settle: func(l dbq.Lease, _ Outcome) dbq.Settlement {
	return dbq.CompletedAndDeleted(l)
}}

// outcome is an error that says how its attempt ends.
type outcome struct {
	text    string
	err     error
	repeats bool // it asks for another attempt
	settle  func(l dbq.Lease, o Outcome) dbq.Settlement
}

func (o *outcome) Error() string {
	if o.err == nil {
		return o.text
	}
	return o.err.Error()
}

func (o *outcome) Unwrap() error { return o.err }

// Poison fails an attempt in a way that no other attempt would cure: the task is POISON.
func Poison(err error) error {
	return &outcome{text: "poison", err: err, settle: func(l dbq.Lease, o Outcome) dbq.Settlement {
		return dbq.Poisoned(l, o.Err)
	}}
}

// Park fails an attempt and leaves the task in ERROR until an operator acts.
func Park(err error) error {
	return &outcome{text: "parked", err: err, settle: func(l dbq.Lease, o Outcome) dbq.Settlement {
		return dbq.Failed(l, dbq.Park, o.Err)
	}}
}

// RetryIn fails an attempt that is to be repeated after d instead of the worker's backoff.
func RetryIn(d time.Duration, err error) error {
	d = min(max(d, 0), dbq.MaxDelay)
	return &outcome{text: fmt.Sprintf("retry in %v", d), err: err, repeats: true, settle: func(l dbq.Lease, o Outcome) dbq.Settlement {
		return dbq.Failed(l, dbq.RetryIn(d), o.Err)
	}}
}

// Snooze hands the task back, to be due again after d. The attempt does not count. A result that the handler returns beside it is kept
// with the task, to say how far it got.
func Snooze(d time.Duration) error {
	d = min(max(d, 0), dbq.MaxDelay)
	return &outcome{text: fmt.Sprintf("snooze %v", d), settle: func(l dbq.Lease, o Outcome) dbq.Settlement {
		return dbq.Released(l, d).WithResult(o.Result)
	}}
}

// IsSuccess reports whether what a handler returned is no failure: nil, Delete or Snooze.
func IsSuccess(err error) bool {
	var o *outcome
	return err == nil || errors.As(err, &o) && o.err == nil
}
