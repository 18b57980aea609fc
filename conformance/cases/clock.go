package cases

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

func clockCases() []Case {
	return inGroup("Clock",
		Case{Name: "SkewedClientsAgree", run: clockSkewed,
			Law: "Clients whose clocks are an hour off take no future task, steal no lease, and create valid ids."},
		Case{Name: "TimesAreByTheDatabasesClock", Once: true, run: clockTimes,
			Law: "Created, due, updated and the lease's end are set by the database's clock."},
		Case{Name: "RowsOfAStatementHaveOneTime", Once: true, run: clockOneMoment,
			Law: "A statement stamps all its rows with the same time."},
	)
}

// skewed returns clients with wrong clocks, by the error of the clock.
func (t *test) skewed() map[string]*dbq.Client {
	off := func(d time.Duration) *dbq.Client {
		return t.open(access.WithClock(func() time.Time { return time.Now().Add(d) }))
	}
	return map[string]*dbq.Client{"an hour fast": off(time.Hour), "an hour slow": off(-time.Hour),
		"of 1980": t.open(access.WithClock(func() time.Time {
			return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
		}))}
}

func clockSkewed(t *test) {
	right := t.open()
	const queue = "q"
	soon := t.enqueue(right.Queue(queue), dbq.NewTask{Delay: 10 * time.Minute})
	held := t.takeNew(right.Queue(queue), dbq.NewTask{}, 10*time.Minute)
	for name, c := range t.skewed() {
		q := c.Queue(queue)
		t.wantNone("a client "+name, q)
		t.wantState(right, soon, dbq.StateCreated)
		must(q.Extend(t.ctx, held.Lease, 10*time.Minute))

		before := t.now(right)
		id := t.enqueue(q, dbq.NewTask{})
		delayed := t.enqueue(q, dbq.NewTask{Delay: 10 * time.Minute})
		after := t.now(right)
		t.failIf(id.Version() != 7 || id.Variant() != uuid.RFC4122 || id == delayed,
			"a client %s makes the id %s", name, id)
		if row := t.get(right, id); row.Created.Before(before) || row.Due.After(after) {
			t.Errorf("a client %s made a task created at %v and due at %v, want both between %v and %v", name, row.Created,
				row.Due, before, after)
		}
		task := t.take(right.Queue(queue), long) // at once, and not the delayed one
		t.failIf(task.ID != id, "got task %s, want %s", task.ID, id)
		t.wantNone("leased by the client whose clock is right", q)
		t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0))) // the lease is data: any client may use it
		task = t.take(q, long)
		t.wantNone("leased by a client "+name, right.Queue(queue))
		t.must(q.Complete(t.ctx, task.Lease, nil))
	}
	t.must(right.Queue(queue).Complete(t.ctx, held.Lease, nil))
}

func clockTimes(t *test) {
	c, q := t.openQueue()
	between := func(what string, got, from, to time.Time) {
		t.failIf(got.Before(from) || got.After(to),
			"%s is %v, want between %v and %v by the database's clock", what, got, from, to)
		t.failIf(got.Location() != time.UTC, "%s is in %v, want UTC", what, got.Location())
	}
	before := t.now(c)
	id := t.enqueue(q, dbq.NewTask{})
	delayed := t.enqueue(q, dbq.NewTask{Delay: long})
	after := t.now(c)
	row := t.get(c, id)
	between("created", row.Created, before, after)
	between("updated", row.Updated, before, after)
	between("due", row.Due, before, after)
	between("due of the delayed task", t.get(c, delayed).Due, before.Add(long), after.Add(long))

	before = t.now(c)
	task := t.take(q, long)
	after = t.now(c)
	between("the lease's end", task.LeaseUntil, before.Add(long), after.Add(long))
	between("updated at the checkout", task.Updated, before, after)

	before = t.now(c)
	must(q.Extend(t.ctx, task.Lease, 2*long))
	after = t.now(c)
	between("the extended lease's end", t.get(c, id).LeaseUntil, before.Add(2*long), after.Add(2*long))

	before = t.now(c)
	t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errBoom)))
	after = t.now(c)
	row = t.get(c, id)
	between("the retry's time", row.Due, before.Add(long), after.Add(long))
	between("updated at the failure", row.Updated, before, after)

	before = t.now(c)
	t.operate(c, admin.Reenqueue, id)
	after = t.now(c)
	between("due after the reenqueue", t.get(c, id).Due, before, after)
}

func clockOneMoment(t *test) {
	c, q := t.openQueue()
	t.enqueueMany(q, 50, nil)
	rows := t.list(c, admin.Filter{Queue: "q"})
	for _, row := range rows {
		t.failIf(!row.Created.Equal(rows[0].Created) || !row.Due.Equal(row.Created) || !row.Updated.Equal(row.Created),
			"one of 50 tasks was created at %v, due at %v, updated at %v, and the first one at %v", row.Created,
			row.Due, row.Updated, rows[0].Created)
	}
	tasks := t.checkout(q, 50, long)
	for _, task := range tasks {
		t.failIf(!task.LeaseUntil.Equal(tasks[0].LeaseUntil),
			"one of 50 leases ends at %v, and the first one at %v", task.LeaseUntil, tasks[0].LeaseUntil)
	}
}
