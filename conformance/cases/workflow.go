package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// workflowCases are the promises about tasks that need others.
func workflowCases() []Case {
	return inGroup("Workflow",
		Case{Name: "OrderOfNeeds", run: workflowOrder,
			Law: "However many workers there are, a task is handed out once, and not before all that it needs are completed."},
		Case{Name: "TwoParentsAtOnce", run: workflowAtOnce,
			Law: "If the tasks that one task needs end at the same time, it becomes due."},
		Case{Name: "FanOutAndGather", Once: true, run: workflowFanOut,
			Law: "A task that needs 1,000 others becomes due once, after the last of them, as do 1,000 that need one."},
		Case{Name: "FailureOfANeed", Once: true, run: workflowFailure,
			Law: "When a task goes to POISON by an attempt, a lost lease or an operator, a task that needs it is cancelled, " +
				"with what needs that, or waits, or runs."},
		Case{Name: "ResultsHandedOn", Once: true, run: workflowResults,
			Law: "A task reads the results of all that it needs, also those of other queues and failed ones."},
		Case{Name: "CancelAndRetry", Once: true, run: workflowRetry,
			Law: "A whole workflow can be cancelled and retried, and then runs in order."},
		Case{Name: "RetryWaitsAgain", Once: true, run: workflowReenqueued,
			Law: "A task that an operator reenqueues waits for what it still needs."},
		Case{Name: "RolledBack", Once: true, run: workflowRolledBack,
			Law: "A workflow, and the end of one of its tasks, are part of the caller's transaction."},
		Case{Name: "TimesCountFromTheNeeds", Once: true, run: workflowTimes,
			Law: "The delay of a task that needs others counts from the end of the last of them."},
		Case{Name: "RemovalAndRetention", Once: true, run: workflowRemoved,
			Law: "A completed task is kept while one that needs it has not ended; when all are removed, nothing is left."},
		Case{Name: "KilledProcess", Once: true, run: workflowKilled,
			Law: "If a process is killed between the end of a task and what follows from it, the next worker carries on, " +
				"whether it is listed or not."},
		Case{Name: "AnswerLost", Once: true, run: workflowCut,
			Law: "If the connection is lost at any statement of the end of a task, no task of its workflow is lost, doubled " +
				"or left waiting."},
		Case{Name: "LockDelaysOneWorkflow", Once: true, run: workflowLocked,
			Law: "A locked task of a workflow delays neither the settlement of what it needs nor other tasks."},
		Case{Name: "LocksLeaveConnections", Once: true, run: workflowPool,
			Law: "However many workflows have locked tasks, a client has connections left for other queues."},
		Case{Name: "LocksDelayNoRecovery", Once: true, run: workflowRecovery,
			Law: "A workflow whose client has crashed goes on, though others that were left before have locked tasks."},
		Case{Name: "Signal", Once: true, run: workflowSignal,
			Law: "A signal completes a step that waits, with a value, once, also in a transaction. Without one the step runs " +
				"after its delay, and a later signal is refused."},
		Case{Name: "ListedNewestFirst", Once: true, run: workflowList,
			Law: "Workflows are listed in parts, the newest first, however many tasks they have, until these are removed."},
		Case{Name: "PurgeBesideAReenqueue", Once: true, run: workflowPurgeReenqueue,
			Law: "If a failed task is purged while an operator reenqueues one that needed it, this one becomes due, unless " +
				"the purge came too late and is refused."},
		Case{Name: "PurgeBesideAnEnd", Once: true, run: workflowPurgeEnd,
			Law: "If a completed task is purged while what follows from its end is carried out, the tasks that need it count " +
				"it once."},
	)
}

// stepsOf returns steps in a queue from their names, each with its needs.
func stepsOf(q *dbq.Queue, names ...[]string) (out []workflow.Step) {
	for _, n := range names {
		out = append(out, workflow.Step{Name: n[0], Queue: q.Name(), Needs: n[1:]})
	}
	return out
}

// enqueueSteps enqueues a workflow.
func (t *test) enqueueSteps(c *dbq.Client, steps []workflow.Step) workflow.Enqueued {
	return must(workflow.Enqueue(t.ctx, c, steps))
}

func (t *test) settleAll(q *dbq.Queue, ss []dbq.Settlement) {
	for _, o := range must(q.SettleMany(t.ctx, ss)) {
		t.must(o.Err)
	}
}

// completeNext takes the only task that is due, or soon, and completes it. It records a failure unless it is this one.
func (t *test) completeNext(what string, q *dbq.Queue, id uuid.UUID) {
	next := t.takeN(q, 1, long)
	t.wantIDs(what, next, []uuid.UUID{id})
	t.must(q.Complete(t.ctx, next[0].Lease, nil))
}

// wantWaiting records a failure unless tasks wait for others.
func (t *test) wantWaiting(what string, c *dbq.Client, ids ...uuid.UUID) {
	for _, id := range ids {
		if task := t.get(c, id); task.State != dbq.StateCreated || !task.Blocked || !task.Due.IsZero() {
			t.Errorf("%s: got %s, blocked %v, want a blocked task", what, show(task), task.Blocked)
		}
	}
}

func workflowOrder(t *test) {
	clients := t.twoClients()
	c := clients[0]
	q := c.Queue("q")
	rng := rand.New(rand.NewPCG(t.Seed, 0))
	var ss []workflow.Step
	for i := range 40 {
		s := workflow.Step{Name: fmt.Sprint(i), Queue: q.Name()}
		for parent := range i {
			if rng.IntN(i) < 2 {
				s.Needs = append(s.Needs, fmt.Sprint(parent))
			}
		}
		ss = append(ss, s)
	}
	rng.Shuffle(len(ss), func(i, j int) { ss[i], ss[j] = ss[j], ss[i] })
	w := t.enqueueSteps(c, ss)
	byID, ids := map[uuid.UUID]workflow.Step{}, map[string]uuid.UUID{}
	for i, s := range ss {
		byID[w.TaskIDs[i]], ids[s.Name] = s, w.TaskIDs[i]
	}
	var mu sync.Mutex
	done, taken := map[uuid.UUID]bool{}, map[uuid.UUID]int{}
	t.concurrently(4, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("q")
		for end := time.Now().Add(t.Patience); ctx.Err() == nil && time.Now().Before(end); {
			tasks := must(q.Checkout(ctx, 3, long))
			for _, task := range tasks {
				mu.Lock()
				taken[task.ID]++
				for _, need := range byID[task.ID].Needs {
					t.failIf(!done[ids[need]], "step %s was handed out before %s was completed", byID[task.ID].Name, need)
				}
				done[task.ID] = true // from now on: others may see the commit before this client does
				mu.Unlock()
				t.must(q.Complete(ctx, task.Lease, nil))
			}
			mu.Lock()
			all := len(done) == len(ss)
			mu.Unlock()
			if all {
				return
			}
			if len(tasks) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	for id, s := range byID {
		t.failIf(taken[id] != 1, "step %s was handed out %d times, want once", s.Name, taken[id])
		t.wantState(c, id, dbq.StateCompleted)
	}
}

func workflowAtOnce(t *test) {
	clients := t.twoClients()
	c := clients[0]
	q := c.Queue("q")
	for range t.load(10) {
		w := t.enqueueSteps(c, stepsOf(q, []string{"a"}, []string{"b"}, []string{"both", "a", "b"}))
		tasks := t.checkout(q, 10, long)
		if len(tasks) != 2 {
			t.Fatalf("%d tasks are due, want the two that need none", len(tasks))
		}
		t.concurrently(2, func(ctx context.Context, i int) {
			t.must(clients[i].Queue("q").Complete(ctx, tasks[i].Lease, nil))
		})
		t.completeNext("after both", q, w.TaskIDs[2])
	}
}

func workflowFanOut(t *test) {
	const n = 1000
	c, q := t.openQueue()
	ss := stepsOf(q, []string{"split"})
	for i := range n {
		ss = append(ss, workflow.Step{Name: fmt.Sprint(i), Queue: q.Name(), Needs: []string{"split"}})
	}
	ss = append(ss, workflow.Step{Name: "gather", Queue: q.Name(), Needs: workflow.Names(ss[1:])})
	w := t.enqueueSteps(c, ss)
	first := t.take(q, long)
	t.must(q.Complete(t.ctx, first.Lease, nil))
	parts := t.takeN(q, n, long)
	for part := range slices.Chunk(parts, 200) {
		t.wantWaiting("before the last part", c, w.TaskIDs[n+1])
		done := allTo(dbq.Completed(nil), leasesOf(part)...)
		t.settleAll(q, done)
	}
	t.completeNext("at the end", q, w.TaskIDs[n+1])
	info := must(workflow.Get(t.ctx, c, w.ID, workflow.MaxSteps))
	t.failIf(first.ID != w.TaskIDs[0] || len(info.Steps) != n+2 || len(info.Needs) != 2*n || info.Cut,
		"got %s first, %d steps and %d needs", show(first), len(info.Steps), len(info.Needs))
	t.wantNone("at the end", q)
}

// failures are the ways in which a task goes to POISON.
func (t *test) failures(q *dbq.Queue) map[string]func(task dbq.Task) {
	return map[string]func(task dbq.Task){
		"an outcome":       func(task dbq.Task) { t.must(q.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom))) },
		"its last attempt": func(task dbq.Task) { t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errBoom))) },
		"an operator":      func(task dbq.Task) { t.operate(q.Client(), admin.Cancel, task.ID) },
		"a transaction": func(task dbq.Task) {
			t.inTx(q.Client(), func(tx *sql.Tx) error { return q.SettleTx(t.ctx, tx, task.Lease, dbq.Poisoned(errBoom)) })
		},
		"a lost lease": func(task dbq.Task) {
			t.expireNow(q, task.Lease)
			t.awaitExhausted(q, task.ID)
		},
	}
}

func workflowFailure(t *test) {
	c := t.open()
	for how := range t.failures(c.Queue("q")) {
		q := c.Queue("q " + how)
		ss := stepsOf(q, []string{"parent"}, []string{"cancelled", "parent"}, []string{"waits", "parent"},
			[]string{"goes on", "parent"}, []string{"grandchild", "cancelled"})
		ss[0].Task.MaxAttempts = 1
		ss[2].OnFailure, ss[3].OnFailure = workflow.WaitStep, workflow.IgnoreFailure
		w := t.enqueueSteps(c, ss)
		t.failures(q)[how](t.take(q, long))
		t.completeNext("after "+how, q, w.TaskIDs[3])
		t.wantWaiting("after "+how, c, w.TaskIDs[2])
		for _, id := range []uuid.UUID{w.TaskIDs[1], w.TaskIDs[4]} {
			t.eventually("what needs the task is cancelled after "+how, func() bool {
				task := t.get(c, id)
				return task.State == dbq.StatePoison && task.Cancelled
			})
		}
		reason := fmt.Sprintf(`cancelled by dbq: it needs "parent" (%s), which is in POISON`, w.TaskIDs[0])
		if got := string(t.get(c, w.TaskIDs[1]).Result); got != reason {
			t.Errorf("after %s the reason is %q, want %q", how, got, reason)
		}
		// An operator retries the parent: waiting steps run, and cancelled ones stay cancelled.
		t.operate(c, admin.Reenqueue, w.TaskIDs[0])
		t.completeNext("after the retry", q, w.TaskIDs[0])
		t.completeNext("after the retry", q, w.TaskIDs[2])
		t.wantState(c, w.TaskIDs[1], dbq.StatePoison)
	}
}

func workflowResults(t *test) {
	c := t.open()
	q, other := c.Queue("q"), c.Queue("other")
	w := t.enqueueSteps(c, []workflow.Step{
		{Name: "reads", Queue: "q", Needs: []string{"a", "b", "fails"}, OnFailure: workflow.IgnoreFailure},
		{Name: "a", Queue: "q"}, {Name: "b", Queue: "other"}, {Name: "fails", Queue: "other", Task: dbq.NewTask{Priority: 1}},
	})
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, []byte("result of a")))
	tasks := t.checkout(other, 10, long)
	t.wantIDs("in the other queue", tasks, w.TaskIDs[2:])
	t.must(other.Complete(t.ctx, tasks[0].Lease, []byte{}))
	t.must(other.Settle(t.ctx, tasks[1].Lease, dbq.Poisoned(errBoom)))
	reads := t.takeN(q, 1, long)[0]
	got := map[string]string{}
	for n, err := range workflow.Needs(t.ctx, c, reads.ID) {
		t.must(err)
		got[n.Name] = fmt.Sprintf("%v %s %s", n.State, n.Queue, n.Result)
	}
	want := map[string]string{"a": "COMPLETED q result of a", "b": "COMPLETED other ", "fails": "POISON other boom"}
	t.failIf(!maps.Equal(got, want) || reads.ID != w.TaskIDs[0], "got the results %v, want %v", got, want)
	id, name, err := workflow.Of(t.ctx, c, reads.ID)
	if t.must(err); id != w.ID || name != "reads" {
		t.Errorf("the task is %q of workflow %s, want %q of %s", name, id, "reads", w.ID)
	}
	_, _, err = workflow.Of(t.ctx, c, t.enqueue(q, dbq.NewTask{}))
	t.wantErr("Of a plain task", err, dbq.ErrNotFound)
	_, err = workflow.Get(t.ctx, c, dbq.NewID(), 0)
	t.wantErr("Get of none", err, dbq.ErrNotFound)
}

// workflowSignal has workflows of three steps, of which the second waits for a signal.
func workflowSignal(t *test) {
	c, q := t.openQueue()
	type approval struct{ By string }
	enqueue := func(delay time.Duration) workflow.Enqueued {
		ss := stepsOf(q, []string{"order"}, []string{"approved", "order"}, []string{"ship", "approved"})
		ss[1].Task.Delay = delay
		return t.enqueueSteps(c, ss)
	}
	signal := func(w workflow.Enqueued) error {
		return workflow.Signal(t.ctx, c, w.ID, "approved", approval{"ann"})
	}
	waiting := func() workflow.Enqueued {
		w := enqueue(long)
		t.wantErr("a signal for a step that waits for others", signal(w), dbq.ErrWrongState)
		t.completeNext("the first step", q, w.TaskIDs[0])
		t.wantNone("before the signal", q)
		return w
	}
	wantShip := func(what string, w workflow.Enqueued) {
		ship := t.takeN(q, 1, long)
		t.wantIDs(what, ship, w.TaskIDs[2:])
		got := must(workflow.Result[approval](t.ctx, c, ship[0].ID, "approved"))
		t.failIf(got.By != "ann", "%s: the step reads the value %+v", what, got)
		t.must(q.Complete(t.ctx, ship[0].Lease, nil))
	}

	w := waiting()
	t.must(signal(w))
	wantShip("after the signal", w)
	t.wantErr("a second signal", signal(w), dbq.ErrWrongState)

	w = waiting()
	tx := t.beginTx(c)
	t.must(workflow.SignalTx(t.ctx, tx, c, w.ID, "approved", approval{"bob"}))
	t.must(tx.Rollback())
	t.wantState(c, w.TaskIDs[1], dbq.StateCreated)
	t.inTx(c, func(tx *sql.Tx) error {
		return workflow.SignalTx(t.ctx, tx, c, w.ID, "approved", approval{"ann"})
	})
	wantShip("after the transaction", w)

	w = enqueue(time.Millisecond)
	t.completeNext("the first step", q, w.TaskIDs[0])
	late := t.takeN(q, 1, long)
	t.wantIDs("without a signal", late, w.TaskIDs[1:2])
	t.wantErr("a signal for a step that is running", signal(w), dbq.ErrWrongState)
	t.must(q.Settle(t.ctx, late[0].Lease, dbq.Poisoned(errBoom)))
	t.eventually("what needs the step is cancelled", func() bool { return t.get(c, w.TaskIDs[2]).Cancelled })
	t.wantErr("a signal for a step that has failed", signal(w), dbq.ErrWrongState)
	t.wantState(c, w.TaskIDs[1], dbq.StatePoison)
	t.operate(c, admin.Finish, w.TaskIDs[1], admin.Result([]byte(`{"By":"ann"}`)))
	must(workflow.Retry(t.ctx, c, w.ID))
	wantShip("after an operator has finished the step", w)

	w = waiting()
	t.wantErr("a signal for no step", workflow.Signal(t.ctx, c, w.ID, "none", nil), dbq.ErrNotFound)
	t.wantErr("a value that is too large",
		workflow.Signal(t.ctx, c, w.ID, "approved", strings.Repeat("x", dbq.MaxResult)), dbq.ErrPayload)
	t.wantState(c, w.TaskIDs[1], dbq.StateCreated)
}

func workflowRetry(t *test) {
	c, q := t.openQueue()
	ss := stepsOf(q, []string{"a"}, []string{"b", "a"}, []string{"c", "b"}, []string{"d", "c"})
	ss[2].OnFailure = workflow.WaitStep
	w := t.enqueueSteps(c, ss)
	plain := t.enqueue(q, dbq.NewTask{Delay: long})
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, nil))
	t.takeN(q, 1, long)
	n := must(workflow.Cancel(t.ctx, c, w.ID, admin.By("ann"), admin.Reason("no stock")))
	t.failIf(n != 3, "cancelled %d tasks, want 3", n)
	t.wantNone("after the cancellation", q)
	t.wantState(c, plain, dbq.StateCreated)
	tasks := t.list(c, admin.Filter{Workflow: w.ID, CancelledOnly: true})
	t.wantIDs("cancelled", tasks, w.TaskIDs[1:])
	for _, task := range tasks {
		t.failIf(string(task.Result) != "cancelled by ann: no stock", "the reason is %q", task.Result)
	}
	n = must(workflow.Retry(t.ctx, c, w.ID))
	t.failIf(n != 3, "retried %d tasks, want 3", n)
	t.wantWaiting("after the retry", c, w.TaskIDs[2])
	for _, id := range w.TaskIDs[1:] {
		t.completeNext("after the retry", q, id)
	}
}

func workflowReenqueued(t *test) {
	c, q := t.openQueue()
	ops := admin.New(c)
	w := t.enqueueSteps(c, stepsOf(q, []string{"a"}, []string{"b", "a"}))
	a := t.take(q, long)
	t.wantErr("a task that waits cannot be reenqueued",
		ops.Operate(t.ctx, admin.Reenqueue, w.TaskIDs[1]), dbq.ErrWrongState)
	for _, event := range []state.Event{admin.Reject, admin.Cancel} {
		t.operate(c, event, w.TaskIDs[1])
		t.operate(c, admin.Reenqueue, w.TaskIDs[1])
		t.wantWaiting("after "+string(event)+" and reenqueue", c, w.TaskIDs[1])
		t.wantNone("what needs a leased task is not due", q)
	}
	// The end of its needs meets a transaction that reenqueues it: the last transaction to commit makes it due.
	t.operate(c, admin.Reject, w.TaskIDs[1])
	if c.Info().Server.OneWriter {
		t.must(q.Complete(t.ctx, a.Lease, nil))
		t.operate(c, admin.Reenqueue, w.TaskIDs[1])
	} else {
		tx := t.beginTx(c)
		t.must(ops.OperateTx(t.ctx, tx, admin.Reenqueue, w.TaskIDs[1]))
		t.must(q.Complete(t.ctx, a.Lease, nil))
		t.must(tx.Commit())
		t.must(workflow.Resume(t.ctx, c))
	}
	t.wantIDs("after all", t.takeN(q, 1, long), w.TaskIDs[1:])
}

// wantNoWorkflows records a failure if there are rows of workflows.
func (t *test) wantNoWorkflows(c *dbq.Client) {
	for _, from := range []string{"step", "need", "kv WHERE namespace = 'workflow'"} {
		n := t.rows(c.DB(), t.Prefix+from)
		t.failIf(n != 0, "%s has %d rows, want 0", from, n)
	}
}

func workflowRolledBack(t *test) {
	c, q := t.openQueue()
	ss := stepsOf(q, []string{"a"}, []string{"b", "a"})
	tx := t.beginTx(c)
	must(workflow.EnqueueTx(t.ctx, tx, c, ss))
	t.must(tx.Rollback())
	t.wantCount(c, "q", 0)
	t.wantNoWorkflows(c)
	tx = t.beginTx(c)
	w := must(workflow.EnqueueTx(t.ctx, tx, c, ss))
	t.must(tx.Commit())
	a := t.take(q, long)
	for _, commit := range []bool{false, true} {
		tx = t.beginTx(c)
		t.must(q.CompleteTx(t.ctx, tx, a.Lease, nil))
		if !commit {
			t.must(tx.Rollback())
			t.wantWaiting("after the rollback", c, w.TaskIDs[1])
			continue
		}
		t.must(tx.Commit())
	}
	t.eventually("the task is due after the commit", func() bool { return len(t.checkout(q, 1, long)) == 1 })
}

func workflowTimes(t *test) {
	c, q := t.openQueue()
	ss := stepsOf(q, []string{"a"}, []string{"delayed", "a"}, []string{"past", "a"}, []string{"later", "a"})
	at := t.now(c).Add(2 * long).Truncate(time.Second)
	ss[1].Task.Delay, ss[2].Task.RunAt, ss[3].Task.RunAt = long, time.Unix(1, 0), at
	w := t.enqueueSteps(c, ss)
	a := t.take(q, long)
	before := t.now(c)
	t.must(q.Complete(t.ctx, a.Lease, nil))
	past := t.takeN(q, 1, long)
	after := t.now(c)
	if due := t.get(c, w.TaskIDs[1]).Due; due.Before(before.Add(long)) || due.After(after.Add(long)) {
		t.Errorf("it is due at %v, want an hour after %v", due, before)
	}
	if due := t.get(c, w.TaskIDs[3]).Due; !due.Equal(at) {
		t.Errorf("it is due at %v, want %v", due, at)
	}
	t.wantIDs("due", past, w.TaskIDs[2:3])
}

func workflowRemoved(t *test) {
	c, q := t.openQueue()
	ops := admin.New(c)
	w := t.enqueueSteps(c, stepsOf(q, []string{"a"}, []string{"b", "a"}, []string{"c", "b"}))
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, []byte("kept")))
	refused := ops.Operate(t.ctx, admin.Purge, w.TaskIDs[0])
	t.wantErr("purge of what a task needs", refused, dbq.ErrWrongState)
	t.failIf(!strings.Contains(fmt.Sprint(refused), "cancel that step first"),
		"the purge of what a step needs is refused without a reason: %v", refused)
	t.awaitAge(c, w.TaskIDs[0], time.Millisecond)
	old := dbq.Retention{Completed: time.Millisecond, Poison: time.Millisecond, Cancelled: time.Millisecond}
	t.clean(q, old)
	b := t.takeN(q, 1, long)[0]
	for n, err := range workflow.Needs(t.ctx, c, b.ID) {
		if t.must(err); string(n.Result) != "kept" {
			t.Errorf("the result is %q", n.Result)
		}
	}
	t.must(q.Settle(t.ctx, b.Lease, dbq.Deleted()))
	last := t.takeN(q, 1, long)[0]
	t.wantState(c, w.TaskIDs[2], dbq.StateProcessing)
	t.must(q.Settle(t.ctx, last.Lease, dbq.Poisoned(errBoom)))
	t.awaitAge(c, last.ID, time.Millisecond)
	t.clean(q, old)
	t.must(workflow.Resume(t.ctx, c))
	t.wantCount(c, "q", 0)
	t.wantNoWorkflows(c)
}

// workflowKilled kills a process after the end of a step and before the workflow advances. On an engine that locks
// rows, a transaction keeps the workflow from being advanced until then.
func workflowKilled(t *test) {
	c := t.open()
	queues := []string{"unlisted", "listed"}
	ws := make([]workflow.Enqueued, len(queues))
	for i, queue := range queues {
		ws[i] = t.enqueueSteps(c, stepsOf(c.Queue(queue), []string{"a"}, []string{"b", "a"}, []string{"c", "b"}))
	}
	var lock *sql.Tx
	if !c.Info().Server.OneWriter {
		lock = t.lock("step SET needs = needs")
	}
	var ps []*process
	for _, queue := range queues {
		ps = append(ps, t.start(childSpec{Do: "drain", Name: queue, Queue: queue, Batch: []int{1}, Lease: time.Second,
			Pause: 100 * time.Millisecond}))
	}
	for i := range queues {
		t.eventually("the first step has ended", func() bool {
			info, err := workflow.Get(t.ctx, c, ws[i].ID, 0)
			if lock == nil && errors.Is(err, dbq.ErrNotFound) {
				return true // nothing holds the process up: it may have removed all three before it is killed
			}
			t.must(err)
			s := info.Steps[0].State
			return len(info.Steps) < 3 || s == dbq.StateCompleted || s == state.None
		})
		ps[i].kill()
	}
	if lock != nil {
		t.must(lock.Rollback())
		t.wantWaiting("after the kill", c, ws[0].TaskIDs[1], ws[1].TaskIDs[1])
	}
	killed := t.now(c)
	t.eventually("the process is gone for a second", func() bool {
		return t.now(c).After(killed.Add(1100 * time.Millisecond))
	})
	for i, queue := range queues {
		stop := t.runWorker(worker.Worker{Queue: c.Queue(queue),
			Tuning:  worker.Tuning{Unlisted: queue == "unlisted"},
			Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
		t.eventually("the last step is completed by a worker that is "+queue, func() bool {
			last, err := c.Get(t.ctx, ws[i].TaskIDs[2])
			return last.State == dbq.StateCompleted || errors.Is(err, dbq.ErrNotFound) // the process may have removed it
		})
		stop()
	}
}

// crash closes a client as soon as the proxy has cut its connection, or its call has returned.
func crash(p *proxy.Proxy, c *dbq.Client, returned <-chan error) error {
	for {
		select {
		case err := <-returned:
			c.Close()
			return err
		case <-time.After(time.Millisecond):
			if p.Fired() {
				c.Close()
				return <-returned
			}
		}
	}
}

// workflowCut cuts each request of the end of a task in turn, and the client does not come back.
func workflowCut(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	t.eachRequestAndAnswer("the end", proxy.Rule{StayDown: true}, func(r proxy.Rule) (fired bool) {
		c := t.oneConnection(dsn)
		t.cutEnd(c, ownQueue(direct), func(call func() error) error {
			p.Set(r)
			returned := make(chan error)
			go func() { returned <- call() }()
			err := crash(p, c, returned)
			fired = p.Heal()
			return err
		})
		return fired
	})
	t.eventually("no change is left", func() bool {
		t.must(workflow.Resume(t.ctx, direct))
		return t.rows(direct.DB(), t.Prefix+"kv WHERE namespace = 'workflow'") == 0
	})
}

// cutEnd disturbs the end of a task that another one needs.
func (t *test) cutEnd(c *dbq.Client, q *dbq.Queue, disturbed func(func() error) error) {
	direct := q.Client()
	w := t.enqueueSteps(direct, stepsOf(q, []string{"a"}, []string{"b", "a"}))
	a := t.take(q, long)
	err := disturbed(func() error { return c.Queue(q.Name()).Complete(t.ctx, a.Lease, nil) })
	if err != nil {
		err = q.Complete(t.ctx, a.Lease, nil)
		if errors.Is(err, dbq.ErrLeaseLost) && t.get(direct, a.ID).State == dbq.StateCompleted {
			err = nil // the first call has done it
		}
	}
	t.must(err)
	var b []dbq.Task
	t.eventually("what needs the task is due in "+q.Name(), func() bool {
		t.must(workflow.Resume(t.ctx, direct))
		b = t.checkout(q, 10, long)
		return len(b) > 0
	})
	t.wantIDs("in "+q.Name(), b, w.TaskIDs[1:])
	t.must(q.Complete(t.ctx, b[0].Lease, nil))
}

// lockIDs locks rows of a table by the ids of tasks in a column.
func (t *test) lockIDs(c *dbq.Client, table, column string, ids ...uuid.UUID) *sql.Tx {
	form := "x'%x'" // of a binary column
	if strings.Contains(c.Info().Server.Product, "PostgreSQL") {
		form = "CAST('%x' AS uuid)"
	}
	values := make([]string, len(ids))
	for i, id := range ids {
		values[i] = fmt.Sprintf(form, id[:])
	}
	return t.lock(fmt.Sprintf("%s SET queue = queue WHERE %s IN (%s)", table, column, strings.Join(values, ", ")))
}

// pairs enqueues n workflows, in each of which a task of queue "second" needs one of queue "first", and returns those.
func (t *test) pairs(c *dbq.Client, n int) (seconds []uuid.UUID) {
	for range n {
		w := t.enqueueSteps(c, []workflow.Step{{Name: "parent", Queue: "first"},
			{Name: "child", Queue: "second", Needs: []string{"parent"}}})
		seconds = append(seconds, w.TaskIDs[1])
	}
	return seconds
}

func workflowLocked(t *test) {
	c := t.open()
	t.rowLocks(c)
	q := c.Queue("q")
	ss := append(stepsOf(q, []string{"a"}, []string{"x"}, []string{"y", "x"}),
		workflow.Step{Name: "b", Queue: "q", Needs: []string{"a"}, Task: dbq.NewTask{Reference: "locked"}})
	w := t.enqueueSteps(c, ss)
	tasks := t.checkout(q, 10, long)
	tx := t.lockTasks("reference = 'locked'")
	began := time.Now()
	t.settleAll(q, []dbq.Settlement{{Lease: tasks[0].Lease, Outcome: dbq.Completed(nil)}})
	t.settleAll(q, []dbq.Settlement{{Lease: tasks[1].Lease, Outcome: dbq.Completed(nil)}})
	y := t.takeN(q, 1, long)[0]
	if took := time.Since(began); took > 10*time.Second || y.ID != w.TaskIDs[2] {
		t.Errorf("got %s after %v, want y at once", show(y), took)
	}
	t.must(tx.Rollback())
	t.eventually("the task that was locked is due", func() bool {
		t.must(workflow.Resume(t.ctx, c))
		return len(t.checkout(q, 1, long)) == 1
	})
}

func workflowPool(t *test) {
	direct := t.open()
	t.rowLocks(direct)
	const conns = 4
	c := t.openCallersPool(conns)
	seconds := t.pairs(direct, 2*conns)
	other := t.enqueue(direct.Queue("other"), dbq.NewTask{})
	tx := t.lockIDs(direct, "task", "id", seconds...)
	t.endAll(c.Queue("first"), t.takeN(c.Queue("first"), len(seconds), long), dbq.Completed(nil))
	ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
	defer cancel()
	tasks := must(c.Queue("other").Checkout(ctx, 1, long))
	t.wantIDs("beside locked workflows", tasks, []uuid.UUID{other})
	t.must(tx.Rollback())
	t.eventually("the tasks that were locked are due", func() bool {
		t.must(workflow.Resume(t.ctx, direct))
		return !slices.ContainsFunc(seconds, func(id uuid.UUID) bool { return t.get(direct, id).Blocked })
	})
}

func workflowRecovery(t *test) {
	c := t.open()
	t.rowLocks(c)
	seconds := t.pairs(c, 14)
	last := seconds[len(seconds)-1]
	tx := t.lockIDs(c, "task", "id", seconds[:len(seconds)-1]...)
	// Each is completed by a client that ends before it could advance the workflow.
	for _, task := range t.takeN(c.Queue("first"), len(seconds), long) {
		caller := t.beginTx(c)
		ends := t.open()
		t.must(ends.Queue("first").CompleteTx(t.ctx, caller, task.Lease, nil))
		t.must(ends.Close())
		t.must(caller.Commit())
	}
	brief, cancel := context.WithTimeout(t.ctx, 50*time.Millisecond)
	if err := workflow.Resume(brief, c); err == nil {
		t.Errorf("a Resume that was cut reports no error")
	}
	cancel()
	ctx, stop := context.WithCancel(t.ctx)
	resumed := make(chan struct{})
	go func() {
		defer close(resumed)
		for ctx.Err() == nil {
			_ = workflow.Resume(ctx, c) // it reports the locked ones
		}
	}()
	t.eventually("the workflow without locked tasks goes on", func() bool { return !t.get(c, last).Blocked })
	stop()
	<-resumed
	t.must(tx.Rollback())
}

func workflowList(t *test) {
	c := t.open()
	list := func(before uuid.UUID, n int) []uuid.UUID {
		ids, err := workflow.List(t.ctx, c, before, n)
		t.must(err)
		return ids
	}
	var ids []uuid.UUID // the newest first
	for _, steps := range []int{1, 30, 2} {
		var ss []workflow.Step
		for i := range steps {
			ss = append(ss, workflow.Step{Name: fmt.Sprint(i), Queue: "q"})
		}
		ids = append([]uuid.UUID{t.enqueueSteps(c, ss).ID}, ids...)
	}
	t.enqueue(c.Queue("q"), dbq.NewTask{}) // is none
	want := func(what string, got, want []uuid.UUID) {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("all", list(uuid.Max, 0), ids)
	want("the first", list(uuid.Max, 1), ids[:1])
	want("those before it", list(ids[0], 5), ids[1:])
	want("those before the first", list(ids[2], 5), nil)
	tasks, err := workflow.Get(t.ctx, c, ids[2], 0)
	t.must(err)
	t.operate(c, admin.Cancel, tasks.Steps[0].TaskID)
	t.operate(c, admin.Purge, tasks.Steps[0].TaskID)
	want("after a removal", list(uuid.Max, 0), ids[:2])
	for _, n := range []int{-1, dbq.MaxCheckout + 1} {
		_, err := workflow.List(t.ctx, c, uuid.Max, n)
		t.wantErr("a list of "+fmt.Sprint(n), err, dbq.ErrCount)
	}
}

func workflowPurgeReenqueue(t *test) {
	c := t.open()
	a := admin.New(c)
	w := t.enqueueSteps(c, []workflow.Step{{Name: "parent", Queue: "first"},
		{Name: "child", Queue: "second", Needs: []string{"parent"}}})
	parent, child := w.TaskIDs[0], w.TaskIDs[1]
	t.must(a.Operate(t.ctx, admin.Cancel, parent))
	t.eventually("the task that needs it is cancelled", func() bool { return t.get(c, child).State == dbq.StatePoison })
	tx := t.lockIDs(c, "task", "id", parent) // it holds the purge up
	purged := make(chan error, 1)
	go func() { purged <- a.Operate(t.ctx, admin.Purge, parent) }()
	time.Sleep(300 * time.Millisecond)
	t.operate(t.open(), admin.Reenqueue, child)
	t.must(tx.Rollback())
	err := <-purged
	if errors.Is(err, dbq.ErrWrongState) { // on a busy machine it began after the reenqueue
		t.wantWaiting("what it needs has failed and is still there", c, child)
		return
	}
	t.must(err)
	due := t.takeN(c.Queue("second"), 1, long)
	t.wantIDs("after the purge", due, []uuid.UUID{child})
}

func workflowPurgeEnd(t *test) {
	c := t.open()
	a := admin.New(c)
	w := t.enqueueSteps(c, []workflow.Step{{Name: "failed", Queue: "first"}, {Name: "done", Queue: "second"},
		{Name: "open", Queue: "third"},
		{Name: "child", Queue: "last", Needs: []string{"failed", "done", "open"}}})
	failed, done, child := w.TaskIDs[0], w.TaskIDs[1], w.TaskIDs[3]
	t.must(a.Operate(t.ctx, admin.Cancel, failed))
	t.eventually("the task that needs it is cancelled", func() bool { return t.get(c, child).State == dbq.StatePoison })
	tx := t.lockIDs(c, "step", "task", child) // it delays the changes after the end
	t.must(c.Queue("second").Complete(t.ctx, t.take(c.Queue("second"), long).Lease, nil))
	purged := make(chan error, 1)
	go func() { purged <- a.Operate(t.ctx, admin.Purge, done) }()
	time.Sleep(300 * time.Millisecond)
	t.must(tx.Rollback())
	t.must(<-purged)
	t.must(a.Operate(t.ctx, admin.Reenqueue, child))
	t.must(a.Operate(t.ctx, admin.Reenqueue, failed))
	t.must(c.Queue("first").Complete(t.ctx, t.take(c.Queue("first"), long).Lease, nil))
	t.must(workflow.Resume(t.ctx, c))
	t.wantWaiting("one of three is open", c, child)
	t.must(c.Queue("third").Complete(t.ctx, t.take(c.Queue("third"), long).Lease, nil))
	t.wantIDs("when all have ended", t.takeN(c.Queue("last"), 1, long), []uuid.UUID{child})
}
