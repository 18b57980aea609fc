package conformance

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

func operateCases() []Case {
	cases := []Case{
		{Name: "UnknownTask", Law: "An operator's call on a task that does not exist is ErrNotFound.",
			run: operateUnknown},
		{Name: "ByName", Law: "Each operator's method does the event of its name.",
			run: operateByName},
	}
	for _, tr := range state.ByOperator() {
		cases = append(cases, Case{Name: "Many/" + string(tr.Event),
			Law: fmt.Sprintf("By filter, %s takes each task whose state allows it and no other: %s", tr.Event, tr.Doc),
			run: func(t *T) { operateMany(t, tr) }})
	}
	cases = append(cases, []Case{
		{Name: "FilterNarrows", Law: "Every field of a filter narrows what a listing and a bulk call take.",
			run: operateFilter},
		{Name: "OlderThan", Law: "OlderThan counts from when a task came into its state, by the database's clock.",
			run: operateOlderThan},
		{Name: "LimitOfManyIsKept", Law: "A bulk call changes at most its limit, and repeating it gets through all.",
			run: operateLimit},
		{Name: "ManyOverOneStatement", Law: "A bulk call over the limits of one statement changes everything once.",
			run: operateLarge},
		{Name: "ListPages", Law: "Paging by the last id sees every task once, in the order of ids, also while tasks change their states.",
			run: operateList},
		{Name: "Stats", Law: "Stats count every queue's tasks by state, those due and parked, and how long the oldest has been due.",
			run: operateStats},
		Case{Name: "StatsStopAtTheirLimit", once: true, run: operateStatsUpTo,
			Law: "Counting up to a limit says of which states there may be more, and tells the lag exactly."},
		{Name: "RevokeIsRecorded", Law: "A revoked task keeps who revoked it and why, and its history has the attempt that was revoked.",
			run: operateRevoked},
		{Name: "RevokeEndsTheHandler", Law: "Revoking a task in work ends its handler's context, with who did it and why as the cause: at once in the " +
			"same process and where other processes notify, else within seconds.", run: operateRevokeEnds},
		{Name: "ReasonIsKept", Law: "An operator's reason is kept with the task, before the error that was there.",
			run: operateReason},
		{Name: "ReenqueueStartsOver", Law: "A reenqueued task has all its attempts again and is taken at once.",
			run: operateReenqueue},
		{Name: "WaitReturnsTheEnd", Law: "Wait returns a task as soon as it is completed, poisoned or parked, with its result.",
			run: operateWait},
		{Name: "WaitGivesUp", Law: "Wait ends with its context, and with ErrNotFound when the task is not there or is removed.",
			run: operateWaitEnds},
	}...)
	for i := range cases {
		cases[i].once = true
	}
	return inGroup("Operate", cases...)
}

func operateUnknown(t *T) {
	c := t.Open()
	id := dbq.NewID()
	for _, tr := range state.ByOperator() {
		t.WantErr(string(tr.Event), c.Operate(t.ctx, dbq.Operation{Event: tr.Event}, id), dbq.ErrNotFound)
	}
	for _, e := range []state.Event{state.Complete, state.Checkout, "nonsense"} {
		t.WantErr("operate with "+string(e), c.Operate(t.ctx, dbq.Operation{Event: e}, id), dbq.ErrInvalid)
		_, err := c.OperateMany(t.ctx, dbq.Operation{Event: e}, dbq.Filter{Limit: 1})
		t.WantErr("operate by filter with "+string(e), err, dbq.ErrInvalid)
	}
}

func operateByName(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	step := func(what string, err error, want dbq.State) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.wantState(c, id, want)
	}
	step("reject", c.Reject(t.ctx, id), dbq.StateError)
	step("quarantine", c.Quarantine(t.ctx, id), dbq.StatePoison)
	step("restore", c.Restore(t.ctx, id), dbq.StateError)
	step("reenqueue", c.Reenqueue(t.ctx, id), dbq.StateCreated)
	t.take(q, long)
	step("revoke", c.Revoke(t.ctx, id), dbq.StateError)
	t.Must(c.Purge(t.ctx, id))
	t.wantGone(c, id)

	id = t.enqueue(q, dbq.NewTask{})
	f := dbq.Filter{Queue: "q", Limit: 10}
	many := func(what string, call func(context.Context, dbq.Filter) (int, error), want dbq.State) {
		n, err := call(t.ctx, f)
		if n != 1 {
			t.Errorf("%s by filter changed %d tasks, want 1", what, n)
		}
		step(what+" by filter", err, want)
	}
	many("reject", c.RejectMany, dbq.StateError)
	many("quarantine", c.QuarantineMany, dbq.StatePoison)
	many("restore", c.RestoreMany, dbq.StateError)
	many("reenqueue", c.ReenqueueMany, dbq.StateCreated)
	t.take(q, long)
	many("revoke", c.RevokeMany, dbq.StateError)
	n, err := c.PurgeMany(t.ctx, f)
	if n != 1 || err != nil {
		t.Errorf("purge by filter: got %d and error %v, want 1", n, err)
	}
	t.wantGone(c, id)
}

// operateMany puts a task into each situation and lets the event have them all.
func operateMany(t *T, tr state.Transition) {
	c := t.Open()
	type row struct {
		before dbq.Task
		moves  bool
	}
	rows := map[string]row{}
	want := 0
	for _, s := range situations()[1:] { // all but absent; each in a queue of its own, where it is the only task due
		q := c.Queue(s.name)
		r := row{t.get(c, s.reach(t, q, dbq.NewTask{Kind: "all"})), s.meets(tr)}
		if rows[s.name] = r; r.moves {
			want++
		}
	}
	n, err := c.OperateMany(t.ctx, dbq.Operation{Event: tr.Event}, dbq.Filter{Kind: "all", Limit: 100})
	if n != want || err != nil {
		t.Errorf("changed %d tasks with error %v, want %d", n, err, want)
	}
	for name, r := range rows {
		switch {
		case !r.moves:
			t.wantUnchanged(string(tr.Event)+" on a task in "+name, c, r.before)
		case tr.To == state.None:
			t.wantGone(c, r.before.ID)
		default:
			t.wantState(c, r.before.ID, tr.To)
		}
	}
}

func operateLimit(t *T) {
	c := t.Open()
	q := c.Queue("q")
	t.enqueueMany(q, 25, nil)
	t.enqueueMany(c.Queue("other"), 25, nil)
	for _, want := range []int{10, 10, 5, 0} {
		n, err := c.RejectMany(t.ctx, dbq.Filter{Queue: "q", Limit: 10})
		if n != want || err != nil {
			t.Errorf("reject of up to 10: got %d and error %v, want %d", n, err, want)
		}
	}
	if left := len(t.list(c, dbq.Filter{States: []dbq.State{dbq.StateCreated}})); left != 25 {
		t.Errorf("%d tasks are CREATED, want the 25 of the other queue", left)
	}
}

func operateLarge(t *T) {
	c := t.Open()
	n := t.overOneStatement(t.statements().Move[state.Reject])
	t.enqueueMany(c.Queue("q"), n, nil)
	for _, call := range []func(context.Context, dbq.Filter) (int, error){c.RejectMany, c.QuarantineMany, c.RestoreMany, c.ReenqueueMany, c.RejectMany, c.PurgeMany} {
		if got, err := call(t.ctx, dbq.Filter{Limit: dbq.MaxBulk}); got != n || err != nil {
			t.Fatalf("got %d and error %v, want %d", got, err, n)
		}
	}
	if left := t.count(c, ""); left != 0 {
		t.Errorf("%d tasks are left after the purge, want none", left)
	}
}

func operateReenqueue(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2, Payload: []byte("x")})
	for range 2 {
		t.Must(q.Fail(t.ctx, t.take(q, long).Lease, dbq.RetryIn(0), errBoom))
	}
	t.wantState(c, id, dbq.StatePoison)
	t.Must(c.Reenqueue(t.ctx, id))
	for attempt := 1; attempt <= 2; attempt++ {
		task := t.take(q, long)
		if task.Attempt != attempt || string(task.Payload) != "x" {
			t.Errorf("after the reenqueue got %s, want attempt %d", show(task), attempt)
		}
		t.Must(q.Fail(t.ctx, task.Lease, dbq.RetryIn(0), errBoom))
	}
	t.wantState(c, id, dbq.StatePoison)
	// One that waits for its retry need not wait any longer.
	id = t.enqueue(q, dbq.NewTask{})
	t.Must(q.Fail(t.ctx, t.take(q, long).Lease, dbq.RetryIn(long), errBoom))
	t.Must(c.Reenqueue(t.ctx, id))
	if task := t.take(q, long); task.ID != id {
		t.Errorf("got task %s, want %s", task.ID, id)
	}
}
