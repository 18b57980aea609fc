package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

// lockedCases are about settling tasks whose rows a transaction of others has locked.
func lockedCases() []Case {
	return inGroup("Lease",
		Case{Name: "WorkerSkipsLocked", Slow: true, Once: true, run: lockedWorker,
			Law: "While another transaction has locked some of a worker's tasks, the worker settles all others; it keeps the " +
				"leases of the locked ones and settles them when that transaction has ended."},
		Case{Name: "StartSkipsLocked", Slow: true, Once: true, run: lockedStart,
			Law: "A task that another transaction has locked before its last attempt starts does not delay its batch until " +
				"the lease ends, costs no other task its lease, and is handled when that transaction has ended."},
		Case{Name: "SettleSkipsLocked", Once: true, run: lockedSettle,
			Law: "SettleMany skips a task that another transaction has locked, reports ErrLocked for it, and settles all " +
				"others; the task can be settled when that transaction has ended."},
		Case{Name: "CompleteWaitsForLocked", Slow: true, Once: true, run: lockedComplete,
			Law: "Settle and Complete wait for a transaction that has locked the task, as long as their context allows."},
		Case{Name: "CallsWaitForLocked", Slow: true, Once: true, run: lockedCalls,
			Law: "A call that waits for another transaction's lock does not take the server for a silent one: it succeeds " +
				"when the lock is free, after the time in which it would give up a dead connection."},
	)
}

func lockedWorker(t *test) {
	t.must(t.lockRows("none").Rollback()) // it is skipped where transactions do not lock rows
	c := t.open()
	q := c.Queue("work")
	const n, locked, lease = 200, 4, 5 * time.Second
	t.enqueueMany(q, n, numbered)
	var calls, lost atomic.Int64
	release := make(chan struct{})
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: n, Lease: lease, Logger: quietLog,
		Observe: countLost(&lost),
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
			calls.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
				return dbq.Failed(ctx.Err())
			}
			return endByNumber(task)
		})})
	t.eventually("all tasks are leased", func() bool { return calls.Load() == n })
	tx := t.lockRows("0", "1", "2", "3")
	close(release)
	begun := time.Now()
	leased := func() int {
		return len(t.list(c, admin.Filter{Queue: "work", States: []dbq.State{dbq.StateProcessing}}))
	}
	t.eventually("the tasks that are not locked are settled", func() bool { return leased() <= locked })
	t.Logf("%d tasks were settled within %v beside %d that are locked", n-locked, time.Since(begun), locked)
	t.eventually("the leases would have ended", func() bool { return time.Since(begun) > lease })
	if left := leased(); left != locked {
		t.Errorf("%d tasks are leased while %d are locked", left, locked)
	}
	t.must(tx.Rollback())
	t.eventually("the others are settled, too", func() bool { return leased() == 0 })
	stop()
	if calls.Load() != n || lost.Load() != 0 {
		t.Errorf("%d tasks were handed out %d times, and %d leases were lost; want each once, and none lost",
			n, calls.Load(), lost.Load())
	}
	t.wantEndedByNumber(c, n)
}

// wantEndedByNumber checks that n tasks of the queue work ended once, as endByNumber asked.
func (t *test) wantEndedByNumber(c *dbq.Client, n int) {
	count := map[dbq.State]int{}
	for _, task := range t.list(c, admin.Filter{Queue: "work"}) {
		count[task.State]++
		if task.State != dbq.StateCreated && task.Attempt != 1 {
			t.Errorf("task %s took %d attempts, want 1", task.Reference, task.Attempt)
		}
	}
	if count[dbq.StateCompleted] != n/4 || count[dbq.StateError] != n/4 || count[dbq.StateCreated] != n/4 {
		t.Errorf("tasks by state: got %v, want %d of each that the handlers asked for", count, n/4)
	}
}

// numbered makes a task's number its reference.
func numbered(i int, nt *dbq.NewTask) { nt.Reference = strconv.Itoa(i) }

// endByNumber ends a quarter of the numbered tasks in each way: completed, removed, parked, and released for later.
func endByNumber(task dbq.Task) dbq.Outcome {
	switch i, _ := strconv.Atoi(task.Reference); i % 4 {
	case 1:
		return dbq.Deleted()
	case 2:
		return dbq.Parked(errBoom)
	case 3:
		return dbq.Released(long).WithResult([]byte("so far"))
	}
	return dbq.Completed(nil)
}

// countLost returns an observer that counts lost leases.
func countLost(n *atomic.Int64) func(worker.Observation) {
	return func(e worker.Observation) {
		if e.Type == worker.LeaseLost {
			n.Add(1)
		}
	}
}

func lockedStart(t *test) {
	t.must(t.lockRows("none").Rollback()) // it is skipped where transactions do not lock rows
	const n, lease = 10, 6 * time.Second
	other := t.beginTx(t.open())
	lock := sync.OnceValue(func() error { // between the checkout and the start
		_, err := other.ExecContext(t.ctx, "UPDATE "+t.Prefix+"task SET kind = kind WHERE reference = '0'")
		return err
	})
	c := t.open(dbq.WithObserver(func(call dbq.Call) {
		if call.Op == "checkout" && call.Tasks > 0 {
			if err := lock(); err != nil {
				t.Errorf("lock a task: %v", err)
			}
		}
	}))
	q := c.Queue("work")
	t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) { nt.Reference, nt.MaxAttempts = strconv.Itoa(i), 1 })
	var calls, lost atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, BatchSize: n, Lease: lease, Logger: quietLog,
		Observe: countLost(&lost),
		BatchHandler: worker.BatchFunc(func(_ context.Context, tasks []dbq.Task) []dbq.Outcome {
			calls.Add(int64(len(tasks)))
			return make([]dbq.Outcome, len(tasks))
		})})
	begun := time.Now()
	t.eventually("the tasks that are not locked are handled", func() bool { return calls.Load() == n-1 })
	if took := time.Since(begun); took >= lease {
		t.Errorf("they were handled after %v, when the lease of the locked one had ended", took)
	}
	t.must(other.Rollback())
	t.eventually("the other one is handled, too", func() bool { return calls.Load() == n })
	stop()
	if lost.Load() != 0 {
		t.Errorf("%d leases were lost, want none", lost.Load())
	}
	for _, task := range t.list(c, admin.Filter{Queue: "work"}) {
		if task.State != dbq.StateCompleted || task.Attempt != 1 {
			t.Errorf("task %s is %v after %d attempts, want it completed by its only one", task.Reference, task.State,
				task.Attempt)
		}
	}
}

func lockedSettle(t *test) {
	c := t.open()
	q := c.Queue("q")
	const n = 40
	t.enqueueMany(q, n, numbered)
	tasks := map[string]dbq.Task{}
	for _, task := range t.checkout(q, n, long) {
		tasks[task.Reference] = task
	}
	ss := make([]dbq.Settlement, n)
	for i := range ss {
		l := tasks[strconv.Itoa(i)].Lease
		ss[i] = settlement(l, []dbq.Outcome{dbq.Completed(nil), dbq.Deleted(), dbq.RetryIn(long, errBoom),
			dbq.Completed([]byte("done"))}[i%4])
	}
	tx := t.lockRows("0", "1", "2", "3")
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience/2)
	defer cancel()
	out, err := q.SettleMany(ctx, ss)
	t.must(err)
	for i, o := range out {
		if i < 4 {
			t.wantErr(fmt.Sprintf("task %d, which is locked", i), o.Err, dbq.ErrLocked)
		} else if o.Err != nil {
			t.Errorf("task %d, which is not locked: %v", i, o.Err)
		}
	}
	if got := t.get(c, tasks["0"].ID); got.State != dbq.StateProcessing || got.Fence != tasks["0"].Fence {
		t.Errorf("a task that was passed is %v under fence %d, want it as it was", got.State, got.Fence)
	}
	t.must(tx.Rollback())
	out, err = q.SettleMany(t.ctx, ss[:4])
	t.must(err)
	for i, o := range out {
		if o.Err != nil {
			t.Errorf("task %d, settled again: %v", i, o.Err)
		}
	}
	t.wantState(c, tasks["0"].ID, dbq.StateCompleted)
	t.wantGone(c, tasks["1"].ID)
	t.wantState(c, tasks["2"].ID, dbq.StateError)
	t.wantState(c, tasks["3"].ID, dbq.StateCompleted)
	out, err = q.SettleMany(t.ctx, ss[3:])
	t.must(err)
	for i, o := range out {
		t.wantErr(fmt.Sprintf("task %d, settled a second time", i+3), o.Err, dbq.ErrLeaseLost)
	}
}

func lockedComplete(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{Reference: "locked"}, long)
	tx := t.lockRows("locked")
	done := make(chan error, 1)
	go func() { done <- q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)) }()
	waits := []time.Duration{50 * time.Millisecond, 3 * time.Second} // longer than any wait for a lock that dbq gives up
	t.concurrently(len(waits), func(ctx context.Context, i int) {
		ctx, cancel := context.WithTimeout(ctx, waits[i])
		defer cancel()
		err := q.Complete(ctx, task.Lease, nil)
		if err == nil || errors.Is(err, dbq.ErrLeaseLost) || errors.Is(err, dbq.ErrLocked) {
			t.Errorf("Complete with %v for a locked task: got error %v, want one that says that its time was over", waits[i],
				err)
		}
	})
	t.wantState(c, task.ID, dbq.StateProcessing)
	select {
	case err := <-done:
		t.Errorf("Settle of a locked task returned %v while it was locked", err)
	default:
	}
	t.must(tx.Rollback())
	t.must(<-done)
	t.wantState(c, task.ID, dbq.StateError)
}

func lockedCalls(t *test) {
	const locked = 5 * time.Second // longer than two tries wait for a silent server
	own := t.open()
	t.rowLocks(own)
	drv, pool, err := sqlrun.Open(t.ctx, t.DSN)
	t.must(err)
	t.Cleanup(func() { pool.Close() })
	callers, err := dbq.New(t.ctx, cmp.Or(pool.Caller, pool.Write), drv.Dialect, t.options()...)
	t.must(err)
	t.register(callers)
	clients := []*dbq.Client{own, callers}
	calls := map[string]func(ctx context.Context) error{}
	opening := t.beginTx(t.open())
	for i, c := range clients {
		q := c.Queue(fmt.Sprint("q", i))
		completed := t.takeNew(q, dbq.NewTask{Reference: fmt.Sprint("locked ", i)}, long)
		revoked := t.takeNew(q, dbq.NewTask{Reference: fmt.Sprint("locked too ", i)}, long)
		calls[fmt.Sprint("Complete ", i)] = func(ctx context.Context) error { return q.Complete(ctx, completed.Lease, nil) }
		if c.Info().Server.LongLockWaits {
			continue // a call of several statements has no bound for its waits
		}
		calls[fmt.Sprint("Operate ", i)] = func(ctx context.Context) error {
			return admin.New(c).Operate(ctx, state.Revoke, revoked.ID)
		}
		_, err := q.EnqueueTx(t.ctx, opening, dbq.NewTask{Unique: pending("k")})
		t.must(err)
		calls[fmt.Sprint("Enqueue ", i)] = func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, dbq.NewTask{Unique: pending("k")})
			return err
		}
	}
	locking := t.lockTasks(t.open())
	names := slices.Collect(maps.Keys(calls))
	t.concurrently(len(names)+1, func(ctx context.Context, i int) {
		if i == len(names) {
			time.Sleep(locked)
			t.must(opening.Rollback())
			t.must(locking.Rollback())
			return
		}
		ctx = sqlrun.WithPatience(ctx, func() time.Duration { return 0 }) // the minimum of two seconds
		began := time.Now()
		if err := calls[names[i]](ctx); err != nil || time.Since(began) < locked/2 {
			t.Errorf("%s of what another transaction had locked for %v returned %v after %v", names[i], locked, err,
				time.Since(began))
		}
	})
}
