package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

func operateRevoked(t *T) {
	c := t.Open()
	q := c.Queue("q")
	before := t.now(c)
	first, second := t.takeNew(q, dbq.NewTask{}, long), t.takeNew(q, dbq.NewTask{}, long)
	op := dbq.Operation{Event: state.Revoke, By: "änne@ops", Reason: "stuck on a lock"}
	t.Must(c.Operate(t.ctx, op, first.ID))
	n, err := c.OperateMany(t.ctx, dbq.Operation{Event: state.Revoke}, dbq.Filter{Queue: "q", Limit: 10})
	if t.Must(err); n != 1 {
		t.Errorf("by filter %d tasks were revoked, want 1", n)
	}
	for want, task := range map[string]dbq.Task{"revoked by änne@ops: stuck on a lock": first, "revoked by " + c.Name(): second} {
		now := t.get(c, task.ID)
		if !now.Parked() || string(now.Result) != want {
			t.Errorf("got %v with result %q, want it parked with %q", now.State, now.Result, want)
		}
		as, err := c.Attempts(t.ctx, task.ID)
		t.Must(err)
		if len(as) != 1 {
			t.Errorf("%d attempts are recorded, want 1: %v", len(as), as)
			continue
		}
		a := as[0]
		if a.Outcome != dbq.OutcomeRevoked || a.Error != want || a.Fence != task.Fence || a.Attempt != 1 || a.Queue != "q" || a.Worker == "" {
			t.Errorf("recorded %+v, want attempt 1 under fence %d, revoked, with %q", a, task.Fence, want)
		}
		if a.Started.Before(before) || a.Ended.Before(a.Started) || a.Ended.After(t.now(c)) {
			t.Errorf("recorded from %v to %v, want it between %v and now", a.Started, a.Ended, before)
		}
	}
	t.WantErr("revoking again", c.Operate(t.ctx, op, first.ID), dbq.ErrWrongState)
	if as, err := c.Attempts(t.ctx, first.ID); err != nil || len(as) != 1 {
		t.Errorf("after a refused revoke there are %d attempts, %v, want 1", len(as), err)
	}
}

func operateRevokeEnds(t *T) {
	c := t.Open()
	started, ended := make(chan dbq.Task), make(chan error)
	t.run(worker.Worker{Queue: c.Queue("q"), Lease: time.Hour, // no heartbeat tells it
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) ([]byte, error) {
			started <- task
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		})})
	operators := map[string]*dbq.Client{"the same process": t.Open(), "another process": t.elsewhere(c)}
	if hears(c) {
		t.eventually("the worker listens", c.Listening)
	}
	for name, operator := range operators {
		most, best, tries := time.Second, time.Hour, 3
		if name == "another process" && !hears(c) {
			most, tries = 5*time.Second, 1
		}
		for range tries {
			t.enqueue(c.Queue("q"), dbq.NewTask{})
			var task dbq.Task
			select {
			case task = <-started:
			case <-time.After(patience):
				t.Fatalf("the task is not started")
			}
			begin := time.Now()
			t.Must(operator.Operate(t.ctx, dbq.Operation{Event: state.Revoke, By: "ops", Reason: "enough"}, task.ID))
			select {
			case cause := <-ended:
				if !errors.Is(cause, worker.ErrRevoked) || !errors.Is(cause, dbq.ErrLeaseLost) || !strings.Contains(cause.Error(), "by ops: enough") {
					t.Errorf("%s: the cause is %v, want who revoked the task and why", name, cause)
				}
			case <-time.After(patience):
				t.Fatalf("%s: the handler's context did not end", name)
			}
			if best = min(best, time.Since(begin)); best < 50*time.Millisecond {
				break
			}
		}
		t.Logf("revoked by %s: the handler's context ended after %v", name, best)
		if best > most {
			t.Errorf("%s: the handler's context ended %v after the revoke, want at most %v", name, best, most)
		}
	}
}

func operateReason(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	failure := errors.New("no such mailbox")
	do := func(e state.Event, reason, want string) {
		op := dbq.Operation{Event: e, By: "ops", Reason: reason}
		t.Must(c.Operate(t.ctx, op, id))
		if got := string(t.get(c, id).Result); got != want {
			t.Errorf("after %s for the reason %q the result is %q, want %q", e, reason, got, want)
		}
	}
	do(state.Reject, "", "rejected by ops")
	do(state.Reenqueue, "", "rejected by ops")
	t.Must(q.Poison(t.ctx, t.take(q, long).Lease, failure))
	do(state.Restore, "", failure.Error())
	do(state.Quarantine, "look at it", "quarantined by ops: look at it\n"+failure.Error())
	long := strings.Repeat("é", dbq.MaxReason)
	for range 3 { // the text stays within bounds
		t.Must(c.Operate(t.ctx, dbq.Operation{Event: state.Restore, Reason: long}, id))
		t.Must(c.Operate(t.ctx, dbq.Operation{Event: state.Quarantine, Reason: long}, id))
	}
	if got := t.get(c, id).Result; len(got) > dbq.MaxResult || !strings.HasPrefix(string(got), "quarantined by "+c.Name()+": éé") {
		t.Errorf("the result has %d bytes and begins with %.40q", len(got), got)
	}
	for what, op := range map[string]dbq.Operation{
		"a reason that is too long":   {Event: state.Purge, Reason: long + "é"},
		"a reason that is not UTF-8":  {Event: state.Purge, Reason: "\xff"},
		"a name with a line break":    {Event: state.Purge, By: "a\nb"},
		"a name that is too long":     {Event: state.Purge, By: strings.Repeat("a", dbq.MaxReference+1)},
		"an operation without events": {},
	} {
		t.WantErr(what, c.Operate(t.ctx, op, id), dbq.ErrInvalid)
		_, err := c.OperateMany(t.ctx, op, dbq.Filter{Limit: 1})
		t.WantErr(what+" by filter", err, dbq.ErrInvalid)
	}
}
