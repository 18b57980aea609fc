package cases

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

func workflowResults(t *test) {
	c := t.open()
	q, other := c.Queue("q"), c.Queue("other")
	w := t.enqueueSteps(c, []workflow.Step{
		{Name: "reads", Queue: "q", Needs: []string{"a", "b", "fails"}, OnFailure: workflow.IgnoreFailure},
		{Name: "a", Queue: "q"}, {Name: "b", Queue: "other"}, {Name: "fails", Queue: "other", Task: dbq.NewTask{Priority: 1}},
	})
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, []byte("result of a")))
	tasks := t.checkout(other, 10, long)
	t.wantIDs("in the other queue", tasks, w.Tasks[2:])
	t.must(other.Complete(t.ctx, tasks[0].Lease, []byte{}))
	t.must(other.Settle(t.ctx, tasks[1].Lease, dbq.Poisoned(errors.New("no"))))
	reads := t.takeDue("what needs the others", q, 1)[0]
	got := map[string]string{}
	for n, err := range workflow.Needs(t.ctx, c, reads.ID) {
		t.must(err)
		got[n.Name] = fmt.Sprintf("%v %s %s", n.State, n.Queue, n.Result)
	}
	want := map[string]string{"a": "COMPLETED q result of a", "b": "COMPLETED other ", "fails": "POISON other no"}
	if !maps.Equal(got, want) || reads.ID != w.Tasks[0] {
		t.Errorf("got the results %v, want %v", got, want)
	}
	id, name, err := workflow.Of(t.ctx, c, reads.ID)
	if t.must(err); id != w.ID || name != "reads" {
		t.Errorf("the task is %q of workflow %s, want %q of %s", name, id, "reads", w.ID)
	}
	_, _, err = workflow.Of(t.ctx, c, t.enqueue(q, dbq.NewTask{}))
	t.wantErr("Of a plain task", err, dbq.ErrNotFound)
	_, err = workflow.Get(t.ctx, c, dbq.NewID(), 0)
	t.wantErr("Get of none", err, dbq.ErrNotFound)
}

func workflowLongResults(t *test) {
	c := t.open()
	long := strings.Repeat("x", dbq.MaxResult)
	plain, inTx := dbq.Kind[string]{Name: "plain", Queue: "q"}, dbq.Kind[string]{Name: "tx", Queue: "q"}
	unencodable, reads := dbq.Kind[string]{Name: "NaN", Queue: "q"}, dbq.Kind[string]{Name: "reads", Queue: "q"}
	mux := worker.NewMux()
	worker.HandleResult(mux, plain, func(context.Context, dbq.Task, string) (string, error) { return long, nil })
	worker.HandleTx(mux, inTx, func(context.Context, *sql.Tx, dbq.Task, string) error {
		return dbq.Completed([]byte(`"` + long + `"`)).Err()
	})
	worker.HandleResult(mux, unencodable, func(context.Context, dbq.Task, string) (float64, error) {
		return math.NaN(), nil
	})
	steps := []string{"plain", "tx", "NaN"}
	worker.Handle(mux, reads, func(ctx context.Context, task dbq.Task, _ string) error {
		for _, step := range steps {
			_, err := workflow.Result[any](ctx, c, task.ID, step)
			t.wantErr("the result of the step "+step, err, workflow.ErrNoResult)
		}
		return nil
	})
	w := t.enqueueSteps(c, []workflow.Step{
		workflow.NewStep("plain", plain, ""), workflow.NewStep("tx", inTx, ""), workflow.NewStep("NaN", unencodable, ""),
		workflow.NewStep("reads", reads, "", steps...),
	})
	var log bytes.Buffer
	stop := t.runWorker(worker.Worker{Queue: c.Queue("q"), Handler: mux,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.eventually("the last step is completed", func() bool {
		return t.get(c, w.Tasks[len(steps)]).State == dbq.StateCompleted
	})
	stop()
	for i, mark := range []string{"[cut from 4002 bytes]", "[cut from 4002 bytes]", "NaN]", ""} {
		task := t.get(c, w.Tasks[i])
		if task.State != dbq.StateCompleted || !strings.HasSuffix(string(task.Result), mark) {
			t.Errorf("task %d is %v with %d bytes of result: %s", i, task.State, len(task.Result), task.Result)
		}
	}
	if n := strings.Count(log.String(), "without its whole result"); n != len(steps) {
		t.Errorf("%d lines about results, want %d:\n%s", n, len(steps), &log)
	}
}

func workflowRetry(t *test) {
	c := t.open()
	q := c.Queue("q")
	ss := stepsOf(q, []string{"a"}, []string{"b", "a"}, []string{"c", "b"}, []string{"d", "c"})
	ss[2].OnFailure = workflow.WaitStep
	w := t.enqueueSteps(c, ss)
	plain := t.enqueue(q, dbq.NewTask{Delay: long})
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, nil))
	t.takeDue("what needs it", q, 1)
	n, err := workflow.Cancel(t.ctx, c, w.ID, admin.By("ann"), admin.Reason("no stock"))
	if t.must(err); n != 3 {
		t.Errorf("cancelled %d tasks, want 3", n)
	}
	t.wantNone("after the cancellation", q)
	t.wantState(c, plain, dbq.StateCreated)
	tasks := t.list(c, admin.Filter{Workflow: w.ID, CancelledOnly: true})
	t.wantIDs("cancelled", tasks, w.Tasks[1:])
	for _, task := range tasks {
		if string(task.Result) != "cancelled by ann: no stock" {
			t.Errorf("the reason is %q", task.Result)
		}
	}
	n, err = workflow.Retry(t.ctx, c, w.ID)
	if t.must(err); n != 3 {
		t.Errorf("retried %d tasks, want 3", n)
	}
	t.wantWaiting("after the retry", c, w.Tasks[2])
	for _, id := range w.Tasks[1:] {
		next := t.takeDue("the next task", q, 1)
		t.wantIDs("after the retry", next, []uuid.UUID{id})
		t.must(q.Complete(t.ctx, next[0].Lease, nil))
	}
}

func workflowReenqueued(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	w := t.enqueueSteps(c, stepsOf(q, []string{"a"}, []string{"b", "a"}))
	a := t.take(q, long)
	t.wantErr("a task that waits cannot be reenqueued",
		ops.Operate(t.ctx, admin.Reenqueue, w.Tasks[1]), dbq.ErrWrongState)
	for _, event := range []state.Event{admin.Reject, admin.Cancel} {
		t.must(ops.Operate(t.ctx, event, w.Tasks[1]))
		t.must(ops.Operate(t.ctx, admin.Reenqueue, w.Tasks[1]))
		t.wantWaiting("after "+string(event)+" and reenqueue", c, w.Tasks[1])
		t.wantNone("what needs a leased task is not due", q)
	}
	// The end of what it needs meets a transaction that reenqueues it: whoever commits last makes it due.
	t.must(ops.Operate(t.ctx, admin.Reject, w.Tasks[1]))
	if c.Info().Server.OneWriter {
		t.must(q.Complete(t.ctx, a.Lease, nil))
		t.must(ops.Operate(t.ctx, admin.Reenqueue, w.Tasks[1]))
	} else {
		tx := t.beginTx(c)
		t.must(ops.OperateTx(t.ctx, tx, admin.Reenqueue, w.Tasks[1]))
		t.must(q.Complete(t.ctx, a.Lease, nil))
		t.must(tx.Commit())
		t.must(workflow.Resume(t.ctx, c))
	}
	t.wantIDs("after all", t.takeDue("what was reenqueued", q, 1), w.Tasks[1:])
}

func workflowInvalid(t *test) {
	c := t.open()
	q := c.Queue("q")
	taken := t.enqueue(q, dbq.NewTask{Reference: "taken"})
	task := func(nt dbq.NewTask) []workflow.Step {
		return append(stepsOf(q, []string{"a"}), workflow.Step{Name: "b", Queue: "q", Needs: []string{"a"}, Task: nt})
	}
	for what, ss := range map[string][]workflow.Step{
		`"a" needs "c" needs "b" needs "a"`: stepsOf(q, []string{"a", "c"}, []string{"b", "a"}, []string{"c", "b"}),
		"needs itself":                      stepsOf(q, []string{"a", "a"}),
		"but no step has that name":         stepsOf(q, []string{"a", "b"}),
		`needs "a" twice`:                   stepsOf(q, []string{"a"}, []string{"b", "a", "a"}),
		"have the name":                     stepsOf(q, []string{"a"}, []string{"a"}),
		"the number of steps is 0":          nil,
		"name of a step is empty":           stepsOf(q, []string{""}),
		"queue name":                        {{Name: "a"}},
		"OnFailure is":                      {{Name: "a", Queue: "q", OnFailure: "no"}},
		"has an ID or Unique":               task(dbq.NewTask{Unique: pending("k")}),
		"has an ID":                         task(dbq.NewTask{ID: dbq.NewID()}),
		"Priority":                          task(dbq.NewTask{Priority: 10}),
		"no task of it was added":           task(dbq.NewTask{Reference: "taken"}),
	} {
		_, err := workflow.Enqueue(t.ctx, c, ss)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got the error %v, want one with %q", err, what)
		}
		var e *dbq.Error
		duplicate := errors.Is(err, dbq.ErrDuplicate)
		if !errors.Is(err, dbq.ErrInvalid) && !duplicate || !errors.As(err, &e) || duplicate != (e.Task == taken) {
			t.Errorf("the error of %q is %v", what, err)
		}
	}
	if n := t.count(c, "q"); n != 1 {
		t.Errorf("there are %d tasks, want 1", n)
	}
	t.wantNoWorkflows(c)
}

// wantNoWorkflows records a failure if there are rows of workflows.
func (t *test) wantNoWorkflows(c *dbq.Client) {
	for _, from := range []string{"step", "need", "kv WHERE namespace = 'workflow'"} {
		query := "SELECT COUNT(*) FROM " + t.Prefix + from
		var n int
		t.must(c.DB().QueryRowContext(t.ctx, query).Scan(&n))
		if n != 0 {
			t.Errorf("%s returns %d, want 0", query, n)
		}
	}
}

func workflowRolledBack(t *test) {
	c := t.open()
	q := c.Queue("q")
	ss := stepsOf(q, []string{"a"}, []string{"b", "a"})
	tx := t.beginTx(c)
	_, err := workflow.EnqueueTx(t.ctx, tx, c, ss)
	t.must(err)
	t.must(tx.Rollback())
	if n := t.count(c, "q"); n != 0 {
		t.Errorf("%d tasks are left of a transaction that was rolled back", n)
	}
	t.wantNoWorkflows(c)
	tx = t.beginTx(c)
	w, err := workflow.EnqueueTx(t.ctx, tx, c, ss)
	t.must(err)
	t.must(tx.Commit())
	a := t.take(q, long)
	for _, commit := range []bool{false, true} {
		tx = t.beginTx(c)
		t.must(q.CompleteTx(t.ctx, tx, a.Lease, nil))
		if !commit {
			t.must(tx.Rollback())
			t.wantWaiting("after the rollback", c, w.Tasks[1])
			continue
		}
		t.must(tx.Commit())
	}
	t.eventually("the task is due after the commit", func() bool { return len(t.checkout(q, 1, long)) == 1 })
}

func workflowTimes(t *test) {
	c := t.open()
	q := c.Queue("q")
	ss := stepsOf(q, []string{"a"}, []string{"delayed", "a"}, []string{"past", "a"}, []string{"later", "a"})
	at := t.now(c).Add(2 * long).Truncate(time.Second)
	ss[1].Task.Delay, ss[2].Task.RunAt, ss[3].Task.RunAt = long, time.Unix(1, 0), at
	w := t.enqueueSteps(c, ss)
	a := t.take(q, long)
	before := t.now(c)
	t.must(q.Complete(t.ctx, a.Lease, nil))
	past := t.takeDue("the task whose time has passed", q, 1)
	after := t.now(c)
	if due := t.get(c, w.Tasks[1]).Due; due.Before(before.Add(long)) || due.After(after.Add(long)) {
		t.Errorf("it is due at %v, want an hour after %v", due, before)
	}
	if due := t.get(c, w.Tasks[3]).Due; !due.Equal(at) {
		t.Errorf("it is due at %v, want %v", due, at)
	}
	t.wantIDs("due", past, w.Tasks[2:3])
}

func workflowRemoved(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	w := t.enqueueSteps(c, stepsOf(q, []string{"a"}, []string{"b", "a"}, []string{"c", "b"}))
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, []byte("kept")))
	refused := ops.Operate(t.ctx, admin.Purge, w.Tasks[0])
	t.wantErr("purge of what a task needs", refused, dbq.ErrWrongState)
	if !strings.Contains(fmt.Sprint(refused), "cancel that step first") {
		t.Errorf("the purge of what a step needs is refused without a reason: %v", refused)
	}
	t.awaitAge(c, w.Tasks[0], time.Millisecond)
	clean := func() {
		_, err := ops.Clean(t.ctx, "q", dbq.Retention{Completed: time.Millisecond, Poison: time.Millisecond})
		t.must(err)
	}
	clean()
	b := t.takeDue("b", q, 1)[0]
	for n, err := range workflow.Needs(t.ctx, c, b.ID) {
		if t.must(err); string(n.Result) != "kept" {
			t.Errorf("the result is %q", n.Result)
		}
	}
	t.must(q.Settle(t.ctx, b.Lease, dbq.Deleted()))
	last := t.takeDue("c", q, 1)[0]
	t.wantState(c, w.Tasks[2], dbq.StateProcessing)
	t.must(q.Settle(t.ctx, last.Lease, dbq.Poisoned(errors.New("no"))))
	t.awaitAge(c, last.ID, time.Millisecond)
	clean()
	t.must(workflow.Resume(t.ctx, c))
	if n := t.count(c, "q"); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	t.wantNoWorkflows(c)
}
