package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// lockedCases are about settling tasks whose rows a transaction of others has locked.
func lockedCases() []Case {
	return inGroup("Lease",
		Case{Name: "WorkerPassesLocked", run: lockedWorker,
			Law: "While another transaction has locked some tasks of a worker, all its other tasks are settled; the locked " +
				"ones keep their leases and are settled once the transaction has ended."},
		Case{Name: "StartPassesLocked", run: lockedStart,
			Law: "A task that another transaction has locked before its last attempt begins delays none of its batch until its " +
				"lease ends, costs no other task its lease, and is handled when the transaction has ended."},
		Case{Name: "SettlePassesLocked", run: lockedSettle,
			Law: "Settle passes a task that another transaction has locked, reports it as ErrLocked, and settles all " +
				"others; settled again after the transaction has ended, it is done."},
		Case{Name: "CompleteWaitsForLocked", run: lockedComplete,
			Law: "Complete and Fail wait for another transaction that has locked the task, as long as their context allows."},
	)
}

func lockedWorker(t *T) {
	t.Must(t.lockRows("none").Rollback()) // it is skipped where transactions do not lock rows
	c := t.Open()
	q := c.Queue("work")
	const n, locked, lease = 200, 4, 8 * time.Second
	ts := make([]dbq.NewTask, n)
	for i := range ts {
		ts[i].Reference = strconv.Itoa(i)
	}
	_, err := q.EnqueueMany(t.ctx, ts)
	t.Must(err)
	var calls, lost atomic.Int64
	release := make(chan struct{})
	stop := t.run(worker.Worker{Queue: q, Concurrency: n, Lease: lease, Logger: quietLog,
		Observe: func(e worker.Event) {
			if e.Kind == worker.LeaseLost {
				lost.Add(1)
			}
		},
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) ([]byte, error) {
			calls.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			switch i, _ := strconv.Atoi(task.Reference); i % 4 {
			case 1:
				return nil, worker.Delete
			case 2:
				return nil, worker.Park(errBoom)
			case 3:
				return []byte("so far"), worker.Snooze(long)
			}
			return nil, nil
		})})
	t.eventually("all tasks are in work", func() bool { return calls.Load() == n })
	var references []string
	for i := range locked {
		references = append(references, strconv.Itoa(i))
	}
	tx := t.lockRows(references...)
	close(release)
	begun := time.Now()
	inWork := func() int {
		return len(t.list(c, dbq.Filter{Queue: "work", States: []dbq.State{dbq.StateProcessing}}))
	}
	t.eventually("the tasks that are not locked are settled", func() bool { return inWork() <= locked })
	t.Logf("%d tasks were settled within %v beside %d that are locked", n-locked, time.Since(begun), locked)
	t.eventually("the leases would have ended", func() bool { return time.Since(begun) > lease })
	if left := inWork(); left != locked {
		t.Errorf("%d tasks are in work while %d are locked", left, locked)
	}
	t.Must(tx.Rollback())
	t.eventually("the others are settled, too", func() bool { return inWork() == 0 })
	stop()
	if calls.Load() != n || lost.Load() != 0 {
		t.Errorf("%d tasks were handed out %d times, and %d leases were lost; want each once, and none lost",
			n, calls.Load(), lost.Load())
	}
	count := map[dbq.State]int{}
	for _, task := range t.list(c, dbq.Filter{Queue: "work"}) {
		count[task.State]++
		if task.State != dbq.StateCreated && task.Attempt != 1 {
			t.Errorf("task %s took %d attempts, want 1", task.Reference, task.Attempt)
		}
	}
	if count[dbq.StateCompleted] != n/4 || count[dbq.StateError] != n/4 || count[dbq.StateCreated] != n/4 {
		t.Errorf("tasks by state: got %v, want %d of each that the handlers asked for", count, n/4)
	}
}

func lockedStart(t *T) {
	t.Must(t.lockRows("none").Rollback()) // it is skipped where transactions do not lock rows
	const n, lease = 10, 12 * time.Second
	stranger := t.begin(t.Open())
	lock := sync.OnceValue(func() error { // between the checkout and the start
		_, err := stranger.ExecContext(t.ctx, "UPDATE "+t.prefix+"task SET kind = kind WHERE reference = '0'")
		return err
	})
	c := t.Open(dbq.WithObserver(func(call dbq.Event) {
		if call.Op == "checkout" && call.Tasks > 0 {
			if err := lock(); err != nil {
				t.Errorf("lock a task: %v", err)
			}
		}
	}))
	q := c.Queue("work")
	ts := make([]dbq.NewTask, n)
	for i := range ts {
		ts[i].Reference, ts[i].MaxAttempts = strconv.Itoa(i), 1
	}
	_, err := q.EnqueueMany(t.ctx, ts)
	t.Must(err)
	var calls, lost atomic.Int64
	stop := t.run(worker.Worker{Queue: q, Concurrency: 1, BatchSize: n, Lease: lease, Logger: quietLog,
		Observe: func(e worker.Event) {
			if e.Kind == worker.LeaseLost {
				lost.Add(1)
			}
		},
		BatchHandler: worker.BatchFunc(func(_ context.Context, tasks []dbq.Task) []worker.Outcome {
			calls.Add(int64(len(tasks)))
			return make([]worker.Outcome, len(tasks))
		})})
	begun := time.Now()
	t.eventually("the tasks that are not locked are handled", func() bool { return calls.Load() == n-1 })
	if took := time.Since(begun); took >= lease {
		t.Errorf("they were handled after %v, when the lease of the locked one had ended", took)
	}
	t.Must(stranger.Rollback())
	t.eventually("the other one is handled, too", func() bool { return calls.Load() == n })
	stop()
	if lost.Load() != 0 {
		t.Errorf("%d leases were lost, want none", lost.Load())
	}
	for _, task := range t.list(c, dbq.Filter{Queue: "work"}) {
		if task.State != dbq.StateCompleted || task.Attempt != 1 {
			t.Errorf("task %s is %v after %d attempts, want it completed by its only one", task.Reference, task.State, task.Attempt)
		}
	}
}

func lockedSettle(t *T) {
	c := t.Open()
	q := c.Queue("q")
	const n = 40
	ts := make([]dbq.NewTask, n)
	for i := range ts {
		ts[i].Reference = strconv.Itoa(i)
	}
	_, err := q.EnqueueMany(t.ctx, ts)
	t.Must(err)
	tasks := map[string]dbq.Task{}
	for _, task := range t.checkout(q, n, long) {
		tasks[task.Reference] = task
	}
	ss := make([]dbq.Settlement, n)
	for i := range ss {
		l := tasks[strconv.Itoa(i)].Lease
		ss[i] = []dbq.Settlement{dbq.Completed(l, nil), dbq.CompletedAndDeleted(l), dbq.Failed(l, dbq.RetryIn(long), errBoom),
			dbq.Completed(l, []byte("done"))}[i%4]
	}
	tx := t.lockRows("0", "1", "2", "3")
	ctx, cancel := context.WithTimeout(t.ctx, patience/2)
	defer cancel()
	out, err := q.Settle(ctx, ss)
	t.Must(err)
	for i, o := range out {
		if i < 4 {
			t.WantErr(fmt.Sprintf("task %d, which is locked", i), o.Err, dbq.ErrLocked)
		} else if o.Err != nil {
			t.Errorf("task %d, which is not locked: %v", i, o.Err)
		}
	}
	if got := t.get(c, tasks["0"].ID); got.State != dbq.StateProcessing || got.Fence != tasks["0"].Fence {
		t.Errorf("a task that was passed is %v under fence %d, want it as it was", got.State, got.Fence)
	}
	t.Must(tx.Rollback())
	out, err = q.Settle(t.ctx, ss[:4])
	t.Must(err)
	for i, o := range out {
		if o.Err != nil {
			t.Errorf("task %d, settled again: %v", i, o.Err)
		}
	}
	t.wantState(c, tasks["0"].ID, dbq.StateCompleted)
	t.wantGone(c, tasks["1"].ID)
	t.wantState(c, tasks["2"].ID, dbq.StateError)
	t.wantState(c, tasks["3"].ID, dbq.StateCompleted)
	out, err = q.Settle(t.ctx, ss[3:])
	t.Must(err)
	for i, o := range out {
		t.WantErr(fmt.Sprintf("task %d, settled a second time", i+3), o.Err, dbq.ErrLeaseLost)
	}
}

func lockedComplete(t *T) {
	c := t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{Reference: "locked"}, long)
	tx := t.lockRows("locked")
	for _, wait := range []time.Duration{50 * time.Millisecond, 3 * time.Second} {
		ctx, cancel := context.WithTimeout(t.ctx, wait)
		err := q.Complete(ctx, task.Lease, nil)
		cancel()
		if err == nil || errors.Is(err, dbq.ErrLeaseLost) || errors.Is(err, dbq.ErrLocked) {
			t.Errorf("Complete with %v for a locked task: got error %v, want one that says that its time was over", wait, err)
		}
		t.wantState(c, task.ID, dbq.StateProcessing)
	}
	done := make(chan error, 1)
	go func() { done <- q.Fail(t.ctx, task.Lease, dbq.Park, errBoom) }()
	select {
	case err := <-done:
		t.Errorf("Fail of a locked task returned %v while it was locked", err)
	case <-time.After(3 * time.Second): // longer than any wait for a lock that dbq gives up
	}
	t.Must(tx.Rollback())
	t.Must(<-done)
	t.wantState(c, task.ID, dbq.StateError)
}

// settleEach settles, and settles again what other transactions had locked, until ctx ends.
func settleEach(ctx context.Context, q *dbq.Queue, ss []dbq.Settlement) ([]dbq.Settled, error) {
	all, err := q.Settle(ctx, ss)
	for pause := time.Millisecond; err == nil; pause = min(2*pause, 50*time.Millisecond) {
		var locked []int
		var again []dbq.Settlement
		for i, o := range all {
			if errors.Is(o.Err, dbq.ErrLocked) {
				locked, again = append(locked, i), append(again, ss[i])
			}
		}
		if len(locked) == 0 {
			break
		}
		if err = rest(ctx, pause); err != nil {
			break
		}
		var out []dbq.Settled
		if out, err = q.Settle(ctx, again); err == nil {
			for k, i := range locked {
				all[i] = out[k]
			}
		}
	}
	return all, err
}
