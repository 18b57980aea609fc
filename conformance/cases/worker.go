package cases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// workerCases are package worker's promises on an engine where connections break and processes die. The effects of
// their handlers are rows, written in the transaction that completes the task: one for each task, whatever happens.
func workerCases() []Case {
	return inGroup("Worker",
		Case{Name: "CutConnections", Once: true, run: workerCut,
			Law: "A worker whose connections are cut again and again completes every task, and each has its effect once."},
		Case{Name: "UnreachableLongerThanTheLease", Once: true, run: workerUnreachable,
			Law: "A worker that cannot reach the database ends its handler's context when the lease ends, another worker " +
				"takes the task over, and the first one resumes once the database is back."},
		Case{Name: "StoppedProcess", Slow: true, Once: true, run: workerStopped,
			Law: "A worker process that is stopped for longer than its lease and then continued is refused, and the effects " +
				"of its late transaction are rolled back."},
		Case{Name: "TerminatedProcess", Once: true, run: workerTerminated,
			Law: "A worker process that gets SIGTERM finishes the tasks it has started and releases the others, whose " +
				"attempts do not count."},
		Case{Name: "FourProcesses", Once: true, Alone: true, run: workerProcesses,
			Law: "Four worker processes, one of which is killed and replaced, complete every task, and each has its effect " +
				"once."},
	)
}

// effects is a table that handlers write to.
type effects struct {
	q     *dbq.Queue
	table string
	who   string
}

// effectTable creates the table. It has a primary key, which some servers require of every table; a task may have
// several effects.
func (t *test) effectTable(c *dbq.Client) string {
	name := t.Prefix + "effect"
	_, err := c.DB().ExecContext(t.ctx, "CREATE TABLE "+name+
		" (id VARCHAR(36) NOT NULL PRIMARY KEY, task VARCHAR(36) NOT NULL, who VARCHAR(40) NOT NULL)")
	t.must(err)
	t.Cleanup(func() { // before the client is closed
		if _, err := c.DB().ExecContext(context.WithoutCancel(t.ctx), "DROP TABLE "+name); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return name
}

// conflictTries bounds how often a handler restarts its transaction after a conflict. Each time, the database lets one
// of the conflicting transactions commit.
const conflictTries = 50

// complete writes the effect and completes the task in one transaction, even if the handler's context has ended. Where
// the database's default is SERIALIZABLE, transactions of two handlers can conflict although each has its own task;
// then it starts again, as an application must at that level.
func (e effects) complete(ctx context.Context, t dbq.Task) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultPatience)
	defer cancel()
	for range conflictTries {
		if err = e.completeOnce(ctx, t); !e.q.Client().IsConflict(err) {
			break
		}
	}
	return err
}

func (e effects) completeOnce(ctx context.Context, t dbq.Task) error {
	tx, err := e.q.Client().DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, e.insert(t.ID, e.who)); err != nil {
		return err
	}
	if err := e.q.CompleteTx(ctx, tx, t.Lease, []byte(e.who)); err != nil {
		return err
	}
	return tx.Commit()
}

// insert returns a statement without placeholders, which differ between engines.
func (e effects) insert(task uuid.UUID, who string) string {
	return fmt.Sprintf("INSERT INTO %s (id, task, who) VALUES ('%s', '%s', '%s')", e.table, dbq.NewID(), task, who)
}

// handler takes its time and completes the task. Unless takes is zero, it also records that it has begun, and when it
// is refused.
func (e effects) handler(takes time.Duration) worker.Handler {
	return worker.Func(func(ctx context.Context, t dbq.Task) error {
		if takes > 0 {
			if err := e.note(ctx, t, "began "); err != nil {
				return err
			}
			time.Sleep(takes) // a handler that does not look at its context
		}
		err := e.complete(ctx, t)
		if takes > 0 && errors.Is(err, dbq.ErrLeaseLost) {
			return errors.Join(err, e.note(ctx, t, "refused "))
		}
		return err
	})
}

// note records something apart from the task's completion.
func (e effects) note(ctx context.Context, t dbq.Task, what string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultPatience)
	defer cancel()
	_, err := e.q.Client().DB().ExecContext(ctx, e.insert(t.ID, what+e.who))
	return err
}

// wantEffects records a failure unless each task is completed and has one effect.
func (t *test) wantEffects(c *dbq.Client, table string, ids []uuid.UUID) {
	found := t.effects(c, table)
	for i, id := range ids {
		if who := found[id.String()]; len(who) != 1 {
			t.Errorf("task %d has the effects %q, want one", i, who)
		}
		if t.failed() {
			t.wantState(c, id, dbq.StateCompleted)
			return
		}
	}
	for _, task := range t.list(c, admin.Filter{Queue: "work"}) {
		if task.State != dbq.StateCompleted {
			t.Errorf("task %s is %v, want COMPLETED: %s", task.ID, task.State, task.Result)
			return
		}
	}
}

// effects returns the workers that had an effect, by task.
func (t *test) effects(c *dbq.Client, table string) map[string][]string {
	rows, err := c.DB().QueryContext(t.ctx, "SELECT task, who FROM "+table)
	t.must(err)
	defer rows.Close()
	found := map[string][]string{}
	for rows.Next() {
		var task, who string
		t.must(rows.Scan(&task, &who))
		found[task] = append(found[task], who)
	}
	t.must(rows.Err())
	return found
}

// runWorker runs a worker until stop is called, which waits for its end.
func (t *test) runWorker(w worker.Worker) (stop func()) { return t.runUntilStopped(w.Run) }

// runUntilStopped is runWorker for the Run of a worker or a group.
func (t *test) runUntilStopped(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the worker ended with %v", err)
			}
		case <-time.After(t.Patience):
			t.Errorf("the worker did not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// quietLog discards the lines of workers whose troubles are intended.
var quietLog = slog.New(slog.DiscardHandler)

// soon is a backoff of no consequence.
func soon(int) time.Duration { return time.Millisecond }

func workerCut(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	table := t.effectTable(direct)
	ids := t.enqueueMany(direct.Queue("work"), t.load(300), func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 1000 })
	q := c.Queue("work")
	e := effects{q, table, "worker"}
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 8, Batch: 20, Lease: 2 * time.Second, Backoff: soon,
		PollMax: 100 * time.Millisecond,
		Logger:  quietLog, Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			time.Sleep(5 * time.Millisecond)
			err := e.complete(ctx, task)
			if err == nil {
				return nil
			}
			return err // a retry, unless the lost commit was one
		})})
	for range 10 {
		time.Sleep(time.Duration(t.rand.IntN(100)) * time.Millisecond)
		p.CutAll()
	}
	t.eventually("all tasks end", func() bool { return t.idle(t.ctx, direct) })
	stop()
	t.wantEffects(direct, table, ids)
}

func workerUnreachable(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	q := direct.Queue("work")
	id := t.enqueue(q, dbq.NewTask{})
	started, causes, second := make(chan struct{}), make(chan error, 1), make(chan struct{})
	stop := t.runWorker(worker.Worker{Queue: c.Queue("work"), Concurrency: 1, Lease: time.Second,
		PollMax: 100 * time.Millisecond, Logger: quietLog,
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
			if task.ID != id {
				close(second)
				return dbq.Completed(nil)
			}
			close(started)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return dbq.Completed([]byte("late"))
		})})
	t.await("the first handler starts", started)
	p.GoDown()
	select {
	case cause := <-causes:
		if !errors.Is(cause, dbq.ErrLeaseLost) {
			t.Errorf("the handler's context ended by %v, want %v", cause, dbq.ErrLeaseLost)
		}
	case <-time.After(t.Patience):
		t.Fatalf("the handler's context did not end")
	}
	successor := t.takeOver(q, id, long)
	t.must(q.Complete(t.ctx, successor.Lease, []byte("successor")))
	p.Heal()
	t.enqueue(q, dbq.NewTask{})
	t.await("the worker goes on", second)
	stop()
	if task := t.wantState(direct, id, dbq.StateCompleted); string(task.Result) != "successor" {
		t.Errorf("the result is %q, want that of who took over", task.Result)
	}
}

// await waits for done.
func (t *test) await(what string, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(t.Patience):
		t.Fatalf("waited in vain: %s", what)
	}
}

// awaitFirstEffect waits until a process has begun with a task.
func (t *test) awaitFirstEffect(c *dbq.Client, table string, p *process) {
	t.eventually("the process begins with a task", func() bool {
		if p.gone() {
			t.Fatalf("the process ended: %v\n%s", p.err, p.stderr.String())
		}
		return len(t.effects(c, table)) > 0
	})
}

// processTime bounds the work of several processes.
const processTime = processLimit - 10*time.Second

func workerProcesses(t *test) {
	c := t.open()
	table := t.effectTable(c)
	n := t.load(500)
	ids := t.enqueueMany(c.Queue("work"), n, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 100 })
	spec := func(i int) childSpec {
		return childSpec{Do: "work", Name: fmt.Sprintf("process %d", i), Queue: "work", Table: table, Lease: 2 * time.Second,
			Batch: []int{50}}
	}
	ps := []*process{t.start(spec(0))}
	t.awaitFirstEffect(c, table, ps[0])
	for i := range 3 {
		ps = append(ps, t.start(spec(i+1)))
	}
	ps[0].kill()
	ps[0] = t.start(spec(4))
	end := time.Now().Add(processTime)
	for !t.idle(t.ctx, c) {
		if time.Now().After(end) {
			t.Fatalf("%d tasks are not done after %v", n, processTime)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, p := range ps {
		p.stop()
	}
	t.wantEffects(c, table, ids)
}
