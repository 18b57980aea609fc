package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/state"
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
			Law: "On SIGTERM, a process finishes tasks it has started and releases the others, whose attempts do not count."},
		Case{Name: "FourProcesses", Once: true, Alone: true, run: workerProcesses,
			Law: "Four worker processes, one killed and replaced, complete every task, and each has its effect once."},
		Case{Name: "UntilEmptyWaitsForLockedTasks", run: workerUntilEmpty,
			Law: "A worker that runs until its queue is empty does not return while a due task is locked."},
		Case{Name: "RefusedSettlement", Once: true, run: workerRefused,
			Law: "A task whose settlement the database refuses goes to POISON with the database's message, without any " +
				"effect on the other tasks of its batch."},
		Case{Name: "HandlersInTransactions", Slow: true, Once: true, run: workerTransactions,
			Law: "Handlers whose transactions from Client.DB stay open for longer than the lease, more of them than the pool " +
				"has connections, lose no lease: each task runs once."},
		Case{Name: "TransactionsOnAnotherPool", Slow: true, Once: true, run: workerTxDB,
			Law: "20 handlers whose transactions from the pool of WithTxDB stay open for longer than the lease lose no lease " +
				"on the 4 connections given to New: each task runs once."},
		Case{Name: "DrainIsBounded", Slow: true, Once: true, run: workerDrain,
			Law: "When its context ends, a worker returns within DrainTimeout and 3 s, even if the database is down or silent."},
		Case{Name: "CrashingTaskCostsNoOtherAttempts", Slow: true, Once: true, Alone: true, run: workerCrashingTask,
			Law: "A task that kills its worker process, among eleven others, goes to POISON after at most six more crashes " +
				"than it has attempts, and costs no other task an attempt."},
		Case{Name: "RemembersSteps", Slow: true, Once: true, run: workerSteps,
			Law: "A step of a handler (worker.Do) whose value is stored never runs again, wherever its process is killed, and " +
				"later attempts have the value; a step that was under way runs again."},
		Case{Name: "UncalledAttemptDoesNotCount", Slow: true, Once: true, run: workerUncalled,
			Law: "When the connection is lost while a worker marks the last attempt of a task as started, and is back only " +
				"after the lease has ended, the task is not in POISON: its handler was not called, so the attempt does not " +
				"count."},
	)
}

// effects is a table that handlers write to.
type effects struct {
	q     *dbq.Queue
	table string
	who   string
}

// effectTable creates the table. A task may have several effects.
func (t *test) effectTable(c *dbq.Client) string {
	return t.createTable(c, "effect", "id VARCHAR(36) NOT NULL PRIMARY KEY, task VARCHAR(36) NOT NULL, "+
		"who VARCHAR(40) NOT NULL")
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
func (e effects) handler(takes time.Duration, until string) worker.Handler {
	return worker.Func(func(ctx context.Context, t dbq.Task) error {
		if takes > 0 {
			if err := e.record(ctx, t, "began "); err != nil {
				return err
			}
			pause(takes, until) // a handler that does not look at its context
		}
		err := e.complete(ctx, t)
		if takes > 0 && errors.Is(err, dbq.ErrLeaseLost) {
			return errors.Join(err, e.record(ctx, t, "refused "))
		}
		return err
	})
}

// pause sleeps for a time or, if a file is named, until it exists, and for that time at most.
func pause(takes time.Duration, until string) {
	if until == "" {
		time.Sleep(takes)
		return
	}
	for end := time.Now().Add(takes); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(until); err == nil {
			return
		}
	}
}

// record records something apart from the task's completion.
func (e effects) record(ctx context.Context, t dbq.Task, what string) error {
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
	rows := must(c.DB().QueryContext(t.ctx, "SELECT task, who FROM "+table))
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

// runWorker runs a worker, without its log, until stop is called, which waits for its end.
func (t *test) runWorker(w worker.Worker) (stop func()) {
	w.Logger = quietLog
	return t.runUntilStopped(w.Run)
}

// runUntilEmpty runs a worker until its queue is empty.
func (t *test) runUntilEmpty(w worker.Worker) {
	w.UntilEmpty, w.Logger = true, quietLog
	t.must(w.Run(t.ctx))
}

// runUntilStopped is runWorker for the Run of a worker or a group.
func (t *test) runUntilStopped(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			t.failIf(err != nil, "the worker ended with %v", err)
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
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 8, MaxCheckout: 20, Lease: 2 * time.Second, Backoff: soon,
		Tuning: worker.Tuning{PollMax: 100 * time.Millisecond},
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			time.Sleep(5 * time.Millisecond)
			return e.complete(ctx, task) // on an error it retries, unless the lost commit was one
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
		Tuning: worker.Tuning{PollMax: 100 * time.Millisecond},
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
	await(t, "the first handler starts", started)
	p.GoDown()
	t.wantErr("the handler's context", await(t, "the handler's context ends", causes), dbq.ErrLeaseLost)
	successor := t.takeOver(q, id, long)
	t.must(q.Complete(t.ctx, successor.Lease, []byte("successor")))
	p.Heal()
	t.enqueue(q, dbq.NewTask{})
	await(t, "the worker goes on", second)
	stop()
	t.wantResult(direct, id, "successor")
}

// await receives an expected value.
func await[T any](t *test, what string, from <-chan T) (v T) {
	select {
	case v = <-from:
	case <-time.After(t.Patience):
		t.Fatalf("waited too long: %s", what)
	}
	return v
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

func workerUntilEmpty(t *test) {
	c := t.open()
	q := c.Queue("work")
	ids := t.enqueueMany(q, 3, func(i int, nt *dbq.NewTask) { nt.Reference = fmt.Sprint(i) })
	tx := t.lockTasks("reference = '1'")
	unlock := time.AfterFunc(500*time.Millisecond, func() { _ = tx.Rollback() })
	defer unlock.Stop()
	t.runUntilEmpty(worker.Worker{Queue: q, Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
	for _, id := range ids {
		t.wantState(c, id, dbq.StateCompleted)
	}
}

// refuse makes the database refuse to complete tasks of a kind, as an application's constraint or trigger would.
func (t *test) refuse(c *dbq.Client, kind string) {
	refused := fmt.Sprintf("state = %d AND kind = '%s'", dbq.StateCompleted, kind)
	constraint := fmt.Sprintf("ALTER TABLE %stask ADD CONSTRAINT %sno_way CHECK (NOT (%s))", t.Prefix, t.Prefix, refused)
	_, err := c.DB().ExecContext(t.ctx, constraint)
	if err == nil {
		return
	}
	trigger := fmt.Sprintf("CREATE TRIGGER %sno_way BEFORE UPDATE ON %stask WHEN new.%s BEGIN SELECT RAISE(ABORT, "+
		"'%sno_way'); END",
		t.Prefix, t.Prefix, strings.ReplaceAll(refused, "kind", "new.kind"), t.Prefix)
	if _, err2 := c.DB().ExecContext(t.ctx, trigger); err2 != nil {
		t.Skipf("no constraint and no trigger can be made here: %v, %v", err, err2)
	}
}

func workerRefused(t *test) {
	c := t.open()
	q := c.Queue("work")
	t.refuse(c, "refused")
	const n, bad = 200, 77
	ids := t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) {
		if i == bad {
			nt.Kind = "refused"
		}
	})
	var mu sync.Mutex
	runs := map[uuid.UUID]int{}
	t.runUntilEmpty(worker.Worker{Queue: q,
		Handler: worker.Func(func(_ context.Context, task dbq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			runs[task.ID]++
			return nil
		})})
	for i, id := range ids {
		want := dbq.StateCompleted
		if i == bad {
			want = dbq.StatePoison
		}
		task := t.wantState(c, id, want)
		t.failIf(runs[id] != 1, "task %d ran %d times, want once", i, runs[id])
		t.failIf(i == bad && !strings.Contains(string(task.Result), "no_way"),
			"the result is %q, want the database's message", task.Result)
	}
}

// These handlers keep all connections busy for longer than a lease, which is long enough for a renewal on a busy
// machine.
const (
	poolLease = 4 * time.Second
	poolBusy  = 5 * time.Second
)

func workerTransactions(t *test) {
	c := t.open()
	if c.Info().Server.OneWriter { // one after the other, and renewals wait with them
		t.inTransactions(c, 10, func() time.Duration { return poolBusy / 8 })
		return
	}
	t.inTransactions(c, 20, busyAtFirst())
}

func workerTxDB(t *test) {
	t.inTransactions(t.openCallersPool(4, dbq.WithTxDB(t.openPool().Write)), 20, busyAtFirst())
}

func workerDrain(t *test) {
	direct := t.open()
	away := []struct {
		how  string
		goes func(p *proxy.Proxy)
	}{{"away", (*proxy.Proxy).GoDown}, {"silent", (*proxy.Proxy).Stall}}
	t.concurrently(len(away), func(_ context.Context, i int) {
		p, dsn := t.throughProxy()
		queue := "database " + away[i].how
		c := t.openDSN(dsn)
		t.enqueueMany(direct.Queue(queue), 50, nil)
		started, proceed := make(chan struct{}, 50), make(chan struct{})
		const drain, lease = 500 * time.Millisecond, 25 * time.Second
		stop := t.runWorker(worker.Worker{Queue: c.Queue(queue), Concurrency: 2, Lease: lease, DrainTimeout: drain,
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				started <- struct{}{}
				<-proceed
				return nil
			})})
		await(t, "a handler starts", started)
		away[i].goes(p)
		close(proceed)
		began := time.Now()
		stop()
		// A machine may be so busy that everything takes longer, but it comes nowhere near the lease.
		if took := time.Since(began); took > lease/2 {
			t.Errorf("with the database %s, the worker returned after %v, want %v and 3 s at most", away[i].how, took, drain)
		}
		p.Heal()
	})
}

// busyAtFirst returns the durations of transactions: all that begin while the first one takes its time end with it.
func busyAtFirst() func() time.Duration {
	end := sync.OnceValue(func() time.Time { return time.Now().Add(poolBusy) })
	return func() time.Duration { return max(50*time.Millisecond, time.Until(end())) }
}

// openCallersPool opens a client on a pool of the case's own with at most conns connections.
func (t *test) openCallersPool(conns int, opts ...dbq.Option) *dbq.Client {
	t.rowLocks(t.open())
	db := t.openPool().Write
	db.SetMaxOpenConns(conns)
	return t.openOn(db, t.dialect(), opts...)
}

// inTransactions runs n tasks by as many handlers, each of which takes its time in a transaction of Client.DB.
func (t *test) inTransactions(c *dbq.Client, n int, takes func() time.Duration) {
	q := c.Queue("work")
	table := t.effectTable(c)
	ids := t.enqueueMany(q, n, nil)
	e := effects{q, table, "worker"}
	t.runUntilEmpty(worker.Worker{Queue: q, Concurrency: n, Lease: poolLease,
		Observe: func(ev worker.Observation) {
			t.failIf(ev.Type == worker.LeaseLost, "the lease of task %s is lost", ev.Task.ID)
		},
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			tx, err := c.DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, e.insert(task.ID, e.who)); err != nil {
				return err
			}
			select {
			case <-time.After(takes()):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return tx.Commit()
		})})
	for _, id := range ids {
		t.wantCompleted(c, id, 1)
	}
	t.wantEffects(c, table, ids)
}

// startMark matches the statement that marks attempts as started.
var startMark = regexp.MustCompile(`SET (t\.)?known_started = 1`)

func workerUncalled(t *test) {
	marked := false
	for after := range 3 { // the request that marks may first prepare the statement, and then execute and commit it
		marked = t.loseMark(proxy.Rule{AtText: startMark, After: after, LoseAnswer: true, StayDown: true}) || marked
	}
	t.failIf(!marked, "no answer to a mark was lost")
}

// loseMark makes a worker lose its connections by a rule before it calls its handler. It reports whether the attempt is
// then marked as started.
func (t *test) loseMark(r proxy.Rule) (marked bool) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	q := ownQueue(c)
	id := t.enqueue(direct.Queue(q.Name()), dbq.NewTask{MaxAttempts: 1})
	p.Set(r)
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, Lease: time.Second,
		Tuning: worker.Tuning{PollMax: 50 * time.Millisecond},
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			calls.Add(1)
			return nil
		})})
	defer stop()
	t.eventually("the connection is cut, or the handler called", func() bool { return p.Fired() || calls.Load() > 0 })
	time.Sleep(2 * proxy.AnswerPause)
	if calls.Load() > 0 {
		return false // the rule was about another request
	}
	started := fmt.Sprintf("SELECT known_started FROM %stask WHERE queue = '%s'", t.Prefix, q.Name())
	t.must(direct.DB().QueryRowContext(t.ctx, started).Scan(&marked))
	t.awaitExpiry(direct, id)
	p.Heal()
	t.eventually("the task ends", func() bool { return t.get(direct, id).Ended() })
	t.wantCompleted(direct, id, 1)
	t.failIf(calls.Load() != 1, "the handler was called %d times, want once", calls.Load())
	return marked
}

// crashingKind is the kind of a task that kills its process.
const crashingKind = "killer"

// childCrashingTasks runs a worker, some of whose handlers kill its process, until its standard input ends.
func childCrashingTasks(ctx context.Context, w *transcript.Caller, s childSpec) error {
	return (&worker.Worker{Queue: w.Queue, Concurrency: 5, MaxCheckout: s.Batch[0], Lease: s.Lease,
		Tuning: worker.Tuning{PollMax: 100 * time.Millisecond, Grace: defaultPatience},
		Handler: worker.Func(func(_ context.Context, task dbq.Task) error {
			if task.Kind == crashingKind {
				time.Sleep(s.Pause / 2) // others begin
				return killSelf()
			}
			time.Sleep(s.Pause)
			return nil
		})}).Run(ctx)
}

func workerCrashingTask(t *test) {
	c := t.open()
	q := c.Queue("crashing tasks")
	const attempts, most = 3, 20
	ids := t.enqueueMany(q, 12, func(i int, nt *dbq.NewTask) {
		if nt.MaxAttempts = attempts; i == 2 {
			nt.Kind = crashingKind
		}
	})
	deaths := 0
	for ended := false; !ended; {
		p := t.start(childSpec{Do: "crashing tasks", Name: fmt.Sprintf("process %d", deaths), Queue: q.Name(),
			Batch: []int{10}, Lease: long, Pause: 100 * time.Millisecond})
		t.eventually("the process ends, or the work", func() bool {
			ended = t.crashingTasksEnded(c, ids)
			return ended || p.gone()
		})
		if ended {
			p.stop()
		} else if deaths++; deaths > most {
			t.Fatalf("the task has killed %d processes", deaths)
		}
		t.expireLeases(q)
	}
	t.failIf(deaths < attempts || deaths > attempts+6,
		"the task killed %d processes, want its %d attempts and at most 6 more", deaths, attempts)
	for i, id := range ids {
		if i == 2 {
			t.wantState(c, id, dbq.StatePoison)
		} else {
			t.wantCompleted(c, id, 1)
		}
	}
}

// crashingTasksEnded reports whether nothing more happens to the tasks without an operator.
func (t *test) crashingTasksEnded(c *dbq.Client, ids []uuid.UUID) bool {
	for _, id := range ids {
		if s := t.get(c, id).State; s != state.Completed && s != state.Poison {
			return false
		}
	}
	return true
}

func workerTxCases() []Case {
	return inGroup("WorkerTx",
		Case{Name: "FailureLeavesNothing", Once: true, run: workerTxFails,
			Law: "When a handler fails in the transaction that completes its task, nothing remains, and a retry may succeed."},
		Case{Name: "NoTransactionCostsNoAttempt", Once: true, run: workerTxNone,
			Law: "An attempt does not count if the transaction for its handler could not begin because the server was away."},
		Case{Name: "ForeignErrorKeepsConnection", Once: true, run: workerTxForeign,
			Law: "A network error of another service, which a handler returns, costs no connection to the database."},
	)
}

func workerTxFails(t *test) {
	c, q := t.openQueue()
	side := t.sideTable(c)
	var calls atomic.Int64
	ways := []func() error{
		func() error { return errBoom },
		func() error { panic("boom") },
		func() error { return dbq.Released(0) },
		func() error { return errors.Join(dbq.ErrConflict, errBoom) }, // does not count
	}
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 3})
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, Lease: time.Minute,
		Tuning: worker.Tuning{PollMax: 50 * time.Millisecond}, Backoff: soon,
		Handler: worker.TxFunc(func(ctx context.Context, tx *sql.Tx, task dbq.Task) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+side+" (n) VALUES (1)"); err != nil {
				return err
			}
			if n := int(calls.Add(1)); n <= len(ways) {
				return ways[n-1]()
			}
			return nil
		})})
	t.eventually("the task ends", func() bool { return t.get(c, id).Ended() })
	stop()
	t.wantCompleted(c, id, 3)
	if n := t.rows(c.DB(), side); n != 1 {
		t.Errorf("the task has %d effects after %d calls, want 1", n, calls.Load())
	}
}

func workerTxForeign(t *test) {
	p, dsn := t.throughProxy()
	c := t.openDSN(dsn)
	q := c.Queue("q")
	const n = 20
	t.enqueueMany(q, n, nil)
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1,
		Backoff: func(int) time.Duration { return long },
		Handler: worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error {
			calls.Add(1)
			return &net.OpError{Op: "dial", Net: "tcp", Err: errBoom}
		})})
	t.eventually("all handlers have run", func() bool { return calls.Load() == n })
	stop()
	if opened := p.Accepted(); opened > n/2 {
		t.Errorf("%d handlers, one at a time, took %d connections", n, opened)
	}
}

// workerTxNone takes the server away between the checkout and the handler's transaction.
func workerTxNone(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	id := t.enqueue(direct.Queue("away"), dbq.NewTask{MaxAttempts: 1})
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: c.Queue("away"), Concurrency: 1,
		Tuning: worker.Tuning{PollMax: 50 * time.Millisecond},
		Middleware: []worker.Middleware{func(next worker.Handler) worker.Handler {
			return worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
				if calls.Add(1) == 1 {
					p.GoDown()
					defer p.Heal()
				}
				return next.HandleTask(ctx, task)
			})
		}},
		Handler: worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error { return nil })})
	defer stop()
	t.eventually("the task ends", func() bool { return t.get(direct, id).Ended() })
	t.wantCompleted(direct, id, 1)
	t.failIf(calls.Load() != 2, "the handler was called %d times, want twice", calls.Load())
}
