package cases

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// workflowLockedCases are the promises about workflows whose rows other transactions have locked.
func workflowLockedCases() []Case {
	return inGroup("Workflow",
		Case{Name: "LockDelaysOneWorkflow", Once: true, run: workflowLocked,
			Law: "A locked task of a workflow delays neither the settlement of what it needs nor other tasks."},
		Case{Name: "LocksLeaveConnections", Once: true, run: workflowPool,
			Law: "However many workflows have locked tasks, a client has connections left for other queues."},
		Case{Name: "LocksDelayNoRecovery", Once: true, run: workflowRecovery,
			Law: "A workflow whose client has crashed goes on, though others that were left before have locked tasks."},
		Case{Name: "PurgeBesideAReenqueue", Once: true, run: workflowPurgeReenqueue,
			Law: "If a failed task is purged while an operator reenqueues one that needed it, this one becomes due."},
		Case{Name: "PurgeBesideAnEnd", Once: true, run: workflowPurgeEnd,
			Law: "If a completed task is purged while what follows from its end is carried out, the tasks that need it count " +
				"it once."},
	)
}

// lockRow locks rows of tasks in a table until the transaction ends. It skips the case if the database has one writer.
func (t *test) lockRow(c *dbq.Client, table, column string, ids ...uuid.UUID) *sql.Tx {
	t.rowLocks(c)
	form := "x'%x'" // of a binary column
	if strings.Contains(c.Info().Server.Product, "PostgreSQL") {
		form = "CAST('%x' AS uuid)"
	}
	values := make([]string, len(ids))
	for i, id := range ids {
		values[i] = fmt.Sprintf(form, id[:])
	}
	tx := t.beginTx(t.open())
	_, err := tx.ExecContext(t.ctx, fmt.Sprintf("UPDATE %s%s SET queue = queue WHERE %s IN (%s)", t.Prefix, table, column,
		strings.Join(values, ", ")))
	t.must(err)
	return tx
}

// pairs enqueues n workflows, in each of which a task of queue "second" needs one of queue "first", and returns those.
func (t *test) pairs(c *dbq.Client, n int) (seconds []uuid.UUID) {
	for range n {
		w := t.enqueueSteps(c, []workflow.Step{{Name: "parent", Queue: "first"},
			{Name: "child", Queue: "second", Needs: []string{"parent"}}})
		seconds = append(seconds, w.Tasks[1])
	}
	return seconds
}

func workflowLocked(t *test) {
	c := t.open()
	if c.Info().Server.OneWriter {
		t.Skipf("no transaction locks rows")
	}
	q := c.Queue("q")
	ss := append(stepsOf(q, []string{"a"}, []string{"x"}, []string{"y", "x"}),
		workflow.Step{Name: "b", Queue: "q", Needs: []string{"a"}, Task: dbq.NewTask{Reference: "locked"}})
	w := t.enqueueSteps(c, ss)
	tasks := t.checkout(q, 10, long)
	tx := t.lockRows("locked")
	began := time.Now()
	t.settleAll(q, []dbq.Settlement{{Lease: tasks[0].Lease, Outcome: dbq.Completed(nil)}})
	t.settleAll(q, []dbq.Settlement{{Lease: tasks[1].Lease, Outcome: dbq.Completed(nil)}})
	y := t.takeDue("y", q, 1)[0]
	if took := time.Since(began); took > 10*time.Second || y.ID != w.Tasks[2] {
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
	tx := t.lockRow(direct, "task", "id", seconds...)
	for _, task := range t.takeDue("the first tasks", c.Queue("first"), len(seconds)) {
		t.must(c.Queue("first").Complete(t.ctx, task.Lease, nil))
	}
	ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
	defer cancel()
	tasks, err := c.Queue("other").Checkout(ctx, 1, long)
	t.must(err)
	t.wantIDs("beside locked workflows", tasks, []uuid.UUID{other})
	t.must(tx.Rollback())
	t.eventually("the tasks that were locked are due", func() bool {
		t.must(workflow.Resume(t.ctx, direct))
		return !slices.ContainsFunc(seconds, func(id uuid.UUID) bool { return t.get(direct, id).Waiting })
	})
}

func workflowRecovery(t *test) {
	c := t.open()
	t.rowLocks(c)
	seconds := t.pairs(c, 14)
	last := seconds[len(seconds)-1]
	tx := t.lockRow(c, "task", "id", seconds[:len(seconds)-1]...)
	// Each is completed by a client that ends before it could carry out what follows.
	for _, task := range t.takeDue("the first tasks", c.Queue("first"), len(seconds)) {
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
	t.eventually("the workflow without locked tasks goes on", func() bool { return !t.get(c, last).Waiting })
	stop()
	<-resumed
	t.must(tx.Rollback())
}

func workflowPurgeReenqueue(t *test) {
	c := t.open()
	a := admin.New(c)
	w := t.enqueueSteps(c, []workflow.Step{{Name: "parent", Queue: "first"},
		{Name: "child", Queue: "second", Needs: []string{"parent"}}})
	parent, child := w.Tasks[0], w.Tasks[1]
	t.must(a.Operate(t.ctx, admin.Cancel, parent))
	t.eventually("the task that needs it is cancelled", func() bool { return t.get(c, child).State == dbq.StatePoison })
	tx := t.lockRow(c, "task", "id", parent) // it holds the purge up
	purged := make(chan error, 1)
	go func() { purged <- a.Operate(t.ctx, admin.Purge, parent) }()
	time.Sleep(300 * time.Millisecond)
	t.must(admin.New(t.open()).Operate(t.ctx, admin.Reenqueue, child))
	t.must(tx.Rollback())
	t.must(<-purged)
	due := t.takeDue("the task that needed what is purged", c.Queue("second"), 1)
	t.wantIDs("after the purge", due, []uuid.UUID{child})
}

func workflowPurgeEnd(t *test) {
	c := t.open()
	a := admin.New(c)
	w := t.enqueueSteps(c, []workflow.Step{{Name: "failed", Queue: "first"}, {Name: "done", Queue: "second"},
		{Name: "open", Queue: "third"},
		{Name: "child", Queue: "last", Needs: []string{"failed", "done", "open"}}})
	failed, done, child := w.Tasks[0], w.Tasks[1], w.Tasks[3]
	t.must(a.Operate(t.ctx, admin.Cancel, failed))
	t.eventually("the task that needs it is cancelled", func() bool { return t.get(c, child).State == dbq.StatePoison })
	tx := t.lockRow(c, "step", "task", child) // it holds up what follows from the end
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
	t.wantIDs("when all have ended", t.takeDue("the task that needs all", c.Queue("last"), 1), []uuid.UUID{child})
}
