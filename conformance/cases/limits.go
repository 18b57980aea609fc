package cases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// limitCases are the limits of queues: on leased tasks and on starts.
func limitCases() []Case {
	return inGroup("Limits",
		Case{Name: "NeverOverTheLimit", run: limitNever,
			Law: "A queue never has more leased tasks than its limit, though many clients check out at once and tasks fail, " +
				"are released and are abandoned; and each task is done in the end."},
		Case{Name: "TakeoverKeepsTheSlot", SharedTables: true, run: limitTakeover,
			Law: "A task whose worker crashed keeps its slot until another worker has taken it over and ended it."},
		Case{Name: "EveryEndFreesTheSlot", SharedTables: true, run: limitEnds,
			Law: "Whatever ends an attempt frees its slot: a settlement of any kind, or an operator."},
		Case{Name: "EditedWhileTasksRun", SharedTables: true, run: limitEdited,
			Law: "A limit can change while tasks run: a lower one stops none, and nothing starts until enough have ended."},
		Case{Name: "DeclaredUntilAnOperatorChangesThem", SharedTables: true, run: limitDeclared,
			Law: "Limits that a program declares are in force until an operator changes them, by removal too, and again after " +
				"a reset."},
		Case{Name: "OtherQueuesAreFree", SharedTables: true, run: limitOther,
			Law: "The limits of a queue do not apply to other queues."},
		Case{Name: "PausedQueueHandsOutNothing", SharedTables: true, run: limitPaused,
			Law: "A paused queue with limits hands out nothing, and goes on within its limits when it is resumed."},
		Case{Name: "BytesOfACheckout", SharedTables: true, run: limitBytes,
			Law: "A checkout of a queue with limits also respects WithMaxCheckoutBytes; later checkouts return the remaining " +
				"tasks."},
		Case{Name: "Rate", SharedTables: true, run: limitRate,
			Law: "In any time, no more tasks start than the burst and the rate allow, by the database's clock."},
		Case{Name: "RetriesAndTakeoversAreStarts", SharedTables: true, run: limitRateCounts,
			Law: "A retry and a takeover count as starts for the rate of a queue."},
		Case{Name: "LockedTaskDelaysNoOther", run: limitLockedDelays,
			Law: "A due task whose row is locked by another transaction delays no task of another key and none without a key, " +
				"whatever limits the queue has, nor tasks of its own key, unless they have an order; it is handed out when its " +
				"row is free."},
		Case{Name: "ManyLockedTasks", run: limitLockedMany,
			Law: "More locked tasks than a checkout reads delay no others, whether they are of one key, of many, or of none."},
		Case{Name: "StoppedCheckoutDelaysNoOther", Once: true, run: limitStalled,
			Law: "A client that stops at any point of a checkout within limits, with its connection open, delays the other " +
				"checkouts of the queue by seconds at most."},
		Case{Name: "LockedLimitsLeaveConnections", Once: true, run: limitLockedConnections,
			Law: "However many checkouts wait for the limits of a queue, the client has connections left for other queues."},
		Case{Name: "SilentServerEndsCheckouts", Once: true, Slow: true, run: limitSilent,
			Law: "When the server falls silent, checkouts of a queue with limits return together, although they take turns."},
		Case{Name: "KeyRoundTrip", Once: true, SharedTables: true, run: keyRoundTrip,
			Law: "A task keeps its key through its states, lists find it by its key, and an invalid key is refused."},
		Case{Name: "NeverOverTheLimitOfAKey", run: limitKey,
			Law: "No key ever has more leased tasks than the limit per key, though many clients check out at once and tasks " +
				"fail, are released and are abandoned; and each task is done in the end."},
		Case{Name: "ReplacedTaskIsOfItsNewKey", SharedTables: true, run: limitReplaced,
			Law: "No key has more leased tasks than its limit, though tasks get other keys while they are checked out."},
		Case{Name: "WholeTasks", SharedTables: true, run: limitWhole,
			Law: "A checkout within limits per key returns each task as the table has it, with a payload of any size, from a " +
				"short and a long backlog, and again after a failure."},
		Case{Name: "KeysInTurn", SharedTables: true, run: limitTurns,
			Law: "Keys are served in turn: the few tasks of a key do not wait for the many of another that came before."},
		Case{Name: "OneTurnOfAllClients", SharedTables: true, run: limitOneTurn,
			Law: "The checkouts of several clients serve the keys in one turn, one after the other and at the same time: each " +
				"goes on where the one before has ended, whichever client it was."},
		Case{Name: "HotKeyDelaysNoOtherKey", SharedTables: true, run: limitHot,
			Law: "A key that has reached its limit does not delay the tasks of other keys, however many of its own wait."},
		Case{Name: "TasksWithoutKey", SharedTables: true, run: limitNoKey,
			Law: "In a queue with limits per key, tasks without a key are handed out, too, and have no limit per key."},
		Case{Name: "KeyRateIsKept", run: keyRateKept,
			Law: "In any time, no more tasks of a key start than the burst and the rate per key allow, by the database's " +
				"clock, though many clients check out at once and tasks fail, are released and are abandoned; and each task is " +
				"done in the end."},
		Case{Name: "KeyRateDelaysNoOtherKey", SharedTables: true, run: keyRateOthers,
			Law: "A key without a start left delays no task of another key, nor one without a key, however many of its own " +
				"wait, and however many such keys there are."},
		Case{Name: "KeyRateOfTakeovers", SharedTables: true, run: keyRateTakeovers,
			Law: "A takeover is a start of its key: without one left, the task waits, and delays no takeover of other keys."},
		Case{Name: "KeyRateGoesOn", SharedTables: true, run: keyRateGoesOn,
			Law: "An idle worker starts the next task when the rate, or the rate per key, allows it, before its next poll."},
		Case{Name: "ChangedRateAppliesAtOnce", SharedTables: true, run: keyRateChanged,
			Law: "After a change of a rate, no task waits longer than the new rate requires; and what a key has started is " +
				"forgotten when its rate is removed."},
		Case{Name: "CleanRemovesFullKeys", Once: true, run: keyRateClean,
			Law: "Cleaning removes what is known of keys that have all of their starts again, and of no others."},
		Case{Name: "KeyRateSurvivesCrash", Once: true, run: keyRateKilled,
			Law: "Processes that are killed while they hold tasks never cause more starts than the rate per key allows, and " +
				"all of their tasks are done in the end."},
		Case{Name: "OrderOfAKey", run: limitOrder,
			Law: "In a queue with an order, a task starts only when all earlier tasks of its key have ended, though many " +
				"clients check out at once and tasks fail, are released, cancelled and abandoned."},
		Case{Name: "WaitingTaskKeepsItsPlace", SharedTables: true, run: limitOrderWaits,
			Law: "A task that is delayed, released for later or waiting for a retry blocks later tasks of its own key and of " +
				"no other."},
		Case{Name: "OrderAtPoison", SharedTables: true, run: limitOrderPoison,
			Law: "A task in POISON or parked keeps the later tasks of its key waiting, or is skipped, as the queue is set; " +
				"one that was cancelled or removed does neither."},
		Case{Name: "FreedPlaceWakesAWorker", Once: true, run: limitOrderWakes,
			Law: "A settlement, or an operator's event by any client or in a transaction, that may let another task of a " +
				"queue with limits start wakes an idle worker."},
		Case{Name: "OrderBehindManyTasks", SharedTables: true, run: limitOrderMany,
			Law: "The order of each key is kept behind more due tasks than a checkout reads, and the keys are served in turn."},
		Case{Name: "KilledProcesses", run: limitKilled,
			Law: "Though processes are killed while they hold tasks, never more tasks are leased than the limit allows, no " +
				"two of a key are ever held at once in a queue with an order, each starts after those before it have ended, and " +
				"all are done in the end."},
	)
}

// limit sets the limits of a queue.
func (t *test) limit(c *dbq.Client, queue string, l admin.QueueLimits) {
	t.must(admin.New(c).ConfigureLimits(t.ctx, queue, func(now *admin.QueueLimits) { *now = l }))
}

// working has the tasks that a law knows to be leased: it forgets a task before it ends the attempt.
type working struct {
	limits admin.QueueLimits       // on leased tasks
	order  func(w *working) string // the violation of the order, if any; nil in a queue without one
	mu     sync.Mutex
	tasks  map[uuid.UUID]dbq.Task
	fence  map[uuid.UUID]int64 // the highest of each task

	ids  []uuid.UUID        // of all tasks, in the order in which they were enqueued
	ends map[uuid.UUID]bool // those for which a call that completes or cancels them has begun
}

// taken records the tasks of a checkout, and returns the limit that they break, if any.
func (w *working) taken(tasks []dbq.Task) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, task := range tasks {
		if task.Fence > w.fence[task.ID] { // or it was taken over before this client could record it
			w.tasks[task.ID], w.fence[task.ID] = task, task.Fence
		}
	}
	if wrong := brokenLimit(w.limits, slices.Collect(maps.Values(w.tasks))); wrong != "" || w.order == nil {
		return wrong
	}
	return w.order(w)
}

func (w *working) ending(task dbq.Task, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last {
		w.ends[task.ID] = true
	}
	if w.tasks[task.ID].Fence == task.Fence {
		delete(w.tasks, task.ID)
	}
}

// cancelling forgets a task for good: its cancellation ends the attempt of any client that has it by now.
func (w *working) cancelling(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[id], w.fence[id] = true, math.MaxInt64
	delete(w.tasks, id)
}

func limitNever(t *test) {
	t.workLimited(admin.QueueLimits{Concurrency: 7}, func(int) string { return "" }, nil)
}

func limitKey(t *test) {
	t.workLimited(admin.QueueLimits{KeyConcurrency: 2, Concurrency: 9},
		func(i int) string { return fmt.Sprint("key ", i*i%9) }, nil)
}

// workLimited drains a queue by several clients that do not always end their tasks, and checks its limits on leased
// tasks and its order. It returns all of them.
func (t *test) workLimited(l admin.QueueLimits, key func(i int) string, order func(w *working) string) *working {
	const clients, tasks = 5, 150
	first := t.open()
	t.limit(first, "q", l)
	w := &working{limits: admin.QueueLimits{Concurrency: l.Concurrency, KeyConcurrency: l.KeyConcurrency}, order: order,
		tasks: map[uuid.UUID]dbq.Task{}, fence: map[uuid.UUID]int64{}, ends: map[uuid.UUID]bool{}}
	w.ids = t.enqueueMany(first.Queue("q"), tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = key(i), 1000 })
	var done sync.Map
	left := func() int {
		n := tasks
		done.Range(func(any, any) bool { n--; return true })
		return n
	}
	rng := t.rngs(clients)
	t.concurrently(clients, func(_ context.Context, k int) {
		c, rng := t.open(), rng[k]
		q := c.Queue("q")
		for left() > 0 && t.ctx.Err() == nil && !t.failed() {
			ctx, cancel := t.ctx, context.CancelFunc(func() {})
			if rng.IntN(16) == 0 { // a worker that is killed in the middle
				ctx, cancel = context.WithTimeout(t.ctx, time.Duration(rng.IntN(4000))*time.Microsecond)
			}
			got, err := q.Checkout(ctx, 1+rng.IntN(5), 400*time.Millisecond)
			cancel()
			if err != nil {
				t.failIf(ctx.Err() == nil, "client %d: %v", k, err)
				continue
			}
			if wrong := w.taken(got); wrong != "" {
				t.Fatalf("client %d: %s", k, wrong)
			}
			if len(got) == 0 {
				_ = sleep(t.ctx, 5*time.Millisecond)
			}
			for _, task := range got {
				o := dbq.Completed(nil)
				switch rng.IntN(16) {
				case 0: // a worker that crashes
					continue
				case 1:
					o = dbq.RetryIn(0, errBoom)
				case 2:
					o = dbq.Released(0)
				case 3:
					w.cancelling(task.ID)
					if err := admin.New(c).Operate(t.ctx, admin.Cancel, task.ID); err == nil {
						done.Store(task.ID, true)
					} else if !errors.Is(err, dbq.ErrWrongState) {
						t.Errorf("client %d: cancel: %v", k, err)
					}
					continue
				}
				completes := o.Event() == dbq.Completed(nil).Event()
				w.ending(task, completes)
				if err := q.Settle(t.ctx, task.Lease, o); err != nil && !errors.Is(err, dbq.ErrLeaseLost) {
					t.Errorf("client %d: settle: %v", k, err)
				} else if err == nil && completes {
					done.Store(task.ID, true)
				}
			}
		}
	})
	if n := left(); n > 0 && !t.failed() {
		t.Errorf("%d of %d tasks were not done", n, tasks)
	}
	return w
}

// limited opens a client, and sets the limits of a queue of the case's own name.
func (t *test) limited(l admin.QueueLimits) (*dbq.Client, *dbq.Queue) {
	c := t.open()
	q := c.Queue("limited " + uuid.NewString())
	t.limit(c, q.Name(), l)
	return c, q
}

func limitTakeover(t *test) {
	_, q := t.limited(admin.QueueLimits{Concurrency: 2})
	other := t.open().Queue(q.Name())
	t.wantNone("of an empty queue", other) // so that its next checkouts do not search for expired leases first
	t.enqueueMany(q, 5, nil)
	abandoned := t.takeN(q, 2, 20*time.Millisecond)
	t.awaitExpiry(q.Client(), abandoned[0].ID)
	t.awaitExpiry(q.Client(), abandoned[1].ID)
	taken := t.takeN(other, 2, long)
	t.wantSameIDs("in the slots of tasks that are to be taken over", idsOf(taken), idsOf(abandoned))
	t.endAll(other, taken, dbq.Completed(nil))
	if got := t.checkout(q, 10, long); len(got) != 2 {
		t.Errorf("%d tasks start after two have ended, want 2", len(got))
	}
}

func limitEnds(t *test) {
	c, q := t.limited(admin.QueueLimits{Concurrency: 1})
	ends := map[string]func(task dbq.Task) error{
		"cancel": func(task dbq.Task) error { return admin.New(c).Operate(t.ctx, admin.Cancel, task.ID) },
		"revoke": func(task dbq.Task) error { return admin.New(c).Operate(t.ctx, admin.Revoke, task.ID) },
	}
	for _, e := range endings() {
		ends[e.name] = func(task dbq.Task) error { return q.Settle(t.ctx, task.Lease, e.outcome) }
	}
	t.enqueueMany(q, len(ends)+1, nil)
	for name, end := range ends {
		task := t.takeN(q, 1, long)[0]
		t.wantNone("at the limit", q)
		if err := end(task); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.takeN(q, 1, long)
}

func limitEdited(t *test) {
	c, q := t.limited(admin.QueueLimits{Concurrency: 2})
	t.enqueueMany(q, 20, nil)
	running := t.takeN(q, 2, long)
	t.limit(c, q.Name(), admin.QueueLimits{Concurrency: 5})
	running = append(running, t.takeN(q, 3, long)...)
	t.limit(c, q.Name(), admin.QueueLimits{Concurrency: 2})
	for _, task := range running {
		t.wantNone("over a lowered limit", q)
		if _, err := q.Extend(t.ctx, task.Lease, long); err != nil {
			t.Errorf("a task that runs while the limit is lowered: %v", err)
		}
		if running = running[1:]; len(running) == 1 {
			break
		}
		t.must(q.Complete(t.ctx, task.Lease, nil))
	}
	t.must(q.Complete(t.ctx, running[0].Lease, nil))
	t.takeN(q, 1, long)
	t.wantNone("at the lowered limit", q)
	t.limit(c, q.Name(), admin.QueueLimits{})
	t.takeN(q, 14, long)
	if l, err := admin.New(c).QueueLimits(t.ctx, q.Name()); err != nil || l != (admin.QueueLimits{}) {
		t.Errorf("the removed limits are %+v and error %v", l, err)
	}
}

func limitDeclared(t *test) {
	c := t.open()
	ops, q := admin.New(c), c.Queue("limited "+uuid.NewString())
	of := func(n int) admin.QueueLimits { return admin.QueueLimits{Concurrency: n} }
	declare := func(n int) { t.must(ops.DeclareLimits(t.ctx, q.Name(), of(n))) }
	want := func(what string, inForce, declared int) {
		l, err := ops.QueueLimits(t.ctx, q.Name())
		t.must(err)
		d, some, err := ops.DeclaredLimits(t.ctx, q.Name())
		t.must(err)
		if l != of(inForce) || d != of(declared) || some != (declared > 0) {
			t.Errorf("%s: %+v are in force, %+v declared; want a Concurrency of %d and %d", what, l, d, inForce, declared)
		}
	}
	t.wantErr("a reset of what is not declared", ops.ResetLimits(t.ctx, q.Name()), dbq.ErrNotFound)
	t.enqueueMany(q, 20, nil)
	declare(2)
	t.takeN(q, 2, long)
	t.wantNone("at the declared limit", q)
	declare(3)
	declare(3)
	want("declared again", 3, 3)
	t.limit(c, q.Name(), of(5))
	declare(4)
	want("changed by an operator", 5, 4)
	t.takeN(q, 3, long)
	t.wantNone("at the operator's limit", q)
	t.limit(c, q.Name(), admin.QueueLimits{})
	declare(6)
	want("removed by an operator", 0, 6)
	t.takeN(q, 15, long)
	t.enqueueMany(q, 2, nil)
	t.must(ops.ResetLimits(t.ctx, q.Name()))
	want("reset", 6, 6)
	t.wantNone("over the declared limit", q)
	declare(0)
	want("withdrawn", 0, 0)
	t.takeN(q, 2, long)
	t.wantErr("a reset of what is withdrawn", ops.ResetLimits(t.ctx, q.Name()), dbq.ErrNotFound)
	t.limit(c, q.Name(), of(7))
	declare(8)
	want("declared after an operator's", 7, 8)
	t.wantErr("invalid limits", ops.DeclareLimits(t.ctx, q.Name(), of(-1)), dbq.ErrOption)
	want("after invalid ones", 7, 8)
}

func limitOther(t *test) {
	c, q := t.limited(admin.QueueLimits{Concurrency: 1})
	other := c.Queue(q.Name() + " other")
	t.enqueueMany(other, 3, nil)
	t.enqueueMany(q, 3, nil)
	if got := t.checkout(other, 10, long); len(got) != 3 {
		t.Errorf("a queue without limits hands out %d tasks, want 3", len(got))
	}
	t.takeN(q, 1, long)
	t.wantNone("at the limit", q)
}

func limitPaused(t *test) {
	c, q := t.limited(admin.QueueLimits{Concurrency: 1, PerKey: true})
	t.enqueueMany(q, 3, nil)
	t.must(admin.New(c).PauseQueue(t.ctx, q.Name()))
	other := t.open().Queue(q.Name())
	for range 3 {
		t.wantNone("paused", q)
		t.wantNone("paused", other)
	}
	t.must(admin.New(c).ResumeQueue(t.ctx, q.Name()))
	t.takeN(q, 1, long)
	t.wantNone("at the limit", q)
}

func limitBytes(t *test) {
	for _, perKey := range []bool{false, true} {
		c := t.open(dbq.WithMaxCheckoutBytes(1 << 20))
		q := c.Queue("limited " + uuid.NewString())
		t.limit(c, q.Name(), admin.QueueLimits{Concurrency: 10, PerKey: perKey})
		t.enqueueMany(q, 5, func(i int, nt *dbq.NewTask) { nt.Payload = make([]byte, 400<<10) })
		n := 0
		t.eventually("all are handed out", func() bool {
			got := t.checkout(q, 10, long)
			if len(got) > 2 {
				t.Fatalf("a checkout of at most 1 MiB returned %d tasks of 400 KiB", len(got))
			}
			n += len(got)
			return n == 5
		})
	}
}

func limitRate(t *test) {
	rate := admin.Rate{Starts: 1, Per: 40 * time.Millisecond, Burst: 5}
	during := 25 * rate.Per
	c, q := t.limited(admin.QueueLimits{Rate: rate})
	t.enqueueMany(q, 40, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 1000 })
	clients := []*dbq.Queue{q, t.open().Queue(q.Name())}
	var starts []time.Time
	begin := t.now(c)
	for i := 0; t.now(c).Sub(begin) < during; i++ {
		tasks := t.checkout(clients[i%2], 3, []time.Duration{long, 10 * time.Millisecond}[i%2])
		for k, task := range tasks {
			starts = append(starts, t.get(c, task.ID).Updated)
			if k == 0 && i%3 == 0 {
				err := clients[i%2].Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom))
				if i%2 == 0 { // the lease of the other may have expired
					t.must(err)
				}
			}
		}
	}
	t.failIf(len(starts) < rate.Burst, "%d tasks started in %v, want the burst of %d at least", len(starts), during,
		rate.Burst)
	rate.Burst++ // a row's time may be a moment later than the rate's
	t.keepsRate("the queue", c, starts, rate)
}

func limitRateCounts(t *test) {
	rate := admin.Rate{Starts: 1, Per: long, Burst: 4}
	_, q := t.limited(admin.QueueLimits{Rate: rate})
	t.enqueueMany(q, 9, nil)
	t.abandonN(q, 2)
	other := t.open().Queue(q.Name())
	takenOver := 0
	t.eventually("the tasks are taken over", func() bool {
		for _, task := range t.checkout(other, 2, long) {
			if task.TakenOver != nil {
				takenOver++
			}
		}
		return takenOver == 2
	})
	t.wantNone("after two starts and two takeovers", q)

	_, q = t.limited(admin.QueueLimits{Rate: rate})
	t.enqueueMany(q, 1, nil)
	for range rate.Burst {
		t.must(q.Settle(t.ctx, t.takeN(q, 1, long)[0].Lease, dbq.RetryIn(0, errBoom)))
	}
	t.wantNone("after a start and three retries", q)
}

func limitLockedDelays(t *test) {
	c := t.open()
	t.rowLocks(c)
	type queue struct {
		*dbq.Queue
		limits admin.QueueLimits
		ids    []uuid.UUID
	}
	var queues []queue
	for i, l := range []admin.QueueLimits{
		{Concurrency: 9}, {Rate: admin.Rate{Starts: 1, Per: long, Burst: 9}}, {PerKey: true}, {KeyConcurrency: 1},
		{KeyConcurrency: 2, Concurrency: 9}, {Order: admin.OrderBlock}, {Order: admin.OrderSkip},
	} {
		q := c.Queue(fmt.Sprint("q", i))
		t.limit(c, q.Name(), l)
		queues = append(queues, queue{q, l, t.enqueueMany(q, 5, func(i int, nt *dbq.NewTask) {
			nt.Key = []string{"a", "a", "b", "b", ""}[i]
			if i == 0 || i == 2 {
				nt.Reference = fmt.Sprint("locked ", i)
			}
		})})
	}
	tx := t.lockTasks("reference LIKE 'locked%'")
	started := make([]map[uuid.UUID]dbq.Task, len(queues))
	for i, q := range queues {
		started[i] = map[uuid.UUID]dbq.Task{}
		want := []uuid.UUID{q.ids[1], q.ids[3], q.ids[4]}
		if q.limits.Order != admin.OrderNone {
			want = want[2:]
		}
		for range want { // not even one checkout finds nothing
			for _, task := range t.checkout(q.Queue, 1, long) {
				started[i][task.ID] = task
			}
		}
		for _, id := range want {
			if _, ok := started[i][id]; !ok {
				t.Errorf("%+v: task %s was not handed out, one of %d that are free", q.limits, id, len(want))
			}
		}
		t.wantNone(fmt.Sprintf("%+v: the others are locked", q.limits), q.Queue)
	}
	t.must(tx.Rollback())
	for i, q := range queues {
		t.eventually(fmt.Sprintf("%+v: all are handed out", q.limits), func() bool {
			for id, task := range started[i] {
				if task.State == dbq.StateProcessing {
					t.must(q.Complete(t.ctx, task.Lease, nil))
					started[i][id] = dbq.Task{}
				}
			}
			for _, task := range t.checkout(q.Queue, 9, long) {
				started[i][task.ID] = task
			}
			return len(started[i]) == len(q.ids)
		})
	}
}

func limitLockedMany(t *test) {
	const free = 3
	c := t.open()
	t.rowLocks(c)
	q := map[string]*dbq.Queue{}
	for name, key := range map[string]func(i int) string{
		"one key":   func(int) string { return "a" },
		"many keys": func(i int) string { return fmt.Sprint("b", i) },
		"no key":    func(int) string { return "" },
	} {
		locked := 600
		if name == "many keys" {
			locked = 1100
		}
		q[name] = c.Queue(name)
		t.limit(c, name, admin.QueueLimits{KeyConcurrency: 2})
		t.enqueueMany(q[name], locked+free, func(i int, nt *dbq.NewTask) {
			if nt.Key = key(min(i, locked)); i < locked {
				nt.Reference = fmt.Sprint("locked ", i)
			} else if i > locked {
				nt.Key = fmt.Sprint("c", i)
			}
		})
	}
	tx := t.lockTasks("reference LIKE 'locked%'")
	for name, q := range q {
		started := 0
		for range 2 * free {
			started += len(t.checkout(q, 1, long))
		}
		t.failIf(started != free,
			"%s: %d checkouts behind locked tasks brought %d, want the %d others", name, 2*free, started, free)
	}
	t.must(tx.Rollback())
	t.eventually("the locked tasks are handed out, too", func() bool {
		return len(t.checkout(q["no key"], 100, long)) > 0 && len(t.checkout(q["many keys"], 100, long)) > 0
	})
}

func limitLockedConnections(t *test) {
	const conns, waiting, most = 4, 32, 3 * time.Second
	c := t.openCallersPool(conns)
	q, other := c.Queue("q"), c.Queue("other")
	t.limit(c, q.Name(), admin.QueueLimits{Concurrency: waiting})
	t.enqueueMany(q, waiting, nil)
	lease := t.takeNew(other, dbq.NewTask{}, long).Lease
	tx := t.lock("kv SET version = version WHERE name = 'q'")
	t.concurrently(waiting+1, func(ctx context.Context, i int) {
		if i < waiting {
			if tasks, err := q.Checkout(ctx, 1, long); ctx.Err() == nil && (err != nil || len(tasks) != 1) {
				t.Errorf("when the limits were free again, a checkout returned %d tasks and %v", len(tasks), err)
			}
			return
		}
		defer func() { _ = tx.Rollback() }()
		for range 20 {
			time.Sleep(50 * time.Millisecond) // more checkouts wait
			once, cancel := context.WithTimeout(ctx, most)
			_, err := other.Extend(once, lease, long)
			cancel()
			t.must(err)
		}
	})
}

func limitSilent(t *test) {
	const checkouts, patience = 16, 2 * time.Second
	p, dsn := t.throughProxy()
	c := t.openDSN(dsn)
	q := c.Queue("q")
	t.limit(c, q.Name(), admin.QueueLimits{Concurrency: checkouts})
	p.Stall()
	ctx := sqlrun.WithPatience(t.ctx, func() time.Duration { return patience })
	began := time.Now()
	t.concurrently(checkouts, func(context.Context, int) {
		if tasks, err := q.Checkout(ctx, 1, long); err == nil {
			t.Errorf("a silent server handed out %d tasks", len(tasks))
		}
	})
	if took := time.Since(began); took > checkouts*patience { // with two tries each, two of them at once
		t.Errorf("%d checkouts took %v", checkouts, took)
	}
	p.Heal()
}

// limitStalled makes a client stop before each request of a checkout within limits, with the connection open. A process
// does so if it is stopped, if its machine sleeps or loses its power, or if the network no longer reaches it.
func limitStalled(t *test) {
	direct := t.open()
	t.rowLocks(direct)
	const most = 24 // requests of such a checkout, and more
	var stopped atomic.Int64
	t.concurrently(most, func(_ context.Context, i int) {
		if t.stalledBefore(i+1, direct) {
			stopped.Add(1)
		}
	})
	if n := stopped.Load(); n < 3 || n == most {
		t.Errorf("%d clients stopped, want at least 3, and less than %d", n, most)
	}
}

// stalledBefore makes a client stop before request k of a checkout, and reports whether there was one.
func (t *test) stalledBefore(k int, direct *dbq.Client) bool {
	const stoppedFor = 20 * time.Second
	p, dsn := t.throughProxy()
	q := ownQueue(direct)
	t.limit(direct, q.Name(), admin.QueueLimits{Concurrency: 100})
	t.enqueueMany(q, 10, nil)
	c := t.oneConnection(dsn)
	rule := proxy.Rule{AtRequest: k, Stall: true}
	return t.callUnder(p, rule, c, func(ctx context.Context) {
		_, _ = c.Queue(q.Name()).Checkout(ctx, 1, long)
	}, func(returned <-chan struct{}) {
		if t.awaitFault(p, returned) {
			return
		}
		ctx, cancel := context.WithTimeout(t.ctx, stoppedFor)
		defer cancel()
		start := time.Now()
		tasks, err := q.Checkout(ctx, 1, long)
		t.Logf("request %d: %v", k, time.Since(start))
		t.failIf(err != nil || len(tasks) != 1,
			"beside a checkout that stopped before its request %d, a checkout of the queue returned %d tasks and %v after %v",
			k, len(tasks), err, time.Since(start))
	})
}
