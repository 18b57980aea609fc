package cases

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func checkoutCases() []Case {
	return inGroup("Checkout",
		Case{Name: "EmptyIsNotAnError", run: checkoutEmpty,
			Law: "If nothing is due, a checkout returns no tasks and no error."},
		Case{Name: "OldestDueFirst", run: checkoutOldest,
			Law: "Within a priority, the tasks that have been due longest are checked out first."},
		Case{Name: "PriorityFirst", run: checkoutPriority,
			Law: "A due task of a better priority is checked out before all others, however long those have been due."},
		Case{Name: "ManyPriorities", run: checkoutManyPriorities,
			Law: "Checkouts take all ten priorities in order, across their boundaries, and skip tasks that are not due yet."},
		Case{Name: "AtMostN", run: checkoutAtMost,
			Law: "A checkout of n takes at most n tasks and leaves the others unchanged."},
		Case{Name: "TakesAllUpToItsLimit", run: checkoutComplete,
			Law: "Without competition, a checkout takes everything that is due, up to its limit."},
		Case{Name: "LargeCheckout", run: checkoutLarge,
			Law: "A checkout that exceeds the limits of one statement takes every task once and in order."},
		Case{Name: "EachTaskOnceInACheckout", run: checkoutOnce,
			Law: "A checkout never returns a task twice, even when the lease ends before the checkout does."},
		Case{Name: "OtherQueueUntouched", run: checkoutOtherQueue,
			Law: "A checkout of one queue takes nothing from another."},
		Case{Name: "CountsAttempt", run: checkoutCounts,
			Law: "Each checkout of a task counts one attempt."},
		Case{Name: "FenceGrows", run: checkoutFence,
			Law: "A task's fence grows with every checkout, whatever happened in between, and never shrinks."},
		Case{Name: "FutureIsNotTaken", run: checkoutFuture,
			Law: "A task that is due later is not taken, whatever its priority."},
		Case{Name: "FinishedAreNotTaken", run: checkoutFinished,
			Law: "Completed, poisoned and parked tasks are never taken."},
		Case{Name: "NewTokenEachTime", run: checkoutFreshMark,
			Law: "Two checkouts of one client never return the same task while its lease is valid."},
		Case{Name: "TwoClientsWithOneName", run: checkoutTwins,
			Law: "Two clients of the same name are two holders: each takes over what the other abandoned, and their " +
				"checkouts have different tokens."},
		Case{Name: "ExpiredUnderBacklogIsTaken", run: checkoutExpiredUnderBacklog,
			Law: "A task whose lease expired is taken over, even behind a backlog of due tasks."},
		Case{Name: "DeadWorkersTasksAreNotDelayed", run: checkoutManyExpired,
			Law: "The many tasks of a dead worker are taken over as fast as checkouts come, even behind a backlog of due " +
				"tasks."},
		Case{Name: "ExpiredAndReadyTogether", run: checkoutBoth,
			Law: "One checkout takes both tasks whose lease expired and tasks that are due, each once."},
		Case{Name: "LockedRowsAreSkipped", run: checkoutPassesLocked,
			Law: "A task whose row is locked by another transaction does not keep other tasks from being checked out."},
		Case{Name: "CancelledContext", run: checkoutCancelled,
			Law: "A checkout whose context has ended leases nothing and returns the context's error."},
		Case{Name: "CancelledInTheMiddle", run: checkoutCancelledMiddle,
			Law: "A checkout whose context ends while it runs returns the tasks it leased, or leases none, or reports that " +
				"it may have leased some."},
	)
}

func checkoutEmpty(t *test) {
	q := t.open().Queue("q")
	for range 3 {
		tasks, err := q.Checkout(t.ctx, 10, long)
		if len(tasks) != 0 || err != nil {
			t.Errorf("got %d tasks and error %v, want nothing", len(tasks), err)
		}
	}
}

func checkoutOnce(t *test) {
	c := t.open()
	q := c.Queue("q")
	for range 3 { // the first of a client looks for expired leases first of all, the others at last
		t.enqueueMany(q, 1500, nil)
		tasks := t.checkout(q, dbq.MaxCheckout, short)
		seen := map[uuid.UUID]bool{}
		for _, task := range tasks {
			if seen[task.ID] {
				t.Fatalf("one checkout returned task %s twice", task.ID)
			}
			seen[task.ID] = true
		}
		for _, task := range tasks[:10] {
			if row := t.get(c, task.ID); row.Attempt != task.Attempt || row.Fence != task.Fence {
				t.Fatalf("the checkout says attempt %d and fence %d, the row %d and %d", task.Attempt, task.Fence, row.Attempt,
					row.Fence)
			}
		}
	}
}

func checkoutOtherQueue(t *test) {
	c := t.open()
	id := t.enqueue(c.Queue("mail"), dbq.NewTask{})
	before := t.get(c, id)
	for _, name := range []string{"Mail", "mai", "mail2", "mail ", "other"} {
		t.wantNone("queue "+name, c.Queue(name))
	}
	t.wantUnchanged("a checkout of another queue", c, before)
	if task := t.take(c.Queue("mail"), long); task.ID != id {
		t.Errorf("got task %s, want %s", task.ID, id)
	}
}

func checkoutCounts(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	for attempt := 1; attempt <= 4; attempt++ {
		task := t.take(q, long)
		if row := t.get(c, id); task.Attempt != attempt || row.Attempt != attempt {
			t.Errorf("checkout says attempt %d and the row %d, want %d", task.Attempt, row.Attempt, attempt)
		}
		t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom)))
	}
}

func checkoutFence(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 100})
	last := int64(0)
	operate := func(e state.Event) error { return admin.New(c).Operate(t.ctx, e, id) }
	for i, between := range []func(l dbq.Lease) error{
		func(l dbq.Lease) error { return q.Settle(t.ctx, l, dbq.RetryIn(0, errBoom)) },
		func(l dbq.Lease) error { return q.Settle(t.ctx, l, dbq.Released(0)) },
		func(l dbq.Lease) error {
			return errors.Join(q.Settle(t.ctx, l, dbq.Parked(errBoom)), operate(admin.Reenqueue))
		},
		func(l dbq.Lease) error {
			return errors.Join(operate(admin.Revoke), operate(admin.Reenqueue))
		},
		func(l dbq.Lease) error {
			return errors.Join(q.Settle(t.ctx, l, dbq.Poisoned(errBoom)), operate(admin.Restore), operate(admin.Reenqueue))
		},
		func(l dbq.Lease) error {
			_, err := q.Extend(t.ctx, l, short)
			t.awaitExpiry(c, id)
			return err
		},
		func(l dbq.Lease) error { return nil },
	} {
		task := t.takeOver(q, id, long)
		if row := t.get(c, id); task.Fence <= last || task.Lease.Fence != task.Fence || row.Fence != task.Fence {
			t.Errorf("checkout %d: fence %d, in the lease %d, in the row %d; want one above %d in all", i, task.Fence,
				task.Lease.Fence, row.Fence, last)
		}
		last = task.Fence
		t.must(between(task.Lease))
		if row := t.get(c, id); row.Fence < last {
			t.Errorf("the fence went back from %d to %d after checkout %d", last, row.Fence, i)
		}
	}
}

func checkoutFuture(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueueMany(q, 20, func(i int, nt *dbq.NewTask) { nt.Delay, nt.Priority = long, i%10 })
	failed := t.takeNew(q, dbq.NewTask{}, long)
	t.must(q.Settle(t.ctx, failed.Lease, dbq.RetryIn(long, errBoom)))
	released := t.takeNew(q, dbq.NewTask{}, long)
	t.must(q.Settle(t.ctx, released.Lease, dbq.Released(long)))
	t.wantNone("tasks due in an hour", q)
	id := t.enqueue(q, dbq.NewTask{Priority: 9})
	if task := t.take(q, long); task.ID != id {
		t.Errorf("got task %s, want the one that is due, %s", task.ID, id)
	}
}

func checkoutFinished(t *test) {
	c := t.open()
	q := c.Queue("q")
	for _, s := range situations() {
		if s.name == "COMPLETED" || s.name == "POISON" || s.name == "ERROR-parked" {
			s.reach(t, q, dbq.NewTask{})
		}
	}
	t.must(admin.New(c).Operate(t.ctx, admin.Reject, t.enqueue(q, dbq.NewTask{})))
	t.must(admin.New(c).Operate(t.ctx, admin.Revoke, t.takeNew(q, dbq.NewTask{}, long).ID))
	for range 2 {
		t.wantNone("only finished and parked tasks are there", t.open().Queue("q"))
	}
	if n := t.count(c, "q"); n != 5 {
		t.Errorf("%d tasks are there, want 5", n)
	}
}

func checkoutFreshMark(t *test) {
	q := t.open(dbq.WithName("one name for all")).Queue("q")
	sameName := t.open(dbq.WithName("one name for all")).Queue("q") // a program may well use a name twice
	t.enqueueMany(q, 120, nil)
	seen := map[uuid.UUID]bool{}
	for i := range 60 {
		for _, task := range t.checkout([]*dbq.Queue{q, sameName}[i%2], 2, long) {
			if seen[task.ID] {
				t.Fatalf("checkout %d returned task %s again while its lease lasts", i, task.ID)
			}
			seen[task.ID] = true
		}
	}
	if len(seen) != 120 {
		t.Errorf("60 checkouts of 2 returned %d tasks, want 120", len(seen))
	}
}

func checkoutTwins(t *test) {
	// Both make their first checkout, so that nothing but the clients themselves tells the two apart.
	a, b := t.open(dbq.WithName("one name for both")), t.open(dbq.WithName("one name for both"))
	if a, b := a.Info(), b.Info(); a.ID == b.ID || a.Name != b.Name {
		t.Errorf("two clients called %q and %q have the ids %q and %q, want different ones", a.Name, b.Name, a.ID, b.ID)
	}
	id := t.enqueue(a.Queue("q"), dbq.NewTask{})
	dead := t.abandon(a.Queue("q"))
	task := t.take(b.Queue("q"), long) // nothing else is there, so the first checkout looks for expired leases
	if task.ID != id || task.Fence <= dead.Fence || task.Holder == dead.Holder {
		t.Errorf("after %s, held as %q, the other client got %s as %q", show(dead), dead.Holder, show(task), task.Holder)
	}
}

func checkoutExpiredUnderBacklog(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{Priority: 9})
	t.abandon(q)
	t.enqueueMany(q, 50, nil) // better priorities, and never fewer than a checkout asks for
	start := time.Now()
	t.eventually("the task whose lease expired is taken over", func() bool {
		tasks := t.checkout(q, 1, long)
		if len(tasks) == 0 {
			t.Fatalf("a checkout found nothing in a queue with 50 due tasks")
		}
		if tasks[0].ID == id {
			return true
		}
		t.must(q.Settle(t.ctx, tasks[0].Lease, dbq.Released(0)))
		return false
	})
	t.Logf("taken over under a backlog after %v", time.Since(start))
}

func checkoutManyExpired(t *test) {
	const dead, batch = 120, 10
	c := t.open()
	q := c.Queue("q")
	t.enqueueMany(q, dead, nil)
	abandoned := map[uuid.UUID]bool{}
	for _, task := range t.checkout(q, dead, short) {
		abandoned[task.ID] = true
	}
	for id := range abandoned {
		t.awaitExpiry(c, id)
	}
	t.enqueueMany(q, 3*dead, nil)
	first := t.open().Queue("q") // it has not looked yet
	for k := range dead / batch {
		for _, task := range t.checkout(first, batch, long) {
			if !abandoned[task.ID] {
				t.Fatalf("checkout %d of %d returned a due task, want none before all %d are taken over", k+1, batch, dead)
			}
			delete(abandoned, task.ID)
		}
	}
	if len(abandoned) > 0 {
		t.Errorf("%d of %d tasks are left after as many checkouts as they needed", len(abandoned), dead)
	}
}

func checkoutBoth(t *test) {
	c := t.open()
	q := c.Queue("q")
	want := t.enqueueMany(q, 3, nil)
	t.checkout(q, 3, short)
	for _, id := range want {
		t.awaitExpiry(c, id)
	}
	want = append(want, t.enqueueMany(q, 5, nil)...)
	var got []dbq.Task
	t.eventually("all eight tasks are taken", func() bool {
		got = append(got, t.checkout(q, 10, long)...)
		return len(got) >= 8
	})
	if ids := sortedIDs(idsOf(got)); !slices.Equal(ids, sortedIDs(want)) {
		t.Errorf("got the %d tasks %v, want each of %v once", len(ids), ids, want)
	}
}

func checkoutCancelled(t *test) {
	c := t.open()
	q := c.Queue("q")
	before := t.get(c, t.enqueue(q, dbq.NewTask{}))
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	tasks, err := q.Checkout(ctx, 1, long)
	if len(tasks) > 0 {
		t.Errorf("got %d tasks, want none", len(tasks))
	}
	t.wantErr("checkout with a context that has ended", err, context.Canceled)
	t.wantUnchanged("the cancelled checkout", c, before)
}

func checkoutCancelledMiddle(t *test) {
	c := t.open()
	q := c.Queue("q")
	const n = 300
	t.enqueueMany(q, n, nil)
	var mu sync.Mutex
	got := map[uuid.UUID]bool{}
	maybe := 0
	var all sync.WaitGroup
	for range 3 {
		pauses := make([]time.Duration, 40)
		for i := range pauses {
			pauses[i] = time.Duration(t.rand.IntN(3000)) * time.Microsecond
		}
		all.Go(func() {
			for _, pause := range pauses {
				ctx, cancel := context.WithTimeout(t.ctx, pause)
				tasks, err := q.Checkout(ctx, 2, long)
				cancel()
				mu.Lock()
				for _, task := range tasks {
					got[task.ID] = true
				}
				switch {
				case errors.Is(err, dbq.ErrMayHaveHappened):
					maybe += 2
				case err != nil && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("a checkout cut off after %v: %v", pause, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	leased := t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateProcessing}})
	lost := 0
	for _, task := range leased {
		if !got[task.ID] {
			lost++
		}
	}
	t.Logf("%d tasks were leased, %d returned, at most %d may have been", len(leased), len(got), maybe)
	if lost > maybe {
		t.Errorf("%d tasks are leased that no checkout returned, and only %d may have been, want none", lost, maybe)
	}
	if len(leased)-lost != len(got) {
		t.Errorf("%d tasks were returned, but only %d of them are leased", len(got), len(leased)-lost)
	}
}
