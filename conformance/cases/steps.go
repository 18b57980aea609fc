package cases

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// The steps that most cases are made of. Those that cannot go wrong on a sound engine end the case when they do.

const (
	// long is a lease or a delay that does not end during a case, however slow the machine.
	long = time.Hour
	// short is a lease that expires at once; see awaitExpiry.
	short = time.Millisecond
	// defaultPatience is for an Env without one, and for worker processes.
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
			t.Fatalf("waited too long: %s", what)
		}
		time.Sleep(pause)
	}
}

// now returns the database's time.
func (t *test) now(c *dbq.Client) time.Time { return must(c.Now(t.ctx)) }

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
	out := must(q.EnqueueMany(t.ctx, ts))
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

// settleNew enqueues a task, takes it and settles it.
func (t *test) settleNew(q *dbq.Queue, nt dbq.NewTask, o dbq.Outcome) dbq.Task {
	task := t.takeNew(q, nt, long)
	t.must(q.Settle(t.ctx, task.Lease, o))
	return task
}

// takeAll enqueues n tasks and takes them.
func (t *test) takeAll(q *dbq.Queue, n int, lease time.Duration) []dbq.Task {
	t.enqueueMany(q, n, nil)
	tasks := t.checkout(q, n, lease)
	if len(tasks) != n {
		t.Fatalf("checkout returned %d tasks, want %d", len(tasks), n)
	}
	return tasks
}

// takeN takes n tasks, each as soon as it is due, and ends the case if more are.
func (t *test) takeN(q *dbq.Queue, n int, lease time.Duration) (tasks []dbq.Task) {
	t.eventually(fmt.Sprintf("%d tasks of %q are handed out", n, q.Name()), func() bool {
		tasks = append(tasks, t.checkout(q, 100, lease)...)
		return len(tasks) >= n
	})
	if len(tasks) != n {
		t.Fatalf("%d tasks of %q were handed out, want %d", len(tasks), q.Name(), n)
	}
	return tasks
}

func leasesOf(tasks []dbq.Task) []dbq.Lease {
	leases := make([]dbq.Lease, len(tasks))
	for i, task := range tasks {
		leases[i] = task.Lease
	}
	return leases
}

// allTo returns settlements that end all attempts alike.
func allTo(o dbq.Outcome, leases ...dbq.Lease) []dbq.Settlement {
	ss := make([]dbq.Settlement, len(leases))
	for i, l := range leases {
		ss[i] = settlement(l, o)
	}
	return ss
}

// endAll ends the attempts of tasks alike, one by one.
func (t *test) endAll(q *dbq.Queue, tasks []dbq.Task, o dbq.Outcome) {
	for _, task := range tasks {
		t.must(q.Settle(t.ctx, task.Lease, o))
	}
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
		leases = append(leases, dbq.Lease{TaskID: task.ID, Queue: q.Name(), Fence: task.Fence})
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

// abandonN takes n due tasks and lets their leases expire.
func (t *test) abandonN(q *dbq.Queue, n int) []dbq.Task {
	tasks := t.checkout(q, n, short)
	for _, task := range tasks {
		t.awaitExpiry(q.Client(), task.ID)
	}
	return tasks
}

// awaitExhausted waits until a checkout has moved a task whose last lease expired to POISON, without returning it.
func (t *test) awaitExhausted(q *dbq.Queue, id uuid.UUID) {
	t.eventually("a checkout moves the task to POISON", func() bool {
		t.wantNone("the attempts are exhausted", q)
		return t.get(q.Client(), id).State == dbq.StatePoison
	})
}

// get reads a task that must exist.
func (t *test) get(c *dbq.Client, id uuid.UUID) dbq.Task { return must(c.Get(t.ctx, id)) }

// operate performs an operator's event on a task.
func (t *test) operate(c *dbq.Client, e state.Event, id uuid.UUID, opts ...admin.Option) {
	t.must(admin.New(c).Operate(t.ctx, e, id, opts...))
}

// clean cleans a queue.
func (t *test) clean(q *dbq.Queue, r dbq.Retention) admin.Cleaned {
	return must(admin.New(q.Client()).Clean(t.ctx, q.Name(), r))
}

// attemptsOf returns the attempts of a task.
func (t *test) attemptsOf(c *dbq.Client, id uuid.UUID) []dbq.Attempt {
	return must(admin.New(c).Attempts(t.ctx, id))
}

// wantState records a failure unless the task is in a state, and returns the task.
func (t *test) wantState(c *dbq.Client, id uuid.UUID, want dbq.State) dbq.Task {
	task := t.get(c, id)
	t.failIf(task.State != want, "the task is %v, want %v", task.State, want)
	return task
}

// wantResult records a failure unless the task is completed with a result.
func (t *test) wantResult(c *dbq.Client, id uuid.UUID, want string) {
	task := t.wantState(c, id, dbq.StateCompleted)
	t.failIf(string(task.Result) != want, "the result is %q, want %q", task.Result, want)
}

// wantCompleted records a failure unless the task is completed by its attempt of a number.
func (t *test) wantCompleted(c *dbq.Client, id uuid.UUID, attempt int) {
	task := t.wantState(c, id, dbq.StateCompleted)
	t.failIf(task.Attempt != attempt, "task %s is completed as attempt %d, want %d", id, task.Attempt, attempt)
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

// list returns every task that a filter selects.
func (t *test) list(c *dbq.Client, f admin.Filter) []dbq.Task {
	f.Limit = 100
	return t.pages(f, admin.New(c).List)
}

// pages reads a listing page by page.
func (t *test) pages(f admin.Filter, read func(context.Context, admin.Filter) (admin.Page, error)) (all []dbq.Task) {
	for {
		page := must(read(t.ctx, f))
		if all = append(all, page.Tasks...); !page.More {
			return all
		}
		f = f.From(page.Next)
	}
}

// count returns how many tasks a queue has, in any state.
func (t *test) count(c *dbq.Client, queue string) int {
	return len(t.list(c, admin.Filter{Queue: queue}))
}

// wantCount records a failure unless a queue has n tasks, in any state.
func (t *test) wantCount(c *dbq.Client, queue string, n int) {
	got := t.count(c, queue)
	t.failIf(got != n, "queue %q has %d tasks, want %d", queue, got, n)
}

// lock locks rows in another transaction, as an operator's forgotten session does, by an update that changes nothing.
// The transaction is rolled back after the case. lock skips the case where a transaction that writes blocks all other
// writers.
func (t *test) lock(update string) *sql.Tx {
	c := t.open()
	t.rowLocks(c)
	tx := must(c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})) // locks no gaps
	t.Cleanup(func() { _ = tx.Rollback() })
	must(tx.ExecContext(t.ctx, "UPDATE "+t.Prefix+update))
	return tx
}

// lockTasks locks the tasks that a condition selects.
func (t *test) lockTasks(where string) *sql.Tx { return t.lock("task SET kind = kind WHERE " + where) }

// rowLocks skips a case where a transaction that writes blocks all other writers.
func (t *test) rowLocks(c *dbq.Client) {
	if c.Info().Server.OneWriter {
		t.Skipf("the database has one writer at a time, not locks on rows")
	}
}

// rows counts rows, by a pool or in a transaction, in which the query may begin the snapshot.
func (t *test) rows(in interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, from string) (n int) {
	t.must(in.QueryRowContext(t.ctx, "SELECT COUNT(*) FROM "+from).Scan(&n))
	return n
}

// dialect returns the dialect of the DSN.
func (t *test) dialect() dialect.Dialect { return must(dialect.Lookup(t.DSN)).Dialect }

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

// wantSameIDs records a failure unless the tasks are these, in any order.
func (t *test) wantSameIDs(what string, got, want []uuid.UUID) {
	got, want = sortedIDs(got), sortedIDs(want)
	t.failIf(!slices.Equal(got, want), "%s: got the tasks %v, want %v", what, got, want)
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

// A call is one of the methods that talk to the database, for laws that are about all of them.
type call struct {
	name  string
	plain func(ctx context.Context) error
	tx    func(ctx context.Context, tx dbq.Tx) error // instead of plain
}

// makeCall makes the call. One that needs a transaction gets one on c, which is rolled back afterwards.
func (t *test) makeCall(ctx context.Context, c *dbq.Client, call call) error {
	if call.tx == nil {
		return call.plain(ctx)
	}
	tx := t.beginTx(c)
	defer tx.Rollback() // a cancelled statement may have ended it already
	return call.tx(ctx, tx)
}

// An ending is a way to end an attempt, and the state of the task after it.
type ending struct {
	name    string
	outcome dbq.Outcome
	to      dbq.State
}

// endings returns an ending of each kind.
func endings() []ending {
	return []ending{
		{"complete", dbq.Completed(nil), state.Completed},
		{"complete with a result", dbq.Completed([]byte("result")), state.Completed},
		{"complete and remove", dbq.Deleted(), state.None},
		{"park", dbq.Parked(errBoom), state.Error},
		{"retry", dbq.RetryIn(0, errBoom), state.Error},
		{"poison", dbq.Poisoned(errBoom), state.Poison},
		{"release", dbq.Released(0), state.Created},
	}
}

// queueCalls returns the methods of a queue as calls, apart from the ones in callsTx.
func queueCalls(q *dbq.Queue, l dbq.Lease) []call {
	calls := []call{
		{name: "enqueue", plain: func(ctx context.Context) error { _, err := q.Enqueue(ctx, dbq.NewTask{}); return err }},
		{name: "enqueueMany", plain: func(ctx context.Context) error {
			_, err := q.EnqueueMany(ctx, make([]dbq.NewTask, 3))
			return err
		}},
		{name: "find", plain: func(ctx context.Context) error { _, err := q.Find(ctx, "r"); return err }},
		{name: "checkout", plain: func(ctx context.Context) error { _, err := q.Checkout(ctx, 1, long); return err }},
		{name: "settleMany", plain: func(ctx context.Context) error {
			_, err := q.SettleMany(ctx, []dbq.Settlement{settlement(l, dbq.Completed(nil)), settlement(l, dbq.Deleted())})
			return err
		}},
		{name: "extend", plain: func(ctx context.Context) error { _, err := q.Extend(ctx, l, long); return err }},
		{name: "extendMany", plain: func(ctx context.Context) error {
			_, _, err := q.ExtendMany(ctx, []dbq.Lease{l}, long)
			return err
		}},
	}
	for _, e := range endings() {
		settle := func(ctx context.Context) error { return q.Settle(ctx, l, e.outcome) }
		calls = append(calls, call{name: e.name, plain: settle})
	}
	return calls
}

// callsTx returns the methods that take a transaction as calls.
func callsTx(q *dbq.Queue, l dbq.Lease) []call {
	c := q.Client()
	many := func(name string, ts ...dbq.NewTask) call {
		return call{name: name, tx: func(ctx context.Context, tx dbq.Tx) error {
			_, err := q.EnqueueManyTx(ctx, tx, ts)
			return err
		}}
	}
	return []call{
		{name: "EnqueueTx", tx: func(ctx context.Context, tx dbq.Tx) error {
			_, err := q.EnqueueTx(ctx, tx, dbq.NewTask{})
			return err
		}},
		many("EnqueueManyTx", make([]dbq.NewTask, 3)...),
		many("EnqueueManyTx of unique tasks", dbq.NewTask{Unique: pending("a")}, dbq.NewTask{Unique: replacing("b")}),
		{name: "CompleteTx", tx: func(ctx context.Context, tx dbq.Tx) error { return q.CompleteTx(ctx, tx, l, nil) }},
		{name: "SettleTx that removes", tx: func(ctx context.Context, tx dbq.Tx) error {
			return q.SettleTx(ctx, tx, l, dbq.Deleted())
		}},
		{name: "SettleTx with an error", tx: func(ctx context.Context, tx dbq.Tx) error {
			return q.SettleTx(ctx, tx, l, dbq.Failed(errBoom))
		}},
		{name: "GetTx", tx: func(ctx context.Context, tx dbq.Tx) error { _, err := c.GetTx(ctx, tx, l.TaskID); return err }},
		{name: "OperateTx", tx: func(ctx context.Context, tx dbq.Tx) error {
			return admin.New(c).OperateTx(ctx, tx, admin.Revoke, l.TaskID, admin.By("ann"))
		}},
		{name: "workflow.EnqueueTx", tx: func(ctx context.Context, tx dbq.Tx) error {
			_, err := workflow.EnqueueTx(ctx, tx, c, stepsOf(q, []string{"one"}, []string{"two", "one"}))
			return err
		}},
	}
}

// allCalls returns the methods of a client and of its queue q as calls.
func allCalls(c *dbq.Client, l dbq.Lease) []call {
	q := c.Queue("q")
	calls := slices.Concat(queueCalls(q, l), callsTx(q, l), []call{
		{name: "get", plain: func(ctx context.Context) error { _, err := c.Get(ctx, l.TaskID); return err }},
		{
			name:  "list",
			plain: func(ctx context.Context) error { _, err := admin.New(c).List(ctx, admin.Filter{}); return err },
		},
		{name: "stats", plain: func(ctx context.Context) error { _, err := admin.New(c).Stats(ctx); return err }},
		{name: "wait", plain: func(ctx context.Context) error { _, err := c.Wait(ctx, l.TaskID); return err }},
		{name: "now", plain: func(ctx context.Context) error { _, err := c.Now(ctx); return err }},
	})
	for _, tr := range state.ByOperator() {
		calls = append(calls,
			call{name: string(tr.Event), plain: func(ctx context.Context) error {
				return admin.New(c).Operate(ctx, tr.Event, l.TaskID)
			}},
			call{name: string(tr.Event) + " by filter", plain: func(ctx context.Context) error {
				_, err := admin.New(c).OperateMany(ctx, tr.Event, admin.Filter{Limit: 10})
				return err
			}})
	}
	return calls
}
