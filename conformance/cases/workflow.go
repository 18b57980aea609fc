package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
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
		Case{Name: "LongResultCompletes", Once: true, run: workflowLongResults,
			Law: "A result that is too long, or cannot be encoded, completes its task, also in the handler's transaction: it " +
				"is stored marked, and logged, and a step that needs it finds none."},
		Case{Name: "CancelAndRetry", Once: true, run: workflowRetry,
			Law: "A whole workflow can be cancelled and retried, and then runs in order."},
		Case{Name: "RetryWaitsAgain", Once: true, run: workflowReenqueued,
			Law: "A task that an operator reenqueues waits for what it still needs."},
		Case{Name: "InvalidAddsNothing", Once: true, run: workflowInvalid,
			Law: "A cycle, an unknown need, a name that comes twice or a reference that is taken is refused, and no task is " +
				"added."},
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
			Law: "If the connection is lost at any statement of an end or an enqueue, no task of a workflow is lost, doubled " +
				"or left waiting, and the enqueue adds all tasks or none."},
	)
}

// stepsOf returns steps in a queue from their names, each with what it needs.
func stepsOf(q *dbq.Queue, names ...[]string) (out []workflow.Step) {
	for _, n := range names {
		out = append(out, workflow.Step{Name: n[0], Queue: q.Name(), Needs: n[1:]})
	}
	return out
}

// enqueueSteps enqueues a workflow.
func (t *test) enqueueSteps(c *dbq.Client, steps []workflow.Step) workflow.Enqueued {
	w, err := workflow.Enqueue(t.ctx, c, steps)
	t.must(err)
	return w
}

func (t *test) settleAll(q *dbq.Queue, ss []dbq.Settlement) {
	out, err := q.SettleMany(t.ctx, ss)
	t.must(err)
	for _, o := range out {
		t.must(o.Err)
	}
}

// takeDue takes n tasks, as soon as they are due: a call waits only briefly for the workflow of the task that it ends.
func (t *test) takeDue(what string, q *dbq.Queue, n int) (tasks []dbq.Task) {
	t.eventually(what, func() bool {
		tasks = append(tasks, t.checkout(q, n-len(tasks), long)...)
		return len(tasks) == n
	})
	return tasks
}

// wantWaiting records a failure unless tasks wait for others.
func (t *test) wantWaiting(what string, c *dbq.Client, ids ...uuid.UUID) {
	for _, id := range ids {
		if task := t.get(c, id); task.State != dbq.StateCreated || !task.Waiting || !task.Due.IsZero() {
			t.Errorf("%s: got %s, waiting %v, want a task that waits", what, show(task), task.Waiting)
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
		byID[w.Tasks[i]], ids[s.Name] = s, w.Tasks[i]
	}
	var mu sync.Mutex
	done, taken := map[uuid.UUID]bool{}, map[uuid.UUID]int{}
	t.concurrently(4, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("q")
		for end := time.Now().Add(t.Patience); ctx.Err() == nil && time.Now().Before(end); {
			tasks, err := q.Checkout(ctx, 3, long)
			t.must(err)
			for _, task := range tasks {
				mu.Lock()
				taken[task.ID]++
				for _, need := range byID[task.ID].Needs {
					if !done[ids[need]] {
						t.Errorf("step %s was handed out before %s was completed", byID[task.ID].Name, need)
					}
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
		if taken[id] != 1 {
			t.Errorf("step %s was handed out %d times, want once", s.Name, taken[id])
		}
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
		last := t.takeDue("the step that needs both", q, 1)
		t.wantIDs("after both", last, w.Tasks[2:])
		t.must(q.Complete(t.ctx, last[0].Lease, nil))
	}
}

func workflowFanOut(t *test) {
	const n = 1000
	c := t.open()
	q := c.Queue("q")
	ss := stepsOf(q, []string{"split"})
	for i := range n {
		ss = append(ss, workflow.Step{Name: fmt.Sprint(i), Queue: q.Name(), Needs: []string{"split"}})
	}
	ss = append(ss, workflow.Step{Name: "gather", Queue: q.Name(), Needs: workflow.Names(ss[1:])})
	w := t.enqueueSteps(c, ss)
	first := t.take(q, long)
	t.must(q.Complete(t.ctx, first.Lease, nil))
	parts := t.takeDue("all parts are due", q, n)
	for part := range slices.Chunk(parts, 200) {
		t.wantWaiting("before the last part", c, w.Tasks[n+1])
		var done []dbq.Settlement
		for _, task := range part {
			done = append(done, dbq.Settlement{Lease: task.Lease, Outcome: dbq.Completed(nil)})
		}
		t.settleAll(q, done)
	}
	last := t.takeDue("the last task is due", q, 1)
	t.wantIDs("at the end", last, w.Tasks[n+1:])
	t.must(q.Complete(t.ctx, last[0].Lease, nil))
	info, err := workflow.Get(t.ctx, c, w.ID, workflow.MaxSteps)
	t.must(err)
	if first.ID != w.Tasks[0] || len(info.Steps) != n+2 || len(info.Needs) != 2*n || info.Cut {
		t.Errorf("got %s first, %d steps and %d needs", show(first), len(info.Steps), len(info.Needs))
	}
	t.wantNone("at the end", q)
}

// failures are the ways in which a task goes to POISON.
func (t *test) failures(q *dbq.Queue) map[string]func(task dbq.Task) {
	ops := admin.New(q.Client())
	return map[string]func(task dbq.Task){
		"an outcome": func(task dbq.Task) {
			t.must(q.Settle(t.ctx, task.Lease, dbq.Poisoned(errors.New("no"))))
		},
		"its last attempt": func(task dbq.Task) {
			t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errors.New("no"))))
		},
		"an operator": func(task dbq.Task) { t.must(ops.Operate(t.ctx, admin.Cancel, task.ID)) },
		"a transaction": func(task dbq.Task) {
			tx := t.beginTx(q.Client())
			t.must(q.SettleTx(t.ctx, tx, task.Lease, dbq.Poisoned(errors.New("no"))))
			t.must(tx.Commit())
		},
		"a lost lease": func(task dbq.Task) {
			t.expireNow(q, task.Lease)
			t.eventually("a checkout moves the task to POISON", func() bool {
				t.wantIDs("only the lost lease is found", t.checkout(q, 1, long), nil)
				return t.get(q.Client(), task.ID).State == dbq.StatePoison
			})
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
		next := t.takeDue("what ignores the failure is due after "+how, q, 1)
		t.wantIDs("after "+how, next, w.Tasks[3:4])
		t.must(q.Complete(t.ctx, next[0].Lease, nil))
		t.wantWaiting("after "+how, c, w.Tasks[2])
		for _, id := range []uuid.UUID{w.Tasks[1], w.Tasks[4]} {
			t.eventually("what needs the task is cancelled after "+how, func() bool {
				task := t.get(c, id)
				return task.State == dbq.StatePoison && task.Cancelled
			})
		}
		reason := fmt.Sprintf(`cancelled by dbq: it needs "parent" (%s), which is in POISON`, w.Tasks[0])
		if got := string(t.get(c, w.Tasks[1]).Result); got != reason {
			t.Errorf("after %s the reason is %q, want %q", how, got, reason)
		}
		// An operator retries the parent: what waits goes on, and what was cancelled stays so.
		t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, w.Tasks[0]))
		for i := range []int{0, 2} {
			again := t.takeDue("the parent, and what waits for it", q, 1)
			t.wantIDs("after the retry", again, w.Tasks[2*i:2*i+1])
			t.must(q.Complete(t.ctx, again[0].Lease, nil))
		}
		t.wantState(c, w.Tasks[1], dbq.StatePoison)
	}
}
