package workflow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/mysql"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

type advDB struct {
	*dbq.Client
	t      *testing.T
	prefix string
	mysql  bool
}

// advOpen opens the server of DBQ_ADV_DSN, or skips.
func advOpen(t *testing.T, params string) advDB {
	t.Helper()
	dsn := os.Getenv("DBQ_ADV_DSN")
	if dsn == "" {
		t.Skip("DBQ_ADV_DSN is not set")
	}
	if params != "" {
		if strings.Contains(dsn, "?") {
			dsn += "&" + params
		} else {
			dsn += "?" + params
		}
	}
	prefix := fmt.Sprintf("adv%d_", rand.IntN(1e9))
	c, err := dbq.Open(t.Context(), dsn, dbq.WithMigrate(), dbq.WithPrefix(prefix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return advDB{c, t, prefix, strings.HasPrefix(dsn, "m")}
}

func (d advDB) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// id writes an id into a text: a value for the engine.
func (d advDB) id(id uuid.UUID) string {
	if d.mysql {
		return "UNHEX('" + strings.ReplaceAll(id.String(), "-", "") + "')"
	}
	return "'" + id.String() + "'"
}

// lock locks rows in a transaction of its own.
func (d advDB) lock(table, where string) (unlock func()) {
	d.t.Helper()
	tx, err := d.DB().BeginTx(context.WithoutCancel(d.t.Context()), nil)
	d.must(err)
	rows, err := tx.Query("SELECT 1 FROM " + d.prefix + table + " WHERE " + where + " FOR UPDATE")
	d.must(err)
	for rows.Next() {
	}
	d.must(rows.Close())
	return func() { _ = tx.Rollback() }
}

// needs reads how many tasks a step waits for.
func (d advDB) needs(id uuid.UUID) (n int) {
	d.t.Helper()
	d.must(d.DB().QueryRow("SELECT needs FROM " + d.prefix + "step WHERE task = " + d.id(id)).Scan(&n))
	return n
}

func (d advDB) complete(queue string) {
	d.t.Helper()
	q := d.Queue(queue)
	tasks, err := q.Checkout(d.t.Context(), 1, time.Minute)
	d.must(err)
	if len(tasks) != 1 {
		d.t.Fatalf("nothing is due in %s", queue)
	}
	d.must(q.Complete(d.t.Context(), tasks[0].Lease, nil))
}

// TestAdvPurgeWhileReenqueued: a step is cancelled because the task that it needs went to POISON. An operator (or the
// retention of POISON) purges that task, and at the same time another one reenqueues the step.
func TestAdvPurgeWhileReenqueued(t *testing.T) {
	d := advOpen(t, "")
	ctx, a := t.Context(), admin.New(d.Client)
	w, err := workflow.Enqueue(ctx, d.Client, []workflow.Step{
		{Name: "parent", Queue: "p"}, {Name: "child", Queue: "c", Needs: []string{"parent"}}})
	d.must(err)
	parent, child := w.Tasks[0], w.Tasks[1]
	d.must(a.Operate(ctx, admin.Cancel, parent))
	d.eventually("the child is cancelled", func() bool { return d.get(child).State == dbq.StatePoison })

	unlock := d.lock("task", "id = "+d.id(parent)) // it holds the purge up for a moment
	purged := make(chan error, 1)
	go func() { purged <- a.Operate(ctx, admin.Purge, parent) }()
	time.Sleep(300 * time.Millisecond)
	d.must(a.Operate(ctx, admin.Reenqueue, child))
	unlock()
	d.must(<-purged)

	w2 := worker.Worker{Queue: d.Queue("c"), PollMax: 200 * time.Millisecond,
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
	run, stop := context.WithTimeout(ctx, 8*time.Second)
	defer stop()
	go func() { _ = w2.Run(run) }()
	for run.Err() == nil && d.get(child).State != dbq.StateCompleted {
		time.Sleep(100 * time.Millisecond)
		d.must(workflow.Resume(ctx, d.Client))
	}
	if is := d.get(child); is.State != dbq.StateCompleted {
		t.Errorf("the step waits for %d tasks, and is never due: it is %v, due %v, waiting %v", d.needs(child), is.State,
			is.Due, is.Waiting)
	}
}

func (d advDB) get(id uuid.UUID) dbq.Task {
	d.t.Helper()
	task, err := d.Get(d.t.Context(), id)
	d.must(err)
	return task
}

func (d advDB) eventually(what string, is func() bool) {
	d.t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("not after ten seconds: %s", what)
		}
	}
}

// TestAdvPurgeWhileAdvanced: a step needs three tasks. One fails, which cancels the step. A second one is completed, and
// purged before the workflow has been advanced.
func TestAdvPurgeWhileAdvanced(t *testing.T) {
	d := advOpen(t, "")
	ctx, a := t.Context(), admin.New(d.Client)
	w, err := workflow.Enqueue(ctx, d.Client, []workflow.Step{
		{Name: "failed", Queue: "f"}, {Name: "done", Queue: "p"}, {Name: "open", Queue: "o"},
		{Name: "child", Queue: "c", Needs: []string{"failed", "done", "open"}}})
	d.must(err)
	failed, done, child := w.Tasks[0], w.Tasks[1], w.Tasks[3]
	d.must(a.Operate(ctx, admin.Cancel, failed))
	d.eventually("the child is cancelled", func() bool { return d.get(child).State == dbq.StatePoison })

	unlock := d.lock("step", "task = "+d.id(child)) // it holds the advance up for a moment
	d.complete("p")
	purged := make(chan error, 1)
	go func() { purged <- a.Operate(ctx, admin.Purge, done) }()
	time.Sleep(300 * time.Millisecond)
	unlock()
	d.must(<-purged)
	time.Sleep(300 * time.Millisecond)
	if n := d.needs(child); n != 2 {
		t.Errorf("one of the three tasks that the step needs is done: it waits for %d, want 2", n)
	}
	d.must(a.Operate(ctx, admin.Reenqueue, child))
	d.must(a.Operate(ctx, admin.Reenqueue, failed))
	d.complete("f")
	_ = workflow.Resume(ctx, d.Client)
	tasks, err := d.Queue("c").Checkout(ctx, 1, time.Minute)
	d.must(err)
	if len(tasks) > 0 {
		t.Errorf("the step starts although it needs %q, which is %v", "open", d.get(w.Tasks[2]).State)
	}
}

// TestAdvLockedStepsAndThePool: a forgotten session has locked the waiting steps of some workflows. The tasks before
// them end. That must not keep this client from working on other queues.
func TestAdvLockedStepsAndThePool(t *testing.T) {
	const conns = 4
	d := advOpen(t, fmt.Sprint("pool_max_conns=", conns))
	ctx := t.Context()
	var steps []uuid.UUID
	for range conns {
		w, err := workflow.Enqueue(ctx, d.Client, []workflow.Step{
			{Name: "parent", Queue: "p"}, {Name: "child", Queue: "c", Needs: []string{"parent"}}})
		d.must(err)
		steps = append(steps, w.Tasks[1])
	}
	_, err := d.Queue("other").Enqueue(ctx, dbq.NewTask{})
	d.must(err)
	var ids []string
	for _, id := range steps {
		ids = append(ids, d.id(id))
	}
	defer d.lock("task", "id IN ("+strings.Join(ids, ", ")+")")()
	for range conns {
		d.complete("p")
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	start := time.Now()
	tasks, err := d.Queue("other").Checkout(within, 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Errorf("a checkout of another queue returned %d tasks and %v after %v", len(tasks), err, time.Since(start))
	}
}

// TestAdvLockedStepsAndOtherWorkflows: a forgotten session has locked the waiting steps of some workflows. The changes of
// another one are left to workers, as those of a client that has crashed are.
func TestAdvLockedStepsAndOtherWorkflows(t *testing.T) {
	const locked = 13
	d := advOpen(t, "pool_max_conns=30")
	ctx := t.Context()
	var ids []string
	var last uuid.UUID
	for i := range locked + 1 {
		w, err := workflow.Enqueue(ctx, d.Client, []workflow.Step{
			{Name: "parent", Queue: "p"}, {Name: "child", Queue: "c", Needs: []string{"parent"}}})
		d.must(err)
		if last = w.Tasks[1]; i < locked {
			ids = append(ids, d.id(last))
		}
	}
	defer d.lock("task", "id IN ("+strings.Join(ids, ", ")+")")()
	q := d.Queue("p")
	tasks, err := q.Checkout(ctx, locked+1, time.Minute)
	d.must(err)
	for _, task := range tasks { // in a transaction, whose client ends after the commit
		tx, err := d.DB().BeginTx(ctx, nil)
		d.must(err)
		other, err := dbq.Open(ctx, os.Getenv("DBQ_ADV_DSN"), dbq.WithPrefix(d.prefix))
		d.must(err)
		d.must(other.Queue("p").CompleteTx(ctx, tx, task.Lease, nil))
		d.must(other.Close())
		d.must(tx.Commit())
	}
	time.Sleep(1200 * time.Millisecond) // until the changes are old enough for workers
	w := worker.Worker{Queue: d.Queue("c"), PollMax: 100 * time.Millisecond,
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
	run, stop := context.WithTimeout(ctx, 100*time.Second)
	defer stop()
	go func() { _ = w.Run(run) }()
	start := time.Now()
	for run.Err() == nil && d.get(last).State != dbq.StateCompleted {
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("after %v the last step is %v", time.Since(start), d.get(last).State)
	if time.Since(start) > 20*time.Second {
		t.Errorf("a step whose tasks have ended, and which nobody has locked, did not start for %v", time.Since(start))
	}
}
