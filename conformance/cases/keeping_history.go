package cases

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// wantAttempts compares the attempts of a task, each as its number and how it ended.
func (t *test) wantAttempts(c *dbq.Client, id uuid.UUID, want string) []dbq.Attempt {
	as, err := admin.New(c).Attempts(t.ctx, id)
	t.must(err)
	var got []string
	for i, a := range as {
		got = append(got, fmt.Sprintf("%d %s", a.Attempt, a.Outcome))
		if a.Worker != c.Info().ID || a.Queue == "" || a.Taken.IsZero() || a.Ended.Before(a.Taken) {
			t.Errorf("%+v: want its queue, its worker, and when it began and ended", a)
		}
		if i > 0 && a.Fence <= as[i-1].Fence {
			t.Errorf("%+v comes after %+v", a, as[i-1])
		}
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("the attempts are %q, want %q", strings.Join(got, ", "), want)
	}
	return as
}

// historyOfATask ends the attempts of one task in every way but one, and reads them after each.
func historyOfATask(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	boom := errors.New("boom")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 5})
	want := ""
	then := func(attempt string) {
		if want != "" && attempt != "" {
			want += ", "
		}
		want += attempt
		t.wantAttempts(c, id, want)
	}
	take := func() dbq.Lease {
		then("")
		l := t.take(q, long).Lease
		then("") // one that has not ended is none
		return l
	}
	before := t.now(c)
	settle := func(o dbq.Outcome) { t.must(q.Settle(t.ctx, take(), o)) }
	settle(dbq.RetryIn(0, boom))
	then("1 failed")
	if a := t.wantAttempts(c, id, want)[0]; a.Error != "boom" || a.Taken.Before(before) || a.Ended.After(t.now(c)) {
		t.Errorf("got %+v, want its error, and the database's times", a)
	}
	release := func(opts access.SettleOptions) {
		out, err := q.SettleMany(t.ctx, []dbq.Settlement{access.Settlement(take(), dbq.Released(0), opts)})
		t.must(err)
		t.must(out[0].Err)
	}
	release(access.SettleOptions{Cause: boom})
	then("2 released")
	if a := t.wantAttempts(c, id, want)[1]; a.Error != "boom" {
		t.Errorf("got %+v, want why it was released", a)
	}
	release(access.SettleOptions{Unrecorded: true})
	then("")
	first := t.take(q, short)
	t.awaitExpiry(c, first.ID)
	l := t.takeOver(q, id, long).Lease
	then("2 crashed")
	t.must(q.Settle(t.ctx, l, dbq.Parked(boom)))
	then("3 failed")
	for _, event := range []state.Event{admin.Quarantine, admin.Restore, admin.Reenqueue} {
		t.must(ops.Operate(t.ctx, event, id, admin.Reason("a law")))
		then("")
	}
	take()
	t.must(ops.Operate(t.ctx, admin.Revoke, id))
	then("1 revoked")
	t.must(ops.Operate(t.ctx, admin.Reenqueue, id))
	settle(dbq.Poisoned(boom))
	then("1 poisoned")
	t.must(ops.Operate(t.ctx, admin.Reenqueue, id))
	settle(dbq.Completed([]byte("no error")))
	then("1 completed")
	t.must(ops.Operate(t.ctx, admin.Purge, id))
	then("")
}

// wantEveryAttempt records a failure unless each fence of a task that still exists, but that of an attempt that is
// running, has its attempt. A revocation takes a fence without one, and so does a checkout that finds the attempts
// exhausted.
func (t *test) wantEveryAttempt(c *dbq.Client, task dbq.Task) {
	as, err := admin.New(c).Attempts(t.ctx, task.ID)
	t.must(err)
	next := int64(1)
	switch chosen := task.Fence > 1e12; { // its producer chose the id, so that its fences begin at the clock
	case chosen && len(as) == 0 && task.Attempt <= 1:
		return
	case chosen && len(as) > 0:
		next = as[0].Fence
	}
	for _, a := range as {
		if a.Fence > next {
			break
		}
		next = a.Fence + 1
		exhausted := a.Outcome == dbq.AttemptCrashed && a.Attempt >= task.MaxAttempts
		if a.Outcome == dbq.AttemptRevoked || a.Outcome == dbq.AttemptCancelled || exhausted {
			next++
		}
	}
	if task.State == dbq.StateProcessing {
		next++
	}
	if next <= task.Fence {
		t.Errorf("the attempt of task %s under fence %d of %d is not known: %+v", task.ID, next, task.Fence, as)
	}
}
