package cases

import (
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

func operateCases() []Case {
	cases := []Case{
		{Name: "UnknownTask", run: operateUnknown,
			Law: "An operator's call on a task that does not exist returns ErrNotFound."},
		{Name: "ByName", run: operateByName,
			Law: "Each operator's event moves a task as its name says, by id and by filter."},
	}
	for _, tr := range state.ByOperator() {
		cases = append(cases, Case{Name: "Many/" + string(tr.Event),
			Law: fmt.Sprintf("By filter, %s changes every task whose state allows it, and no other: %s", tr.Event, tr.Doc),
			run: func(t *test) { operateMany(t, tr) }})
	}
	cases = append(cases, []Case{
		{Name: "FilterNarrows", run: operateFilter,
			Law: "Every field of a filter narrows what a listing returns and a bulk call changes."},
		{Name: "OlderThan", run: operateInStateFor,
			Law: "InStateFor counts from the moment a task entered its state, by the database's clock."},
		{Name: "LimitBoundsBulkCalls", run: operateLimit,
			Law: "A bulk call changes at most as many tasks as its limit, and repeating it reaches all of them."},
		{Name: "WhatCannotChangeHidesNothing", run: operatePast,
			Law: "Repeating a bulk call after the last task that it tried reaches all tasks, however many cannot be changed."},
		{Name: "ManyOverOneStatement", Slow: true, run: operateLarge,
			Law: "A bulk call that exceeds the limits of one statement changes every task once."},
		{Name: "ListPages", run: operateList,
			Law: "Paging by the last id returns every task once, ordered by id, even while tasks change their states."},
		{Name: "Stats", run: operateStats,
			Law: "Stats counts every queue's tasks by state, those that are due or parked, and how long the oldest has been " +
				"due; StatsOf does so for one queue."},
		Case{Name: "StatsOfManyQueues", Once: true, run: operateStatsMany,
			Law: "Stats counts each of many queues, also those that are new since its last call or have ended."},
		Case{Name: "StatsStopAtTheirLimit", Once: true, run: operateStatsUpTo,
			Law: "Counting up to a limit reports which states may have more tasks, and the exact lag."},
		{Name: "RevokeIsRecorded", run: operateRevoked,
			Law: "A revoked task records who revoked it and why, and its history has the revoked attempt."},
		{Name: "RevokeEndsTheHandler", run: func(t *test) { operateEnds(t, admin.Revoke, worker.ErrRevoked) },
			Law: "Revoking a task ends its handler's context with the operator and the reason as the cause: within 50 " +
				"milliseconds in the same process and on engines that notify, otherwise within seconds."},
		{Name: "CancelEndsTheHandler", run: func(t *test) { operateEnds(t, admin.Cancel, worker.ErrCancelled) },
			Law: "Cancelling a task ends its handler's context as revoking it does, with a cause of its own."},
		{Name: "CancelledIsDistinctFromPoison", run: operateCancelled,
			Law: "A cancelled task is not handed out, and differs from other POISON tasks in listings, statistics and " +
				"the history, until it is reenqueued."},
		{Name: "ReasonIsKept", run: operateReason,
			Law: "An operator's reason is stored with the task, before the error that was there."},
		{Name: "InTransaction", run: operateTx,
			Law: "An operator's event in a caller's transaction, and what GetTx reads there, is visible to others when the " +
				"transaction commits, and never happened when it rolls back."},
		{Name: "ReenqueueStartsOver", run: operateReenqueue,
			Law: "A reenqueued task has all its attempts again and can be taken at once."},
		{Name: "WaitReturnsTheEndedTask", run: operateWait,
			Law: "Wait returns a task, with its result, as soon as it is completed, poisoned or parked."},
		{Name: "WaitEndsWithItsContext", run: operateWaitEnds,
			Law: "Wait ends with its context's error, or with ErrNotFound when the task does not exist or is removed."},
	}...)
	for i := range cases {
		cases[i].Once = true
	}
	return inGroup("Operate", cases...)
}

func operateUnknown(t *test) {
	c := t.open()
	id := dbq.NewID()
	for _, tr := range state.ByOperator() {
		t.wantErr(string(tr.Event), admin.New(c).Operate(t.ctx, tr.Event, id), dbq.ErrNotFound)
	}
	for _, e := range []state.Event{state.Complete, state.Checkout, "nonsense", ""} {
		t.wantErr("operate with "+string(e), admin.New(c).Operate(t.ctx, e, id), dbq.ErrInvalid)
		_, err := admin.New(c).OperateMany(t.ctx, e, admin.Filter{Limit: 1})
		t.wantErr("operate by filter with "+string(e), err, dbq.ErrInvalid)
	}
}

func operateByName(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	chain := []struct {
		event state.Event
		to    dbq.State
	}{
		{admin.Reject, dbq.StateError}, {admin.Quarantine, dbq.StatePoison}, {admin.Restore, dbq.StateError},
		{admin.Reenqueue, dbq.StateCreated}, {admin.Revoke, dbq.StateError}, {admin.Cancel, dbq.StatePoison},
		{admin.Restore, dbq.StateError},
	}
	for _, e := range chain {
		if e.event == admin.Revoke {
			t.take(q, long)
		}
		t.must(admin.New(c).Operate(t.ctx, e.event, id))
		t.wantState(c, id, e.to)
	}
	t.must(admin.New(c).Operate(t.ctx, admin.Purge, id))
	t.wantGone(c, id)

	id = t.enqueue(q, dbq.NewTask{})
	many := func(e state.Event) {
		done, err := admin.New(c).OperateMany(t.ctx, e, admin.Filter{Queue: "q", Limit: 10})
		if done.Changed != 1 || err != nil {
			t.Fatalf("%s by filter: got %+v and error %v, want 1", e, done, err)
		}
	}
	for _, e := range chain {
		if e.event == admin.Revoke {
			t.take(q, long)
		}
		many(e.event)
		t.wantState(c, id, e.to)
	}
	many(admin.Purge)
	t.wantGone(c, id)
}

// operateMany puts a task into each situation and lets the event have them all.
func operateMany(t *test, tr state.Transition) {
	c := t.open()
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
	done, err := admin.New(c).OperateMany(t.ctx, tr.Event, admin.Filter{Kind: "all", Limit: 100})
	if done.Changed != want || err != nil {
		t.Errorf("changed %d tasks with error %v, want %d", done.Changed, err, want)
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

func operateLimit(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueueMany(q, 25, nil)
	t.enqueueMany(c.Queue("other"), 25, nil)
	for _, want := range []int{10, 10, 5, 0} {
		done, err := admin.New(c).OperateMany(t.ctx, admin.Reject, admin.Filter{Queue: "q", Limit: 10})
		if done.Changed != want || done.More != (want == 10) || err != nil {
			t.Errorf("reject of up to 10: got %+v and error %v, want %d", done, err, want)
		}
	}
	if left := len(t.list(c, admin.Filter{States: []dbq.State{dbq.StateCreated}})); left != 25 {
		t.Errorf("%d tasks are CREATED, want the 25 of the other queue", left)
	}
}

// operatePast purges parked tasks, the first of which a workflow still needs.
func operatePast(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	w := t.enqueueSteps(c, stepsOf(q, []string{"a"}, []string{"b"}, []string{"c"}, []string{"d", "a", "b", "c"}))
	free := t.enqueue(q, dbq.NewTask{})
	needed := w.Tasks[:3]
	for _, id := range append(slices.Clone(needed), free) {
		t.must(ops.Operate(t.ctx, admin.Reject, id))
	}
	f, changed := admin.Filter{Queue: "q", ParkedOnly: true, Limit: 1}, 0
	for calls := 1; ; calls++ {
		done, err := ops.OperateMany(t.ctx, admin.Purge, f)
		t.must(err)
		changed += done.Changed
		if !done.More {
			break
		}
		if done.Last == f.After || calls > 4 {
			t.Fatalf("call %d does not go on: %+v", calls, done)
		}
		f.After = done.Last
	}
	if changed != 1 {
		t.Errorf("%d tasks were purged, want 1", changed)
	}
	t.wantGone(c, free)
	for _, id := range needed {
		t.wantState(c, id, dbq.StateError)
	}
}

func operateLarge(t *test) {
	c := t.open()
	n := t.overOneStatement(t.statements().Move)
	t.enqueueMany(c.Queue("q"), n, nil)
	for _, e := range []state.Event{
		admin.Reject, admin.Quarantine, admin.Restore, admin.Reenqueue, admin.Reject, admin.Purge,
	} {
		done, err := admin.New(c).OperateMany(t.ctx, e, admin.Filter{Limit: dbq.MaxBulk})
		if done.Changed != n || err != nil {
			t.Fatalf("%s: got %+v and error %v, want %d", e, done, err, n)
		}
	}
	if left := t.count(c, ""); left != 0 {
		t.Errorf("%d tasks are left after the purge, want none", left)
	}
}

func operateReenqueue(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2, Payload: []byte("x")})
	for range 2 {
		t.must(q.Settle(t.ctx, t.take(q, long).Lease, dbq.RetryIn(0, errBoom)))
	}
	t.wantState(c, id, dbq.StatePoison)
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, id))
	for attempt := 1; attempt <= 2; attempt++ {
		task := t.take(q, long)
		if task.Attempt != attempt || string(task.Payload) != "x" {
			t.Errorf("after the reenqueue got %s, want attempt %d", show(task), attempt)
		}
		t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom)))
	}
	t.wantState(c, id, dbq.StatePoison)
	// One that waits for its retry need not wait any longer.
	id = t.enqueue(q, dbq.NewTask{})
	t.must(q.Settle(t.ctx, t.take(q, long).Lease, dbq.RetryIn(long, errBoom)))
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, id))
	if task := t.take(q, long); task.ID != id {
		t.Errorf("got task %s, want %s", task.ID, id)
	}
}
