package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// workerCases are package worker's promises on an engine, where connections break and processes die. The effects of their handlers are
// rows that are written in the transaction that completes the task: one for each task, whatever happens.
func workerCases() []Case {
	return inGroup("Worker",
		Case{Name: "CutConnections", run: workerCut, once: true,
			Law: "A worker whose connections are cut again and again completes every task, and each has its effect once."},
		Case{Name: "UnreachableLongerThanTheLease", run: workerUnreachable, once: true,
			Law: "A worker that cannot reach the database ends its handler with the lease, another takes the task over, and the first goes on when it can."},
		Case{Name: "StoppedProcess", run: workerStopped, once: true,
			Law: "A worker process that was stopped past its lease and goes on is refused, and the effects of its late transaction are rolled back."},
		Case{Name: "TerminatedProcess", run: workerTerminated, once: true,
			Law: "A worker process that is told to end finishes what it has begun and hands back the rest, whose attempt does not count."},
		Case{Name: "FourProcesses", alone: true, run: workerProcesses, once: true,
			Law: "Four worker processes, one of which is killed and replaced, complete every task, and each has its effect once."},
	)
}

// effects is a table that handlers write to, and what they do.
type effects struct {
	q     *dbq.Queue
	table string
	who   string
}

// effectTable makes the table. It has a primary key, which some servers require of every table; one task may have several effects.
func (t *T) effectTable(c *dbq.Client) string {
	name := t.prefix + "effect"
	_, err := c.DB().ExecContext(t.ctx, "CREATE TABLE "+name+
		" (id VARCHAR(36) NOT NULL PRIMARY KEY, task VARCHAR(36) NOT NULL, who VARCHAR(40) NOT NULL)")
	t.Must(err)
	t.Cleanup(func() { // before the client is closed
		if _, err := c.DB().ExecContext(context.WithoutCancel(t.ctx), "DROP TABLE "+name); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return name
}

// conflictTries bounds how often a handler begins its transaction again. The database lets one of those that conflict go on.
const conflictTries = 50

// complete writes the effect and completes the task in one transaction, whatever has become of the handler's context. Where the database's
// default is SERIALIZABLE, transactions of two handlers can conflict although each has its own task: then complete begins again, as a
// program has to at that level. Nothing of the one before is left.
func (e effects) complete(ctx context.Context, t dbq.Task) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
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

// insert has no placeholders, which differ between engines.
func (e effects) insert(task uuid.UUID, who string) string {
	return fmt.Sprintf("INSERT INTO %s (id, task, who) VALUES ('%s', '%s', '%s')", e.table, dbq.NewID(), task, who)
}

// handler takes its time and completes. With a time to take, it writes down that it has begun, and when it is refused.
func (e effects) handler(takes time.Duration) worker.Handler {
	return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) ([]byte, error) {
		if takes > 0 {
			if err := e.note(ctx, t, "began "); err != nil {
				return nil, err
			}
			time.Sleep(takes) // a handler that does not look at its context
		}
		err := e.complete(ctx, t)
		if takes > 0 && errors.Is(err, dbq.ErrLeaseLost) {
			return nil, errors.Join(err, e.note(ctx, t, "refused "))
		}
		return nil, err
	})
}

// note writes something down apart from the task's completion.
func (e effects) note(ctx context.Context, t dbq.Task, what string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := e.q.Client().DB().ExecContext(ctx, e.insert(t.ID, what+e.who))
	return err
}

// wantEffects notes a failure unless each task is completed and has one effect.
func (t *T) wantEffects(c *dbq.Client, table string, ids []uuid.UUID) {
	found := t.effects(c, table)
	for i, id := range ids {
		if who := found[id.String()]; len(who) != 1 {
			t.Errorf("task %d has the effects %q, want one", i, who)
		}
		if len(t.failures) > 0 {
			t.wantState(c, id, dbq.StateCompleted)
			return
		}
	}
	for _, task := range t.list(c, dbq.Filter{Queue: "work"}) {
		if task.State != dbq.StateCompleted {
			t.Errorf("task %s is %v, want COMPLETED: %s", task.ID, task.State, task.Result)
			return
		}
	}
}

// effects are who did what to which task.
func (t *T) effects(c *dbq.Client, table string) map[string][]string {
	rows, err := c.DB().QueryContext(t.ctx, "SELECT task, who FROM "+table)
	t.Must(err)
	defer rows.Close()
	found := map[string][]string{}
	for rows.Next() {
		var task, who string
		t.Must(rows.Scan(&task, &who))
		found[task] = append(found[task], who)
	}
	t.Must(rows.Err())
	return found
}

// run runs a worker until stop is called, which waits for its end.
func (t *T) run(w worker.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the worker ended with %v", err)
			}
		case <-time.After(patience):
			t.Errorf("the worker did not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// quietLog is the logger of workers whose troubles are intended.
var quietLog = slog.New(slog.DiscardHandler)

func soon(int) time.Duration { return time.Millisecond }

func workerCut(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.OpenDSN(dsn)
	table := t.effectTable(direct)
	ids := t.enqueueMany(direct.Queue("work"), t.load(300), func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 1000 })
	q := c.Queue("work")
	e := effects{q, table, "worker"}
	stop := t.run(worker.Worker{Queue: q, Concurrency: 8, Batch: 20, Lease: 2 * time.Second, Backoff: soon, PollMax: 100 * time.Millisecond,
		Logger: quietLog, Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) ([]byte, error) {
			time.Sleep(5 * time.Millisecond)
			err := e.complete(ctx, task)
			if err == nil {
				return nil, nil
			}
			return nil, err // a retry, unless the lost commit was one
		})})
	for range 10 {
		time.Sleep(time.Duration(t.rand.IntN(100)) * time.Millisecond)
		p.cut()
	}
	t.eventually("all tasks end", func() bool { return t.idle(t.ctx, direct) })
	stop()
	t.wantEffects(direct, table, ids)
}

func workerUnreachable(t *T) {
	p, dsn := t.throughProxy()
	direct, c := t.Open(), t.OpenDSN(dsn)
	q := direct.Queue("work")
	id := t.enqueue(q, dbq.NewTask{})
	started, causes, second := make(chan struct{}), make(chan error, 1), make(chan struct{})
	stop := t.run(worker.Worker{Queue: c.Queue("work"), Concurrency: 1, Lease: time.Second, PollMax: 100 * time.Millisecond, Logger: quietLog,
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) ([]byte, error) {
			if task.ID != id {
				close(second)
				return nil, nil
			}
			close(started)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return []byte("late"), nil
		})})
	t.await("the first handler starts", started)
	p.leave()
	select {
	case cause := <-causes:
		if !errors.Is(cause, dbq.ErrLeaseLost) {
			t.Errorf("the handler's context ended by %v, want %v", cause, dbq.ErrLeaseLost)
		}
	case <-time.After(patience):
		t.Fatalf("the handler's context did not end")
	}
	heir := t.takeOver(q, id, long)
	t.Must(q.Complete(t.ctx, heir.Lease, []byte("heir")))
	p.heal()
	t.enqueue(q, dbq.NewTask{})
	t.await("the worker goes on", second)
	stop()
	if task := t.wantState(direct, id, dbq.StateCompleted); string(task.Result) != "heir" {
		t.Errorf("the result is %q, want that of who took over", task.Result)
	}
}

func (t *T) await(what string, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
	}
}

// begun waits until a process has begun with a task.
func (t *T) begun(c *dbq.Client, table string, p *process) {
	t.eventually("the process begins with a task", func() bool {
		if p.gone() {
			t.Fatalf("the process ended: %v\n%s", p.err, p.stderr.String())
		}
		return len(t.effects(c, table)) > 0
	})
}

// processTime bounds the work of several processes.
const processTime = childTime - 10*time.Second

func workerProcesses(t *T) {
	c := t.Open()
	table := t.effectTable(c)
	n := t.load(500)
	ids := t.enqueueMany(c.Queue("work"), n, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 100 })
	spec := func(i int) childSpec {
		return childSpec{Do: "work", Name: fmt.Sprintf("process %d", i), Queue: "work", Table: table, Lease: 2 * time.Second, Batch: []int{50}}
	}
	ps := []*process{t.start(spec(0))}
	t.begun(c, table, ps[0])
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
