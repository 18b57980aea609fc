package cases

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// The steps that most cases are made of. Those that cannot go wrong on a sound engine end the case when they do.

const (
	// long is a lease or a delay that does not end during a case, however slow the machine.
	long = time.Hour
	// short is a lease that expires at once; see awaitExpiry.
	short = time.Millisecond
	// defaultPatience is that of an Env without one, and of worker processes.
	defaultPatience = 40 * time.Second
)

// inGroup puts cases into a group.
func inGroup(name string, cases ...Case) []Case {
	for i := range cases {
		cases[i].Group = name
	}
	return cases
}

// eventually polls until ok returns true. Without fixed delays, a slow machine only takes longer.
func (t *test) eventually(what string, ok func() bool) {
	end := time.Now().Add(t.Patience)
	for pause := time.Millisecond; ; pause = min(pause*2, 50*time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) || t.ctx.Err() != nil {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(pause)
	}
}

// now returns the database's time.
func (t *test) now(c *dbq.Client) time.Time {
	now, err := c.Now(t.ctx)
	t.must(err)
	return now
}

// enqueue adds a task.
func (t *test) enqueue(q *dbq.Queue, nt dbq.NewTask) uuid.UUID {
	id, err := q.Enqueue(t.ctx, nt)
	if err != nil {
		t.Fatalf("enqueue %+v: %v", nt, err)
	}
	return id
}

// enqueueMany adds n tasks, each prepared by edit unless that is nil, and returns their ids in order.
func (t *test) enqueueMany(q *dbq.Queue, n int, edit func(i int, nt *dbq.NewTask)) []uuid.UUID {
	ts := make([]dbq.NewTask, n)
	for i := range ts {
		if edit != nil {
			edit(i, &ts[i])
		}
	}
	out, err := q.EnqueueMany(t.ctx, ts)
	t.must(err)
	ids := make([]uuid.UUID, n)
	for i, o := range out {
		if o.Duplicate {
			t.Fatalf("task %d of %d is a duplicate of %s, want a new one", i, n, o.ID)
		}
		ids[i] = o.ID
	}
	return ids
}

// checkout checks out up to n tasks.
func (t *test) checkout(q *dbq.Queue, n int, lease time.Duration) []dbq.Task {
	tasks, err := q.Checkout(t.ctx, n, lease)
	if err != nil {
		t.Fatalf("checkout of %d: %v", n, err)
	}
	if len(tasks) > n {
		t.Fatalf("checkout of %d returned %d tasks", n, len(tasks))
	}
	return tasks
}

// take checks out exactly one task, the only one due.
func (t *test) take(q *dbq.Queue, lease time.Duration) dbq.Task {
	tasks := t.checkout(q, 10, lease)
	if len(tasks) != 1 {
		t.Fatalf("checkout returned %d tasks, want the 1 that is due", len(tasks))
	}
	return tasks[0]
}

// takeNew enqueues a task and takes it.
func (t *test) takeNew(q *dbq.Queue, nt dbq.NewTask, lease time.Duration) dbq.Task {
	id := t.enqueue(q, nt)
	task := t.take(q, lease)
	if task.ID != id {
		t.Fatalf("checkout returned task %s, want %s", task.ID, id)
	}
	return task
}

// takeOver takes a task whose lease has expired. It may need several checkouts: not each one looks for such tasks.
func (t *test) takeOver(q *dbq.Queue, id uuid.UUID, lease time.Duration) dbq.Task {
	var task dbq.Task
	t.eventually("a checkout takes over the task whose lease expired", func() bool {
		for _, got := range t.checkout(q, 10, lease) {
			if got.ID == id {
				task = got
			} else {
				t.Fatalf("checkout returned task %s, want %s", got.ID, id)
			}
		}
		return task.ID == id
	})
	return task
}

// awaitExpiry waits until the database's clock has passed the lease's end.
func (t *test) awaitExpiry(c *dbq.Client, id uuid.UUID) {
	until := t.get(c, id).LeaseUntil
	if until.IsZero() {
		t.Fatalf("task %s has no lease that could expire", id)
	}
	t.eventually("the lease expires", func() bool { return t.now(c).After(until) })
}

// expireLeases ends the leases of a queue, whose holders are gone, instead of waiting for their ends.
func (t *test) expireLeases(q *dbq.Queue) {
	var leases []dbq.Lease
	for _, task := range t.list(q.Client(), admin.Filter{Queue: q.Name(), States: []dbq.State{dbq.StateProcessing}}) {
		leases = append(leases, dbq.Lease{Task: task.ID, Queue: q.Name(), Fence: task.Fence})
	}
	_, _, err := q.ExtendMany(t.ctx, leases, short)
	t.must(err)
}

// abandon takes the only due task and lets its lease expire, like a worker that crashes.
func (t *test) abandon(q *dbq.Queue) dbq.Task {
	task := t.take(q, short)
	t.awaitExpiry(q.Client(), task.ID)
	return task
}

// get reads a task that must exist.
func (t *test) get(c *dbq.Client, id uuid.UUID) dbq.Task {
	task, err := c.Get(t.ctx, id)
	t.must(err)
	return task
}

// wantState records a failure unless the task is in a state, and returns the task.
func (t *test) wantState(c *dbq.Client, id uuid.UUID, want dbq.State) dbq.Task {
	task := t.get(c, id)
	if task.State != want {
		t.Errorf("the task is %v, want %v", task.State, want)
	}
	return task
}

// wantUnchanged records a failure unless the whole row is as before.
func (t *test) wantUnchanged(what string, c *dbq.Client, before dbq.Task) {
	before.Lease, before.Waited = dbq.Lease{}, 0 // Get does not fill them
	if after := t.get(c, before.ID); !reflect.DeepEqual(after, before) {
		t.Errorf("%s changed the row:\nbefore %s\nafter  %s", what, show(before), show(after))
	}
}

// wantGone records a failure if a task has the id.
func (t *test) wantGone(c *dbq.Client, id uuid.UUID) {
	if task, err := c.Get(t.ctx, id); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("get of a task that should be gone: got %v and error %v, want %v", task.State, err, dbq.ErrNotFound)
	}
}

// wantNone records a failure for each task that a checkout returns.
func (t *test) wantNone(what string, q *dbq.Queue) {
	for _, task := range t.checkout(q, 100, long) {
		t.Errorf("%s: checkout returned task %s, which is %s; want none", what, task.ID, show(task))
	}
}

// list returns every task that a filter selects, page by page.
func (t *test) list(c *dbq.Client, f admin.Filter) []dbq.Task {
	var all []dbq.Task
	for f.Limit = 100; ; f.After = all[len(all)-1].ID {
		page, err := admin.New(c).List(t.ctx, f)
		t.must(err)
		all = append(all, page...)
		if len(page) < f.Limit {
			return all
		}
	}
}

// count returns how many tasks a queue has, in any state.
func (t *test) count(c *dbq.Client, queue string) int {
	return len(t.list(c, admin.Filter{Queue: queue}))
}

// dialect returns the dialect of the DSN.
func (t *test) dialect() dialect.Dialect {
	d, err := dialect.Lookup(t.DSN)
	t.must(err)
	return d.Dialect
}

func idsOf(tasks []dbq.Task) []uuid.UUID {
	ids := make([]uuid.UUID, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	return ids
}

func sortedIDs(ids []uuid.UUID) []uuid.UUID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// wantIDs records a failure unless the tasks are these, in this order. It names them by their position in want.
func (t *test) wantIDs(what string, got []dbq.Task, want []uuid.UUID) {
	if ids := idsOf(got); !slices.Equal(ids, want) {
		place := make(map[uuid.UUID]int, len(want))
		for i, id := range want {
			place[id] = i
		}
		order := make([]int, len(ids))
		for i, id := range ids {
			order[i] = -1 // not one of those wanted
			if p, ok := place[id]; ok {
				order[i] = p
			}
		}
		t.Errorf("%s: got tasks %v of those wanted, want all %d in order", what, order[:min(50, len(order))], len(want))
	}
}

func compareTasks(a, b dbq.Task) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Due.Compare(b.Due), slices.Compare(a.ID[:], b.ID[:]))
}

// show formats a task in one line, for messages.
func show(t dbq.Task) string {
	t.Payload, t.Result = t.Payload[:min(len(t.Payload), 40)], t.Result[:min(len(t.Result), 80)]
	return fmt.Sprintf("{%v queue %q ref %q kind %q prio %d attempt %d/%d fence %d due %s lease %s holder %q created "+
		"%s updated %s headers %v payload %q result %q}",
		t.State, t.Queue, t.Reference, t.Kind, t.Priority, t.Attempt, t.MaxAttempts, t.Fence, stamp(t.Due),
		stamp(t.LeaseUntil),
		t.Holder, stamp(t.Created), stamp(t.Updated), t.Headers, t.Payload, t.Result)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("2006-01-02T15:04:05.000000")
}
