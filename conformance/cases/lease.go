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
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

func leaseCases() []Case {
	return inGroup("Lease",
		Case{Name: "ExpiredIsRedelivered", run: leaseExpired,
			Law: "A checkout hands a task out again after its lease has expired, as the next attempt and under a higher fence."},
		Case{Name: "StaleFenceCannotSettle", run: leaseStaleSettle,
			Law: "Every settling call with the fence of a lease that was taken over returns ErrLeaseLost and changes nothing."},
		Case{Name: "ExtendKeepsOthersOut", run: leaseExtend,
			Law: "An extended lease protects the task beyond its first end, and keeps its fence."},
		Case{Name: "ExtendToSameInstant", run: leaseExtendSame,
			Law: "An extension succeeds even when it leaves the row as it was."},
		Case{Name: "ExtendManyReportsLost", run: leaseExtendMany,
			Law: "ExtendMany returns the renewed and the lost leases apart, each in the order given."},
		Case{Name: "FailuresExhaustAttempts", run: leaseSpentByFail,
			Law: "A task that fails on its last attempt goes to POISON, even when a retry was requested."},
		Case{Name: "HolderEndsNoLaterThanTheDatabase", run: leaseUntil,
			Law: "The holder considers its lease over no later than the database does."},
		Case{Name: "SettlingTwiceIsLeaseLost", run: leaseTwice,
			Law: "A lease settles once: a second call returns ErrLeaseLost and changes nothing."},
		Case{Name: "OldAndNewLeaseInOneCall", run: leaseOldAndNew,
			Law: "When one call has a task's old and new lease, the new one is settled and the old one reported lost."},
		Case{Name: "ManyOutcomesInOrder", run: leaseMany,
			Law: "Settle ends each attempt in its own way and reports in order, beyond the limits of one statement."},
		Case{Name: "ManyCompletedTogether", run: leaseManyCompleted,
			Law: "A call that completes many leases reports each lost or settled one, and leaves only those tasks unchanged."},
		Case{Name: "ReusedIDIsANewTask", run: leaseEarlierLife,
			Law: "When a task is removed and its id enqueued again, no lease of the earlier task settles or extends the new " +
				"one, and the history lists the attempts of both."},
		Case{Name: "RetryWhenDue", run: leaseRetry,
			Law: "A failed task is retried once its retry time has come, and not before."},
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
		Case{Name: "UnstartedAttemptDoesNotCount", run: lapseUncounted,
			Law: "An attempt whose lease expires before it was marked as started counts only every hundredth time."},
		Case{Name: "StartedAttemptCounts", run: lapseStarted,
			Law: "An attempt whose lease expires after it was marked as started counts; a lost lease cannot be marked."},
	)
}

// wantLost makes every call of a holder with a lease that is not valid any more, and wants ErrLeaseLost and an
// unchanged row.
func (t *test) wantLost(when string, q *dbq.Queue, l dbq.Lease) {
	before := t.get(q.Client(), l.TaskID)
	want := func(call string, err error) {
		t.wantErr(call+" "+when, err, dbq.ErrLeaseLost)
		t.wantUnchanged(call+" "+when, q.Client(), before)
	}
	for _, e := range endings() {
		want(e.name, q.Settle(t.ctx, l, e.outcome))
		want(e.name+" in a batch", must(q.SettleMany(t.ctx, []dbq.Settlement{settlement(l, e.outcome)}))[0].Err)
	}
	_, err := q.Extend(t.ctx, l, long)
	want("extend", err)
}

func leaseExpired(t *test) {
	q := t.open().Queue("q")
	id := t.enqueue(q, dbq.NewTask{Payload: []byte("x")})
	first := t.abandon(q)
	second := t.takeOver(t.open().Queue("q"), id, long)
	t.failIf(second.Attempt != first.Attempt+1 || second.Fence <= first.Fence || string(second.Payload) != "x",
		"after %s got %s, want one attempt more and a higher fence", show(first), show(second))
	t.wantNone("the task is leased again", q)
}

func leaseStaleSettle(t *test) {
	c, q := t.openQueue()
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	t.wantLost("after the task was taken over", q, old.Lease)
	t.wantState(c, id, dbq.StateProcessing)
}

func leaseExtend(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{}, time.Minute)
	firstEnd := t.get(c, task.ID).LeaseUntil
	renewed := must(q.Extend(t.ctx, task.Lease, long))
	row := t.get(c, task.ID)
	if !row.LeaseUntil.After(firstEnd.Add(time.Minute)) || row.Fence != task.Fence || row.Attempt != 1 ||
		row.State != dbq.StateProcessing {
		t.Errorf("after an extension to an hour got %s, want a lease far beyond %v under fence %d", show(row), firstEnd,
			task.Fence)
	}
	t.failIf(renewed.Fence != task.Lease.Fence || renewed.TaskID != task.ID || !renewed.Until.After(task.Lease.Until),
		"extend returned %+v for %+v, want the same fence and a later end", renewed, task.Lease)
	// An expired lease that is extended before a takeover keeps others out as well.
	other := t.takeNew(q, dbq.NewTask{}, short)
	t.awaitExpiry(c, other.ID)
	must(q.Extend(t.ctx, other.Lease, long))
	t.wantNone("both leases were extended to an hour", t.open().Queue("q"))
	t.must(q.Complete(t.ctx, task.Lease, nil)) // the lease as it was before the extension is as good
}

func leaseExtendSame(t *test) {
	q := t.open().Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	for range 30 { // several within one millisecond of a coarse clock
		if _, err := q.Extend(t.ctx, task.Lease, long); err != nil {
			t.Fatalf("extend by the same time again: %v", err)
		}
	}
}

func leaseExtendMany(t *test) {
	c, q := t.openQueue()
	n := min(2*t.statements().Extend.Max+1, 3000)
	leases := leasesOf(t.takeAll(q, n, time.Minute))
	t.must(q.Complete(t.ctx, leases[0], nil))
	t.operate(c, admin.Revoke, leases[n-1].TaskID)
	leases[n/2].Fence++
	lostAt := []int{0, n / 2, n - 1}
	renewed, lost, err := q.ExtendMany(t.ctx, leases, long)
	t.must(err)
	if len(renewed) != n-len(lostAt) || len(lost) != len(lostAt) {
		t.Fatalf("%d renewed and %d lost, want %d and %d", len(renewed), len(lost), n-len(lostAt), len(lostAt))
	}
	for i, at := range lostAt {
		got, want := lost[i].TaskID, leases[at].TaskID
		t.failIf(got != want, "lost lease %d is of task %s, want %s", i, got, want)
	}
	r := 0
	for i, l := range leases {
		if slices.Contains(lostAt, i) {
			continue
		}
		if renewed[r].TaskID != l.TaskID || renewed[r].Fence != l.Fence || !renewed[r].Until.After(l.Until) {
			t.Fatalf("renewed lease %d is %+v, want that of %+v with a later end", r, renewed[r], l)
		}
		r++
	}
}

func leaseSpentByFail(t *test) {
	c, q := t.openQueue()
	for name, retry := range map[string]dbq.Outcome{"at once": dbq.RetryIn(0, errBoom),
		"later": dbq.RetryIn(long, errBoom), "at a time": dbq.RetryAt(t.now(c).Add(long), errBoom),
		"by backoff": dbq.Failed(errBoom)} {
		id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2})
		first := t.take(q, long)
		out := must(q.SettleMany(t.ctx, []dbq.Settlement{settlement(first.Lease, dbq.RetryIn(0, errBoom))}))
		t.failIf(out[0].State != dbq.StateError,
			"the first of two attempts failed, to be retried: got %v, want %v", out[0].State, dbq.StateError)
		last := t.take(q, long)
		out = must(q.SettleMany(t.ctx, []dbq.Settlement{settlement(last.Lease, retry)}))
		row := t.wantState(c, id, dbq.StatePoison)
		t.failIf(out[0].State != dbq.StatePoison || !row.Due.IsZero() || string(row.Result) != "boom",
			"failed on the last attempt, to be retried %s: the outcome is %v, the row %s; want POISON, no due time, "+
				"and the error", name, out[0].State, show(row))
	}
	parked := t.settleNew(q, dbq.NewTask{MaxAttempts: 1}, dbq.Parked(errBoom))
	if row := t.get(c, parked.ID); !row.Parked() {
		t.Errorf("parked on the last attempt: got %s, want it parked for an operator", show(row))
	}
}

func leaseUntil(t *test) {
	c, q := t.openQueue()
	check := func(what string, l dbq.Lease) {
		now := t.now(c) // read first, so at least as much is left there as here
		there := t.get(c, l.TaskID).LeaseUntil.Sub(now)
		if here := time.Until(l.Until); here > there {
			t.Errorf("after %s the holder has %v left, by the database %v", what, here, there)
		}
		t.failIf(there > long, "after %s the lease has %v left, want at most %v", what, there, long)
	}
	task := t.takeNew(q, dbq.NewTask{}, long)
	check("checkout", task.Lease)
	l := must(q.Extend(t.ctx, task.Lease, long))
	check("extend", l)
}

func leaseTwice(t *test) {
	c, q := t.openQueue()
	for _, e := range endings() {
		if e.to == state.None {
			continue // see CompleteTx/Deleted
		}
		own := c.Queue(e.name)
		task := t.settleNew(own, dbq.NewTask{}, e.outcome)
		t.wantLost("after "+e.name, own, task.Lease)
	}
	task := t.takeNew(q, dbq.NewTask{}, long)
	twice := []dbq.Settlement{settlement(task.Lease, dbq.Completed([]byte("one"))),
		settlement(task.Lease, dbq.Completed([]byte("two")))}
	out := must(q.SettleMany(t.ctx, twice))
	t.must(out[0].Err)
	t.wantErr("the same lease a second time in one call", out[1].Err, dbq.ErrLeaseLost)
	t.wantResult(c, task.ID, "one") // the result of the settlement that was reported as done
}

func leaseOldAndNew(t *test) {
	c, q := t.openQueue()
	for i, oldFirst := range []bool{true, false} {
		id := t.enqueue(q, dbq.NewTask{})
		old := t.abandon(q).Lease
		fresh := t.takeOver(q, id, long).Lease
		leases, oldAt := []dbq.Lease{old, fresh}, 0
		if !oldFirst {
			leases, oldAt = []dbq.Lease{fresh, old}, 1
		}
		renewed, lost, err := q.ExtendMany(t.ctx, leases, long)
		t.must(err)
		t.failIf(len(renewed) != 1 || renewed[0].Fence != fresh.Fence || len(lost) != 1 || lost[0].Fence != old.Fence,
			"ExtendMany of fences %d and %d: renewed %+v, lost %+v", old.Fence, fresh.Fence, renewed, lost)
		result := fmt.Append(nil, "fresh", i)
		ss := []dbq.Settlement{settlement(fresh, dbq.Completed(result)), settlement(fresh, dbq.Completed(result))}
		ss[oldAt] = settlement(old, dbq.RetryIn(0, errBoom))
		out := must(q.SettleMany(t.ctx, ss))
		t.wantErr("settling the old lease", out[oldAt].Err, dbq.ErrLeaseLost)
		t.must(out[1-oldAt].Err)
		t.wantResult(c, id, string(result))
	}
}

func leaseMany(t *test) {
	c, q := t.openQueue()
	n := min(2*t.statements().Settle.Max+5, 3000)
	tasks := t.takeAll(q, n, long)
	t.rand.Shuffle(n, func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	ss, want := make([]dbq.Settlement, n), make([]dbq.State, n)
	for i, task := range tasks {
		ss[i], want[i] = sixWays(i, task.Lease)
	}
	out := must(q.SettleMany(t.ctx, ss))
	rows := map[dbq.State]int{}
	for i, o := range out {
		if i%6 == 5 {
			t.wantErr("a settlement with a wrong fence", o.Err, dbq.ErrLeaseLost)
		} else if o.Err != nil || o.State != want[i] {
			t.Errorf("settlement %d: got %v and error %v, want %v", i, o.State, o.Err, want[i])
		}
		if i > 60 && i < n-60 { // the ends of the batch are looked at row by row, all of it by counting
			continue
		}
		if want[i] == state.None {
			t.wantGone(c, tasks[i].ID)
			continue
		}
		row := t.wantState(c, tasks[i].ID, want[i])
		if kept := i%6 == 0 || i%6 == 2 || i%6 == 3; kept && string(row.Result) != fmt.Sprint(i) {
			t.Errorf("settlement %d left the result %q", i, row.Result)
		}
	}
	for _, task := range t.list(c, admin.Filter{Queue: "q"}) {
		rows[task.State]++
	}
	wantRows := map[dbq.State]int{}
	for _, s := range want {
		if s != state.None {
			wantRows[s]++
		}
	}
	t.failIf(fmt.Sprint(rows) != fmt.Sprint(wantRows), "the states are %v, want %v", rows, wantRows)
}

// sixWays returns a settlement of lease l, another kind for each of six values of i, and the state that it leads to.
// The last one has a wrong fence.
func sixWays(i int, l dbq.Lease) (dbq.Settlement, dbq.State) {
	switch i % 6 {
	case 0:
		return settlement(l, dbq.Completed(fmt.Append(nil, i))), dbq.StateCompleted
	case 1:
		return settlement(l, dbq.Deleted()), state.None
	case 2:
		return settlement(l, dbq.RetryIn(long, fmt.Errorf("%d", i))), dbq.StateError
	case 3:
		return settlement(l, dbq.Poisoned(fmt.Errorf("%d", i))), dbq.StatePoison
	case 4:
		return settlement(l, dbq.Released(long)), dbq.StateCreated
	}
	l.Fence += 7
	return settlement(l, dbq.Completed(nil)), dbq.StateProcessing
}

func leaseRetry(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{}, long)
	const pause = 50 * time.Millisecond
	for _, retry := range []func() dbq.Outcome{
		func() dbq.Outcome { return dbq.Failed(errBoom) }, // the pause is shortest after the first attempt
		func() dbq.Outcome { return dbq.RetryIn(pause, errBoom) },
		func() dbq.Outcome { return dbq.RetryAt(t.now(c).Add(pause), errBoom) },
	} {
		t.must(q.Settle(t.ctx, task.Lease, retry()))
		due := t.get(c, task.ID).Due
		if due.IsZero() {
			t.Fatalf("the failed task has no due time")
		}
		t.eventually("the failed task is tried again", func() bool {
			tasks := t.checkout(q, 1, long)
			if len(tasks) == 0 {
				return false
			}
			if now := t.now(c); now.Before(due) {
				t.Errorf("tried again at %v, before %v", now, due)
			}
			task = tasks[0]
			return true
		})
	}
	t.failIf(string(task.Result) != "boom",
		"the next attempt sees the result %q, want the error of the last one", task.Result)
}

func leaseManyCompleted(t *test) {
	c := t.open()
	t.manyCompleted(c, c.Queue("kept"), dbq.StateCompleted,
		dbq.Completed(nil))
	t.manyCompleted(c, c.Queue("removed"), state.None, dbq.Deleted())
}

// manyCompleted completes 60 leases by one call, some of which are lost, and wants the tasks of the others in a state.
func (t *test) manyCompleted(c *dbq.Client, q *dbq.Queue, to dbq.State, ending dbq.Outcome) {
	const n = 60
	tasks := t.takeAll(q, n, long)
	ends := make([]dbq.Settlement, n)
	lost := map[int]dbq.Task{} // as they must stay
	for i, task := range tasks {
		ends[i] = settlement(task.Lease, ending)
		switch {
		case i%10 == 3: // out again under the next fence
			t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
			again := t.take(q, long)
			lost[i] = t.get(c, again.ID)
		case i%10 == 5: // settled another way
			t.must(q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)))
			lost[i] = t.get(c, task.ID)
		case i%10 == 7: // completed with a result
			t.must(q.Complete(t.ctx, task.Lease, []byte("kept")))
			lost[i] = t.get(c, task.ID)
		}
	}
	out := must(q.SettleMany(t.ctx, ends))
	for i, end := range ends {
		before, was := lost[i]
		switch id := end.Lease.TaskID; {
		case was:
			t.wantErr("completing with a lost lease", out[i].Err, dbq.ErrLeaseLost)
			t.wantUnchanged("completing with a lost lease", c, before)
		case out[i].Err != nil || out[i].State != to:
			t.Errorf("completing: got %v, %v", out[i].State, out[i].Err)
		case to == state.None:
			t.wantGone(c, id)
		default:
			if task := t.wantState(c, id, to); task.Result != nil || !task.Due.IsZero() || !task.LeaseUntil.IsZero() ||
				task.Attempt != 1 {
				t.Errorf("got %+v, want it completed without a result", task)
			}
		}
	}
}

func settlement(l dbq.Lease, o dbq.Outcome) dbq.Settlement {
	return dbq.Settlement{Lease: l, Outcome: o}
}

// completeAll completes tasks without a result, and returns the leases that were lost.
func completeAll(ctx context.Context, q *dbq.Queue, ls []dbq.Lease) (lost []dbq.Lease, err error) {
	ss := allTo(dbq.Completed(nil), ls...)
	out, err := transcript.SettleUnlocked(ctx, q, ss)
	for i, o := range out {
		if o.Err != nil {
			lost = append(lost, ls[i])
		}
	}
	return lost, err
}

// leaseEarlierLife removes tasks and enqueues their ids again, as fast as it can: also an engine whose clock is coarse
// must not begin a fence where an earlier one has been.
func leaseEarlierLife(t *test) {
	c, q := t.openQueue()
	id := dbq.NewID()
	enqueue := t.waysToEnqueue(q)
	const lives = 12
	var leases []dbq.Lease
	next := func(task dbq.Task) {
		if n := len(leases); n > 0 && task.Fence <= leases[n-1].Fence {
			t.Errorf("lease %d of the id has the fence %d, want more than %d, which the one before had", n+1, task.Fence,
				leases[n-1].Fence)
		}
		leases = append(leases, task.Lease)
	}
	for life := range lives {
		t.must(enqueue[life%len(enqueue)](dbq.NewTask{ID: id}))
		task := t.take(q, long)
		next(task)
		if life%2 > 0 {
			t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
			task = t.take(q, long)
			next(task)
		}
		t.record(q, dbq.Attempt{TaskID: id, Number: task.Attempt, Fence: task.Fence, Outcome: dbq.AttemptCompleted,
			Taken: time.Now(), Ended: time.Now(), Worker: "w"})
		old := leases[:len(leases)-1]
		lost, err := completeAll(t.ctx, q, old)
		t.failIf(err != nil || len(lost) != len(old),
			"of %d leases of earlier lives %d are lost, error %v; want all", len(old), len(lost), err)
		if life == 0 || life == lives-1 {
			for _, l := range old {
				t.wantLost("in a later life", q, l)
			}
		}
		t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted()))
	}
	attempts := t.attemptsOf(c, id)
	if want := lives + lives/2; len(attempts) != want { // every second life had one that was released
		t.Errorf("the history has %d attempts of %d lives, want %d", len(attempts), lives, want)
	}
}

// waysToEnqueue returns each way to enqueue a task: by itself, in a batch, and in a transaction.
func (t *test) waysToEnqueue(q *dbq.Queue) []func(nt dbq.NewTask) error {
	return []func(nt dbq.NewTask) error{
		func(nt dbq.NewTask) error { _, err := q.Enqueue(t.ctx, nt); return err },
		func(nt dbq.NewTask) error {
			_, err := q.EnqueueMany(t.ctx, []dbq.NewTask{nt, {Delay: long}, {ID: nt.ID}})
			return err
		},
		func(nt dbq.NewTask) error {
			tx := must(q.Client().DB().BeginTx(t.ctx, nil))
			defer tx.Rollback()
			if _, err := q.EnqueueTx(t.ctx, tx, nt); err != nil {
				return err
			}
			return tx.Commit()
		},
	}
}

func lockedWorker(t *test) {
	c := t.open()
	t.rowLocks(c)
	q := c.Queue("work")
	const n, locked, lease = 200, 4, 5 * time.Second
	t.enqueueMany(q, n, numbered)
	var calls, lost atomic.Int64
	release := make(chan struct{})
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: n, Lease: lease,
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
	tx := t.lockTasks("reference IN ('0', '1', '2', '3')")
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
	t.failIf(calls.Load() != n || lost.Load() != 0,
		"%d tasks were handed out %d times, and %d leases were lost; want each once, and none lost",
		n, calls.Load(), lost.Load())
	t.wantEndedByNumber(c, n)
}

// wantEndedByNumber checks that n tasks of the queue work ended once, each as endByNumber ends it.
func (t *test) wantEndedByNumber(c *dbq.Client, n int) {
	count := map[dbq.State]int{}
	for _, task := range t.list(c, admin.Filter{Queue: "work"}) {
		count[task.State]++
		t.failIf(task.State != dbq.StateCreated && task.Attempt != 1,
			"task %s took %d attempts, want 1", task.Reference, task.Attempt)
	}
	t.failIf(count[dbq.StateCompleted] != n/4 || count[dbq.StateError] != n/4 || count[dbq.StateCreated] != n/4,
		"tasks by state: got %v, want %d of each", count, n/4)
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
	const n, lease = 10, 6 * time.Second
	other := t.lockTasks("1 = 0")
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
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, BatchSize: n, Lease: lease,
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
	t.failIf(lost.Load() != 0, "%d leases were lost, want none", lost.Load())
	for _, task := range t.list(c, admin.Filter{Queue: "work"}) {
		t.failIf(task.State != dbq.StateCompleted || task.Attempt != 1,
			"task %s is %v after %d attempts, want it completed by its only one", task.Reference, task.State, task.Attempt)
	}
}

func lockedSettle(t *test) {
	c, q := t.openQueue()
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
	tx := t.lockTasks("reference IN ('0', '1', '2', '3')")
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience/2)
	defer cancel()
	out := must(q.SettleMany(ctx, ss))
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
	out = must(q.SettleMany(t.ctx, ss[:4]))
	for i, o := range out {
		t.failIf(o.Err != nil, "task %d, settled again: %v", i, o.Err)
	}
	t.wantState(c, tasks["0"].ID, dbq.StateCompleted)
	t.wantGone(c, tasks["1"].ID)
	t.wantState(c, tasks["2"].ID, dbq.StateError)
	t.wantState(c, tasks["3"].ID, dbq.StateCompleted)
	out = must(q.SettleMany(t.ctx, ss[3:]))
	for i, o := range out {
		t.wantErr(fmt.Sprintf("task %d, settled a second time", i+3), o.Err, dbq.ErrLeaseLost)
	}
}

func lockedComplete(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{Reference: "locked"}, long)
	tx := t.lockTasks("reference = 'locked'")
	done := make(chan error, 1)
	go func() { done <- q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)) }()
	waits := []time.Duration{50 * time.Millisecond, 3 * time.Second} // longer than any wait for a lock that dbq gives up
	t.concurrently(len(waits), func(ctx context.Context, i int) {
		ctx, cancel := context.WithTimeout(ctx, waits[i])
		defer cancel()
		err := q.Complete(ctx, task.Lease, nil)
		t.failIf(err == nil || errors.Is(err, dbq.ErrLeaseLost) || errors.Is(err, dbq.ErrLocked),
			"Complete with %v for a locked task: got error %v, want one that says that its time was over", waits[i], err)
	})
	t.wantState(c, task.ID, dbq.StateProcessing)
	t.wantWaits("Settle of a locked task", done)
	t.must(tx.Rollback())
	t.must(<-done)
	t.wantState(c, task.ID, dbq.StateError)
}

func lockedCalls(t *test) {
	const locked = 5 * time.Second // longer than two tries wait for a silent server
	own := t.open()
	t.rowLocks(own)
	pool := t.openPool()
	clients := []*dbq.Client{own, t.openOn(cmp.Or(pool.Caller, pool.Write), t.dialect())}
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
		must(q.EnqueueTx(t.ctx, opening, dbq.NewTask{Unique: pending("k")}))
		calls[fmt.Sprint("Enqueue ", i)] = func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, dbq.NewTask{Unique: pending("k")})
			return err
		}
	}
	locking := t.lockTasks("reference LIKE 'locked%'")
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

// lapsed records n earlier lapses of each task of a queue.
func (t *test) lapsed(c *dbq.Client, q *dbq.Queue, n int) {
	must(c.DB().ExecContext(t.ctx,
		fmt.Sprintf("UPDATE %stask SET lapses = %d WHERE queue = '%s'", t.Prefix, n, q.Name())))
}

func lapseUncounted(t *test) {
	c := t.open()
	q := access.ForWorker(c.Queue("q"), "w")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2})
	want := func(task dbq.Task, attempt, lapses int, was dbq.AttemptOutcome, wasAttempt int) {
		row := t.get(c, id)
		t.failIf(task.Attempt != attempt || row.Attempt != attempt || task.Lapses != lapses || row.Lapses != lapses,
			"checkout returned attempt %d after %d lapses, the row %d after %d; want %d after %d",
			task.Attempt, task.Lapses, row.Attempt, row.Lapses, attempt, lapses)
		if a := task.TakenOver; was != "" && (a == nil || a.Outcome != was || a.Number != wasAttempt || a.Worker != "w") {
			t.Errorf("the attempt before is %+v, want attempt %d of w, %s", a, wasAttempt, was)
		}
		t.awaitExpiry(c, id)
	}
	want(t.take(q, short), 1, 0, "", 0)
	want(t.takeOver(q, id, short), 1, 1, dbq.AttemptLapsed, 1)
	want(t.takeOver(q, id, short), 1, 2, dbq.AttemptLapsed, 1)
	t.lapsed(c, q, dialect.LapsesPerAttempt-2)
	want(t.takeOver(q, id, short), 1, dialect.LapsesPerAttempt-1, dbq.AttemptLapsed, 1)
	want(t.takeOver(q, id, short), 2, 0, dbq.AttemptCrashed, 1)
	want(t.takeOver(q, id, short), 2, 1, dbq.AttemptLapsed, 2)
	t.lapsed(c, q, dialect.LapsesPerAttempt-1)
	t.awaitExhausted(q, id)
	t.operate(c, admin.Reenqueue, id)
	want(t.take(q, short), 1, 0, "", 0)
}

func lapseStarted(t *test) {
	c := t.open()
	q := access.ForWorker(c.Queue("q"), "w")
	n := min(2*t.statements().Start.Max+1, 1200)
	leases := leasesOf(t.takeAll(q, n, time.Minute))
	t.must(q.Complete(t.ctx, leases[0], nil))
	leases[n/2].Fence++
	for range 2 { // marking twice is marking once
		marked, lost, err := access.MarkStarted(t.ctx, q, leases)
		t.must(err)
		if len(marked) != n-2 || len(lost) != 2 ||
			lost[0].TaskID != leases[0].TaskID || lost[1].TaskID != leases[n/2].TaskID {
			t.Fatalf("%d marked and %d lost, want %d and the 2 that are not held", len(marked), len(lost), n-2)
		}
	}
	other := access.ForWorker(c.Queue("other"), "w")
	id := t.enqueue(other, dbq.NewTask{MaxAttempts: 2})
	first := t.take(other, short)
	mark := func(l dbq.Lease) (lost int) {
		_, gone, err := access.MarkStarted(t.ctx, other, []dbq.Lease{l})
		t.must(err)
		return len(gone)
	}
	t.failIf(mark(first.Lease) != 0, "the lease was lost, though nobody had taken it")
	t.awaitExpiry(c, id)
	second := t.takeOver(other, id, short)
	t.failIf(second.Attempt != 2 || second.Lapses != 0 || second.TakenOver.Outcome != dbq.AttemptCrashed,
		"got attempt %d after %d lapses, want 2 after none", second.Attempt, second.Lapses)
	t.failIf(mark(first.Lease) != 1, "a lease that was taken over was marked")
	t.awaitExpiry(c, id)
	third := t.takeOver(other, id, short) // its lease was not marked, as the mark of the first is gone
	t.failIf(third.Attempt != 2 || third.Lapses != 1,
		"got attempt %d after %d lapses, want 2 after 1", third.Attempt, third.Lapses)
	t.failIf(mark(third.Lease) != 0, "the lease was lost, though nobody had taken it")
	t.awaitExpiry(c, id)
	t.awaitExhausted(other, id)
}
