package cases

import (
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

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
	c := t.open()
	q := c.Queue("q")
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
	c := t.open()
	q := c.Queue("q")
	want := t.enqueueMany(q, 10, nil)
	var got []dbq.Task
	for _, n := range []int{3, 3, 3, 1} {
		tasks := t.checkout(q, 3, long)
		if len(tasks) != n {
			t.Errorf("checkout of 3 returned %d tasks, want %d", len(tasks), n)
		}
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
	for _, b := range t.statements().Own {
		n = max(n, min(2*b.Max+1, 4000))
	}
	want := t.enqueueMany(q, n, nil)
	t.wantIDs("one checkout", t.checkout(q, dbq.MaxCheckout, long), want)
}
