package dbq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

func TestOutcomesAsErrors(t *testing.T) {
	boom := errors.New("boom")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		outcome dbq.Outcome
		text    string
		event   state.Event
		cause   error
		retries bool
	}{
		{dbq.Outcome{}, "completed", state.Complete, nil, false},
		{dbq.Completed([]byte("r")), "completed", state.Complete, nil, false},
		{dbq.Deleted(), "deleted", state.Complete, nil, false},
		{dbq.Failed(boom), "failed", state.Fail, boom, true},
		{dbq.Failed(boom).WithBackoff(time.Second), "retry in 1s", state.Fail, boom, true},
		{dbq.RetryIn(time.Minute, boom).WithBackoff(time.Second), "retry in 1m0s", state.Fail, boom, true},
		{dbq.RetryAt(at, boom), "retry at 2026-01-02T03:04:05Z", state.Fail, boom, true},
		{dbq.Parked(boom), "parked", state.Fail, boom, false},
		{dbq.Poisoned(boom), "poisoned", state.PoisonEvent, boom, false},
		{dbq.Released(time.Second), "released in 1s", state.Release, nil, false},
		{dbq.Released(0).WithResult([]byte("half")), "released in 0s", state.Release, nil, false},
	} {
		again := dbq.OutcomeOf(c.outcome)
		for _, o := range []dbq.Outcome{c.outcome, again} {
			if o.String() != c.text || o.Event() != c.event || o.Retries() != c.retries || !errors.Is(o.Cause(), c.cause) ||
				string(o.Result()) != string(c.outcome.Result()) || o.Deletes() != c.outcome.Deletes() {
				t.Errorf("%s: got %s with %q because of %v", c.text, o.String(), o.Result(), o.Cause())
			}
		}
		text := c.text
		if c.cause != nil {
			text = "boom"
		}
		if err := error(c.outcome); errors.Is(err, boom) != (c.cause != nil) || err.Error() != text {
			t.Errorf("%s: as an error it is %q", c.text, err)
		}
	}
	if o := dbq.OutcomeOf(nil); o.String() != "completed" || o.Result() != nil {
		t.Errorf("no error is %q with the result %q, want a completion without one", o.String(), o.Result())
	}
}

func TestErrorsAsOutcomes(t *testing.T) {
	boom := errors.New("boom")
	if o := dbq.OutcomeOf(boom); !o.UsesBackoff() || !errors.Is(o.Cause(), boom) || string(o.Result()) != "boom" {
		t.Errorf("an error: got %s because of %v", o.String(), o.Cause())
	}
	wrapped := fmt.Errorf("send: %w", dbq.Parked(boom))
	if o := dbq.OutcomeOf(wrapped); o.String() != "parked" || !errors.Is(o.Cause(), boom) ||
		string(o.Result()) != "send: boom" {
		t.Errorf("a wrapped outcome: got %s with %q", o.String(), o.Result())
	}
	if o := dbq.OutcomeOf(fmt.Errorf("later: %w", dbq.Released(time.Hour))); o.String() != "released in 1h0m0s" {
		t.Errorf("a wrapped release: got %s", o.String())
	}
}

// A caller that settles by hand gets the backoff of the task's attempt.
func TestFailWithoutWorkerUsesTheDefaultBackoff(t *testing.T) {
	q := fileQueue(t)
	if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	tasks, err := q.Checkout(t.Context(), 1, time.Minute)
	check.OK(t, err)
	l := tasks[0].Lease
	l.Attempt = 3
	check.OK(t, q.Settle(t.Context(), l, dbq.Failed(errors.New("no"))))
	task, err := q.Client().Get(t.Context(), l.TaskID)
	if wait := task.Due.Sub(task.Updated); err != nil || wait < 72*time.Second || wait > 81*time.Second {
		t.Errorf("after the third attempt: due after %v, %v; want 72 to 81 s", wait, err)
	}
}
