package cases

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

func operateRevoked(t *test) {
	c := t.open()
	q := c.Queue("q")
	before := t.now(c)
	first, second := t.takeNew(q, dbq.NewTask{}, long), t.takeNew(q, dbq.NewTask{}, long)
	revoke := func() error {
		return admin.New(c).Operate(t.ctx, admin.Revoke, first.ID, admin.By("änne@ops"), admin.Reason("stuck on a lock"))
	}
	t.must(revoke())
	done, err := admin.New(c).OperateMany(t.ctx, state.Revoke, admin.Filter{Queue: "q", Limit: 10})
	if t.must(err); done.Changed != 1 {
		t.Errorf("by filter %d tasks were revoked, want 1", done.Changed)
	}
	for want, task := range map[string]dbq.Task{"revoked by änne@ops: stuck on a lock": first,
		"revoked by " + c.Info().Name: second} {
		now := t.get(c, task.ID)
		if !now.Parked() || string(now.Result) != want {
			t.Errorf("got %v with result %q, want it parked with %q", now.State, now.Result, want)
		}
		as, err := admin.New(c).Attempts(t.ctx, task.ID)
		t.must(err)
		if len(as) != 1 {
			t.Errorf("%d attempts are recorded, want 1: %v", len(as), as)
			continue
		}
		a := as[0]
		if a.Outcome != dbq.AttemptRevoked || a.Error != want || a.Fence != task.Fence || a.Attempt != 1 || a.Queue != "q" ||
			a.Worker == "" {
			t.Errorf("recorded %+v, want attempt 1 under fence %d, revoked, with %q", a, task.Fence, want)
		}
		if a.Taken.Before(before) || a.Ended.Before(a.Taken) || a.Ended.After(t.now(c)) {
			t.Errorf("recorded from %v to %v, want it between %v and now", a.Taken, a.Ended, before)
		}
	}
	t.wantErr("revoking again", revoke(), dbq.ErrWrongState)
	if as, err := admin.New(c).Attempts(t.ctx, first.ID); err != nil || len(as) != 1 {
		t.Errorf("after a refused revoke there are %d attempts, %v, want 1", len(as), err)
	}
}

// operateEnds lets an operator's event take the leases of running handlers away.
func operateEnds(t *test, event state.Event, want error) {
	c := t.open()
	started, ended := make(chan dbq.Task), make(chan error)
	t.runWorker(worker.Worker{Queue: c.Queue("q"), Lease: time.Hour, // no heartbeat tells it
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			started <- task
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		})})
	operators := map[string]*dbq.Client{"the same process": t.open(), "another process": t.otherProcess(c)}
	if receivesNotifications(c) {
		t.eventually("the worker listens", listening(c))
	}
	for name, operator := range operators {
		// The best of several tries, since a busy machine delays some of them. A worker that polls needs longer.
		most, best, tries := 50*time.Millisecond, time.Hour, 10
		if name == "another process" && !receivesNotifications(c) {
			most, tries = 5*time.Second, 1
		}
		for range tries {
			t.enqueue(c.Queue("q"), dbq.NewTask{})
			var task dbq.Task
			select {
			case task = <-started:
			case <-time.After(t.Patience):
				t.Fatalf("the task is not started")
			}
			t.must(admin.New(operator).Operate(t.ctx, event, task.ID, admin.By("ops"), admin.Reason("enough")))
			begin := time.Now()
			select {
			case cause := <-ended:
				if !errors.Is(cause, want) || !errors.Is(cause, dbq.ErrLeaseLost) ||
					!strings.Contains(cause.Error(), "by ops: enough") {
					t.Errorf("%s: the cause is %v, want %v, who did it and why", name, cause, want)
				}
			case <-time.After(t.Patience):
				t.Fatalf("%s: the handler's context did not end", name)
			}
			if best = min(best, time.Since(begin)); best <= most {
				break
			}
		}
		t.Logf("%s by %s: the handler's context ended after %v", event, name, best)
		if best > most {
			t.Errorf("%s: the handler's context ended %v after the %s, want at most %v", name, best, event, most)
		}
	}
}

func operateReason(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	failure := errors.New("no such mailbox")
	do := func(e state.Event, reason, want string) {
		t.must(admin.New(c).Operate(t.ctx, e, id, admin.By("ops"), admin.Reason(reason)))
		if got := string(t.get(c, id).Result); got != want {
			t.Errorf("after %s for the reason %q the result is %q, want %q", e, reason, got, want)
		}
	}
	do(state.Reject, "", "rejected by ops")
	do(state.Reenqueue, "", "rejected by ops")
	t.must(q.Settle(t.ctx, t.take(q, long).Lease, dbq.Poisoned(failure)))
	do(state.Restore, "", failure.Error())
	do(state.Quarantine, "look at it", "quarantined by ops: look at it\n"+failure.Error())
	long := strings.Repeat("é", admin.MaxReason)
	for range 3 { // the text stays within bounds
		t.must(admin.New(c).Operate(t.ctx, admin.Restore, id, admin.Reason(long)))
		t.must(admin.New(c).Operate(t.ctx, admin.Quarantine, id, admin.Reason(long)))
	}
	if got := t.get(c, id).Result; len(got) > dbq.MaxResult ||
		!strings.HasPrefix(string(got), "quarantined by "+c.Info().Name+": éé") {
		t.Errorf("the result has %d bytes and begins with %.40q", len(got), got)
	}
	for what, option := range map[string]admin.Option{
		"a reason that is too long":  admin.Reason(long + "é"),
		"a reason that is not UTF-8": admin.Reason("\xff"),
		"no name":                    admin.By(""),
		"a name with a line break":   admin.By("a\nb"),
		"a name that is too long":    admin.By(strings.Repeat("a", dbq.MaxReference+1)),
	} {
		t.wantErr(what, admin.New(c).Operate(t.ctx, admin.Purge, id, option), dbq.ErrInvalid)
		_, err := admin.New(c).OperateMany(t.ctx, admin.Purge, admin.Filter{Limit: 1}, option)
		t.wantErr(what+" by filter", err, dbq.ErrInvalid)
	}
}
