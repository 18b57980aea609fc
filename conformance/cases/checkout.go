package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func checkoutCases() []Case {
	return inGroup("Checkout",
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
		Case{Name: "FenceGrows", run: checkoutFence,
			Law: "A task's fence grows with every checkout, whatever happened in between, and never shrinks."},
		Case{Name: "FutureIsNotTaken", run: checkoutFuture,
			Law: "A task that is due later is not taken, whatever its priority."},
		Case{Name: "NewTokenEachTime", run: checkoutFreshMark,
			Law: "Two checkouts of one client never return the same task while its lease is valid."},
		Case{Name: "TwoClientsWithOneName", run: checkoutTwins,
			Law: "Two clients of one name are two holders: each takes over from the other, and their tokens differ."},
		Case{Name: "ExpiredUnderBacklogIsTaken", run: checkoutExpiredUnderBacklog,
			Law: "A task whose lease expired is taken over, even behind a backlog of due tasks."},
		Case{Name: "DeadWorkersTasksAreNotDelayed", run: checkoutManyExpired,
			Law: "A dead worker's many tasks are taken over as fast as checkouts come, even behind a backlog of due tasks."},
		Case{Name: "ExpiredAndReadyTogether", run: checkoutBoth,
			Law: "One checkout takes both tasks whose lease expired and tasks that are due, each once."},
		Case{Name: "LockedRowsAreSkipped", run: checkoutPassesLocked,
			Law: "A task whose row is locked by another transaction does not keep other tasks from being checked out."},
		Case{Name: "BytesAreBounded", Slow: true, run: checkoutBytes,
			Law: "A checkout returns at most WithMaxCheckoutBytes of payload, in order, and reports that it left tasks " +
				"behind; a task larger than that is returned alone."},
		Case{Name: "BytesAreBoundedInTakeover", run: checkoutBytesOfExpired,
			Law: "A takeover returns at most WithMaxCheckoutBytes of payload; repeated checkouts take over every task."},
		Case{Name: "TaskLargerThanMaxPayload", run: checkoutLargerThanEnqueued,
			Law: "A task larger than the client's own WithMaxPayload is checked out whole and blocks no other task."},
	)
}

func checkoutOnce(t *test) {
	c, q := t.openQueue()
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
				t.Fatalf("the checkout returned attempt %d and fence %d, the row %d and %d", task.Attempt, task.Fence, row.Attempt,
					row.Fence)
			}
		}
	}
}

func checkoutFence(t *test) {
	c, q := t.openQueue()
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
	q := t.open().Queue("q")
	t.enqueueMany(q, 20, func(i int, nt *dbq.NewTask) { nt.Delay, nt.Priority = long, i%10 })
	t.settleNew(q, dbq.NewTask{}, dbq.RetryIn(long, errBoom))
	t.settleNew(q, dbq.NewTask{}, dbq.Released(long))
	t.wantNone("tasks due in an hour", q)
	id := t.enqueue(q, dbq.NewTask{Priority: 9})
	if task := t.take(q, long); task.ID != id {
		t.Errorf("got task %s, want the one that is due, %s", task.ID, id)
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
	t.failIf(len(seen) != 120, "60 checkouts of 2 returned %d tasks, want 120", len(seen))
}

func checkoutTwins(t *test) {
	// Both make their first checkout, so that they differ in nothing but the client.
	a, b := t.open(dbq.WithName("one name for both")), t.open(dbq.WithName("one name for both"))
	if a, b := a.Info(), b.Info(); a.ID == b.ID || a.Name != b.Name {
		t.Errorf("two clients called %q and %q have the ids %q and %q, want different ones", a.Name, b.Name, a.ID, b.ID)
	}
	id := t.enqueue(a.Queue("q"), dbq.NewTask{})
	dead := t.abandon(a.Queue("q"))
	task := t.take(b.Queue("q"), long) // nothing else is there, so the first checkout looks for expired leases
	t.failIf(task.ID != id || task.Fence <= dead.Fence || task.Holder == dead.Holder,
		"after %s, held as %q, the other client got %s as %q", show(dead), dead.Holder, show(task), task.Holder)
}

func checkoutExpiredUnderBacklog(t *test) {
	q := t.open().Queue("q")
	id := t.enqueue(q, dbq.NewTask{Priority: 9})
	t.abandon(q)
	t.enqueueMany(q, 50, nil) // better priorities, and never fewer than a checkout requests
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
	q := t.open().Queue("q")
	t.enqueueMany(q, dead, nil)
	abandoned := idsOf(t.abandonN(q, dead))
	t.enqueueMany(q, 3*dead, nil)
	first := t.open().Queue("q") // it has not looked yet
	for k := range dead / batch {
		for _, task := range t.checkout(first, batch, long) {
			i := slices.Index(abandoned, task.ID)
			if i < 0 {
				t.Fatalf("checkout %d of %d returned a due task, want none before all %d are taken over", k+1, batch, dead)
			}
			abandoned = slices.Delete(abandoned, i, i+1)
		}
	}
	t.failIf(len(abandoned) > 0, "%d of %d tasks are left after as many checkouts as they needed", len(abandoned), dead)
}

func checkoutBoth(t *test) {
	q := t.open().Queue("q")
	want := t.enqueueMany(q, 3, nil)
	t.abandonN(q, 3)
	want = append(want, t.enqueueMany(q, 5, nil)...)
	t.wantSameIDs("checked out", idsOf(t.takeN(q, 8, long)), want)
}

// shuffledDue enqueues n tasks in random order, each overdue by another number of minutes, and returns their ids with
// the oldest first.
func (t *test) shuffledDue(q *dbq.Queue, n int, edit func(i int, nt *dbq.NewTask)) []uuid.UUID {
	now := t.now(q.Client())
	order := t.rand.Perm(n)
	ids := t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) {
		nt.RunAt = now.Add(-time.Duration(n-order[i]) * time.Minute)
		if edit != nil {
			edit(order[i], nt)
		}
	})
	oldest := make([]uuid.UUID, n)
	for i, id := range ids {
		oldest[order[i]] = id
	}
	return oldest
}

func checkoutOldest(t *test) {
	q := t.open().Queue("q")
	want := t.shuffledDue(q, 30, nil)
	t.wantIDs("the first checkout", t.checkout(q, 10, long), want[:10])
	t.wantIDs("the second checkout", t.checkout(q, 100, long), want[10:])

	large := t.open().Queue("large") // a client may remember where a large checkout ended, but not for its own tasks
	const batch = 120
	later := t.enqueueMany(large, 2*batch, nil)
	t.wantIDs("a large checkout", t.checkout(large, batch, long), later[:batch])
	late := t.shuffledDue(large, 1, func(_ int, nt *dbq.NewTask) { nt.RunAt = nt.RunAt.Add(-time.Hour) })
	t.wantIDs("another, after a task was enqueued that has been due longer", t.checkout(large, batch, long),
		append(late, later[batch:2*batch-1]...))
}

func checkoutPriority(t *test) {
	q := t.open().Queue("q")
	ids := t.shuffledDue(q, 4, func(i int, nt *dbq.NewTask) { nt.Priority = []int{9, 5, 5, 0}[i] })
	want := []uuid.UUID{ids[3], ids[1], ids[2], ids[0]}
	t.wantIDs("checkout of 2", t.checkout(q, 2, long), want[:2])
	t.wantIDs("checkout of the rest", t.checkout(q, 10, long), want[2:])
}

func checkoutManyPriorities(t *test) {
	c, q := t.openQueue()
	const each = 7
	t.enqueueMany(q, 100, func(i int, nt *dbq.NewTask) { nt.Priority, nt.Delay = i%10, long })
	t.shuffledDue(q, 10*each, func(i int, nt *dbq.NewTask) { nt.Priority = (i * 7) % 10 })
	due := slices.DeleteFunc(t.list(c, admin.Filter{Queue: "q"}),
		func(task dbq.Task) bool { return task.Due.After(t.now(c)) })
	slices.SortFunc(due, compareTasks)
	var got []dbq.Task
	for n := 1; len(got) < len(due); n++ { // 1, 2, 3, ...: within a priority and over several
		tasks := t.checkout(q, n, long)
		if want := min(n, len(due)-len(got)); len(tasks) != want {
			t.Fatalf("checkout of %d returned %d tasks with %d due, want %d", n, len(tasks), len(due)-len(got), want)
		}
		got = append(got, tasks...)
	}
	t.wantIDs("all checkouts", got, idsOf(due))
	t.wantNone("only future tasks are left", q)
}

func checkoutAtMost(t *test) {
	c, q := t.openQueue()
	want := t.enqueueMany(q, 10, nil)
	var got []dbq.Task
	for _, n := range []int{3, 3, 3, 1} {
		tasks := t.checkout(q, 3, long)
		t.failIf(len(tasks) != n, "checkout of 3 returned %d tasks, want %d", len(tasks), n)
		got = append(got, tasks...)
		if left := t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateCreated}}); len(left) != 10-len(got) {
			t.Errorf("%d tasks are still CREATED after %d were returned, want %d", len(left), len(got), 10-len(got))
		}
	}
	t.wantIDs("all checkouts", got, want)
}

func checkoutComplete(t *test) {
	q := t.open().Queue("q")
	for round := range 10 {
		n := 1 + t.rand.IntN(30)
		t.enqueueMany(q, n, func(_ int, nt *dbq.NewTask) { nt.Priority = t.rand.IntN(10) })
		for limit := 1 + t.rand.IntN(15); n > 0; n -= limit {
			tasks := t.checkout(q, limit, long)
			if want := min(n, limit); len(tasks) != want {
				t.Fatalf("round %d: checkout of %d returned %d tasks while %d were due, want %d", round, limit, len(tasks), n, want)
			}
		}
	}
}

func checkoutLarge(t *test) {
	q := t.open().Queue("q")
	n := 1000
	for _, b := range t.statements().Private {
		n = max(n, min(2*b.Max+1, 4000))
	}
	want := t.enqueueMany(q, n, nil)
	t.wantIDs("one checkout", t.checkout(q, dbq.MaxCheckout, long), want)
}

func checkoutPassesLocked(t *test) {
	const locked = 5
	q := t.open().Queue("q")
	t.enqueue(q, dbq.NewTask{Reference: "locked"})
	t.abandon(q)
	t.enqueueMany(q, locked-1, func(i int, nt *dbq.NewTask) { nt.Reference = fmt.Sprint("locked, due ", i) })
	free := t.enqueueMany(q, 5, nil)
	tx := t.lockTasks("reference LIKE 'locked%'")

	// The client is new, so that it looks for expired leases first. A server gives up waiting for a lock much later.
	q = t.open().Queue("q")
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience/2)
	defer cancel()
	got := map[string]int{}
	take := func(n int) error {
		tasks, err := q.Checkout(ctx, n, long)
		for _, task := range tasks {
			got[task.ID.String()]++
		}
		return err
	}
	for range free { // not even the first one waits, or finds nothing
		t.must(take(1))
	}
	for _, id := range free {
		t.failIf(got[id.String()] != 1,
			"task %s, which no transaction had locked, was handed out %d times, want once", id, got[id.String()])
	}
	t.must(tx.Rollback())
	t.eventually("the others are handed out when they are not locked any more", func() bool {
		t.must(take(10))
		return len(got) == len(free)+locked
	})
}

// Payloads of the laws about bytes. No engine keeps one of usual beside the other columns of a row.
const (
	usualPayload  = 20 << 10
	boundOfBytes  = 10*usualPayload + usualPayload/2
	hugePayload   = 2 * boundOfBytes
	littlePayload = 10
)

// sizedTasks enqueues tasks with payloads of these sizes, the first due longest, and returns their ids in that order.
func (t *test) sizedTasks(q *dbq.Queue, sizes []int, edit func(i int, nt *dbq.NewTask)) []uuid.UUID {
	return t.shuffledDue(q, len(sizes), func(i int, nt *dbq.NewTask) {
		nt.Payload = bytes.Repeat([]byte{byte(i)}, sizes[i])
		if edit != nil {
			edit(i, nt)
		}
	})
}

// checkoutWithinBytes checks out up to n tasks, and wants their payloads whole and within the client's bound.
func (t *test) checkoutWithinBytes(q *dbq.Queue, n int, lease time.Duration,
	size func(id uuid.UUID) int) (out access.CheckoutResult) {
	out = must(access.Checkout(t.ctx, q, n, lease))
	total, most := 0, q.Client().Info().MaxCheckoutBytes
	for _, task := range out.Tasks {
		total += len(task.Payload)
		if got, want := len(task.Payload), size(task.ID); got != want {
			t.Fatalf("task %s came with %d bytes of payload, want %d", task.ID, got, want)
		}
		if len(task.Payload) > most && len(out.Tasks) > 1 {
			t.Fatalf("a task of %d bytes came among %d, want it alone", len(task.Payload), len(out.Tasks))
		}
	}
	if total > most && len(out.Tasks) > 1 || len(out.Tasks) > n {
		t.Fatalf("a checkout of %d brought %d tasks with %d bytes of payload, want at most %d", n, len(out.Tasks), total,
			most)
	}
	return out
}

func checkoutBytes(t *test) {
	bound := dbq.WithMaxCheckoutBytes(boundOfBytes)
	usual := slices.Repeat([]int{usualPayload}, 50)
	huge := slices.Clone(usual)
	huge[7], huge[23], huge[24] = hugePayload, hugePayload, hugePayload
	for name, sizes := range map[string][]int{
		"usual":      usual,
		"huge":       huge,
		"huge first": slices.Concat([]int{hugePayload}, usual),
		"mixed": slices.Concat(slices.Repeat([]int{littlePayload}, 30), usual[:30],
			slices.Repeat([]int{littlePayload}, 30), huge[:10]),
	} {
		for _, n := range []int{10, 100, 1000} { // all that is remembered of a queue is its client's: of this one
			q := t.open(bound).Queue(name)
			ids := t.sizedTasks(q, sizes, func(i int, nt *dbq.NewTask) { nt.Priority = i / 40 })
			size := func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] }
			var got []dbq.Task
			for len(got) < len(ids) {
				out := t.checkoutWithinBytes(q, n, long, size)
				got = append(got, out.Tasks...)
				if len(out.Tasks) == 0 {
					t.Fatalf("%s: a checkout of %d brought nothing after %d of %d tasks", name, n, len(got), len(ids))
				}
				if left := len(got) < len(ids); left && len(out.Tasks) < n && !out.More {
					t.Errorf("%s: a checkout of %d brought %d tasks and left some, and does not report it", name, n, len(out.Tasks))
				}
			}
			t.wantIDs(name+": all checkouts", got, ids)
			if out := t.checkoutWithinBytes(q, n, long, size); len(out.Tasks) > 0 || out.More {
				t.Errorf("%s: after all, a checkout brought %d tasks, more %v", name, len(out.Tasks), out.More)
			}
		}
	}
}

func checkoutBytesOfExpired(t *test) {
	c, q := t.openQueue(dbq.WithMaxCheckoutBytes(boundOfBytes))
	sizes := slices.Repeat([]int{usualPayload}, 25)
	sizes[3] = hugePayload
	// Takeovers may come with due tasks, and some attempts are exhausted.
	ids := t.sizedTasks(q, sizes, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i%4 })
	size := func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] }
	t.abandonN(t.open().Queue("q"), 20)
	seen := map[uuid.UUID]bool{}
	for rounds := 0; len(seen) < len(ids); rounds++ {
		if rounds > 2*len(ids) {
			t.Fatalf("after %d checkouts %d of %d tasks came", rounds, len(seen), len(ids))
		}
		out := t.checkoutWithinBytes(q, 100, long, size)
		spent := 0
		for _, task := range out.Exhausted {
			spent += size(task.ID)
		}
		if most := c.Info().MaxCheckoutBytes; spent > most && len(out.Exhausted) > 1 {
			t.Errorf("a checkout returned %d exhausted tasks with %d bytes of payload, want at most %d", len(out.Exhausted),
				spent, most)
		}
		for _, task := range append(out.Tasks, out.Exhausted...) {
			t.failIf(seen[task.ID], "task %s came twice", task.ID)
			seen[task.ID] = true
		}
	}
}

func checkoutLargerThanEnqueued(t *test) {
	q := t.open(dbq.WithMaxPayload(littlePayload), dbq.WithMaxCheckoutBytes(1000)).Queue("q")
	sizes := []int{littlePayload, usualPayload, littlePayload, usualPayload, usualPayload, littlePayload}
	ids := t.sizedTasks(t.open().Queue("q"), sizes, nil)
	var got []dbq.Task
	for range sizes {
		out := t.checkoutWithinBytes(q, 100, long, func(id uuid.UUID) int { return sizes[slices.Index(ids, id)] })
		got = append(got, out.Tasks...)
	}
	t.wantIDs("one large task at a time", got, ids)
}
