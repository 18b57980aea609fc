package cases

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
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
			Law: "A limit can be raised, lowered and removed while tasks run: a lower one stops none, and nothing starts " +
				"until enough have ended."},
		Case{Name: "RolledBackSettlementKeepsTheSlot", SharedTables: true, run: limitRolledBack,
			Law: "A settlement in a transaction frees the slot when the transaction commits, and not if it is rolled back."},
		Case{Name: "OtherQueuesAreFree", SharedTables: true, run: limitOther,
			Law: "The limits of a queue do not apply to other queues."},
		Case{Name: "PausedQueueHandsOutNothing", SharedTables: true, run: limitPaused,
			Law: "A paused queue with limits hands out nothing, and goes on within its limits when it is resumed."},
		Case{Name: "BytesOfACheckout", SharedTables: true, run: limitBytes,
			Law: "A checkout within limits keeps the limit of bytes, and the tasks that it leaves are handed out later."},
		Case{Name: "LockedRowsAreSkipped", SharedTables: true, run: limitLocked,
			Law: "A task whose row is locked by another transaction does not keep the other tasks of a queue with limits " +
				"waiting."},
		Case{Name: "Rate", SharedTables: true, run: limitRate,
			Law: "In any time, no more tasks start than the burst and the rate allow, by the database's clock."},
		Case{Name: "RetriesAndTakeoversAreStarts", SharedTables: true, run: limitRateCounts,
			Law: "A retry and a takeover count as starts for the rate of a queue."},
		Case{Name: "RateGoesOn", SharedTables: true, run: limitRateGoesOn,
			Law: "A waiting consumer gets the tasks of a queue with a rate as fast as the rate allows."},
		Case{Name: "FreedSlotWakesAWorker", SharedTables: true, run: limitWakes,
			Law: "A settlement and an operator's cancellation of a leased task free a slot, and wake a worker for it, which " +
				"does not wait for its next poll."},
		Case{Name: "KilledProcesses", Once: true, run: limitKilled,
			Law: "Processes that are killed while they hold tasks never cause more leased tasks than the limits allow, and " +
				"all of their tasks are done in the end."},
		Case{Name: "BadLimits", Once: true, SharedTables: true, run: limitBad,
			Law: "A limit that is out of range is refused with ErrOption, and changes nothing."},
	)
}

// limit sets the limits of a queue.
func (t *test) limit(c *dbq.Client, queue string, l admin.QueueLimits) {
	t.must(admin.New(c).ConfigureLimits(t.ctx, queue, func(now *admin.QueueLimits) { *now = l }))
}

// working is what a law knows to be leased: it forgets a task before it ends the attempt.
type working struct {
	mu    sync.Mutex
	tasks map[uuid.UUID]dbq.Task
	fence map[uuid.UUID]int64    // the highest of each task
	most  func(w *working) error // a broken limit

	ids  []uuid.UUID        // of all tasks, in the order in which they were enqueued
	ends map[uuid.UUID]bool // those for which a call that completes or cancels them has begun
}

func (w *working) taken(tasks []dbq.Task) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, task := range tasks {
		if task.Fence > w.fence[task.ID] { // or it was taken over before this client got to know
			w.tasks[task.ID], w.fence[task.ID] = task, task.Fence
		}
	}
	return w.most(w)
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

// cancelling forgets a task for good: its cancellation ends the attempt of whoever has it by now.
func (w *working) cancelling(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[id], w.fence[id] = true, math.MaxInt64
	delete(w.tasks, id)
}

func limitNever(t *test) {
	const most = 7
	t.workLimited(admin.QueueLimits{Leased: most}, func(int) string { return "" }, func(w *working) error {
		if n := len(w.tasks); n > most {
			return fmt.Errorf("%d tasks are leased, the limit is %d", n, most)
		}
		return nil
	})
}

func limitKey(t *test) {
	const most = 2
	key := func(i int) string { return fmt.Sprint("key ", i*i%9) }
	t.workLimited(admin.QueueLimits{KeyLeased: most, Leased: 9}, key, func(w *working) error {
		n := map[string]int{}
		for _, task := range w.tasks {
			n[task.Key]++
			if n[task.Key] > most {
				return fmt.Errorf("%d tasks of %q are leased, the limit is %d", n[task.Key], task.Key, most)
			}
		}
		if len(w.tasks) > 9 {
			return fmt.Errorf("%d tasks are leased, the limit is 9", len(w.tasks))
		}
		return nil
	})
}

// workLimited drains a queue by several clients that do not always end what they take. It returns all that it knows.
func (t *test) workLimited(l admin.QueueLimits, key func(i int) string, most func(w *working) error) *working {
	const clients, tasks = 5, 150
	first := t.open()
	t.limit(first, "q", l)
	w := &working{tasks: map[uuid.UUID]dbq.Task{}, fence: map[uuid.UUID]int64{}, most: most, ends: map[uuid.UUID]bool{}}
	w.ids = t.enqueueMany(first.Queue("q"), tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = key(i), 1000 })
	var done sync.Map
	left := func() int {
		n := tasks
		done.Range(func(any, any) bool { n--; return true })
		return n
	}
	var all sync.WaitGroup
	for k := range clients {
		c, seed := t.open(), t.rand.Uint64()
		all.Go(func() {
			q := c.Queue("q")
			for n := seed; left() > 0 && t.ctx.Err() == nil && !t.failed(); n = n*6364136223846793005 + 1442695040888963407 {
				ctx, cancel := t.ctx, context.CancelFunc(func() {})
				if n>>40%16 == 0 { // a worker that is killed in the middle
					ctx, cancel = context.WithTimeout(t.ctx, time.Duration(n>>44%4000)*time.Microsecond)
				}
				got, err := q.Checkout(ctx, 1+int(n>>50%5), 400*time.Millisecond)
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("client %d: %v", k, err)
					}
					continue
				}
				if err := w.taken(got); err != nil {
					t.Errorf("client %d: %v", k, err)
					return
				}
				if len(got) == 0 {
					_ = sleep(t.ctx, 5*time.Millisecond)
				}
				for i, task := range got {
					o := dbq.Completed(nil)
					switch n >> (20 + i) % 16 {
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
	}
	all.Wait()
	if n := left(); n > 0 && !t.failed() {
		t.Errorf("%d of %d tasks were not done", n, tasks)
	}
	return w
}

// queue is a queue of the case's own name.
func (t *test) limited(l admin.QueueLimits) (*dbq.Client, *dbq.Queue) {
	c := t.open()
	q := c.Queue("limited " + uuid.NewString())
	t.limit(c, q.Name(), l)
	return c, q
}

// takeEventually checks out tasks until it has n, of a queue that may have just got its limits.
func (t *test) takeEventually(q *dbq.Queue, n int, lease time.Duration) (tasks []dbq.Task) {
	t.eventually(fmt.Sprint(n, " tasks are handed out"), func() bool {
		tasks = append(tasks, t.checkout(q, 100, lease)...)
		return len(tasks) >= n
	})
	if len(tasks) != n {
		t.Fatalf("%d tasks are leased, the limit is %d", len(tasks), n)
	}
	return tasks
}

func limitTakeover(t *test) {
	_, q := t.limited(admin.QueueLimits{Leased: 2})
	other := t.open().Queue(q.Name())
	t.wantNone("of an empty queue", other) // so that its next checkouts do not search for expired leases first
	t.enqueueMany(q, 5, nil)
	abandoned := map[uuid.UUID]bool{}
	for _, task := range t.takeEventually(q, 2, 20*time.Millisecond) {
		abandoned[task.ID] = true
		t.awaitExpiry(q.Client(), task.ID)
	}
	for _, task := range t.takeEventually(other, 2, long) {
		if !abandoned[task.ID] {
			t.Errorf("task %s started in a slot of a task that is to be taken over", task.ID)
		}
		t.must(other.Complete(t.ctx, task.Lease, nil))
	}
	if got := t.checkout(q, 10, long); len(got) != 2 {
		t.Errorf("%d tasks start after two have ended, want 2", len(got))
	}
}

func limitEnds(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 1})
	ends := map[string]func(task dbq.Task) error{
		"complete": func(task dbq.Task) error { return q.Complete(t.ctx, task.Lease, nil) },
		"retry":    func(task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errBoom)) },
		"release":  func(task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Released(long)) },
		"delete":   func(task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Deleted()) },
		"poison":   func(task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)) },
		"cancel":   func(task dbq.Task) error { return admin.New(c).Operate(t.ctx, admin.Cancel, task.ID) },
	}
	t.enqueueMany(q, len(ends)+1, nil)
	for name, end := range ends {
		task := t.takeEventually(q, 1, long)[0]
		t.wantNone("at the limit", q)
		if err := end(task); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.takeEventually(q, 1, long)
}

func limitEdited(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 2})
	t.enqueueMany(q, 20, nil)
	running := t.takeEventually(q, 2, long)
	t.limit(c, q.Name(), admin.QueueLimits{Leased: 5})
	running = append(running, t.takeEventually(q, 3, long)...)
	t.limit(c, q.Name(), admin.QueueLimits{Leased: 2})
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
	t.takeEventually(q, 1, long)
	t.wantNone("at the lowered limit", q)
	t.limit(c, q.Name(), admin.QueueLimits{})
	t.takeEventually(q, 14, long)
	if l, err := admin.New(c).QueueLimits(t.ctx, q.Name()); err != nil || l != (admin.QueueLimits{}) {
		t.Errorf("the removed limits are %+v and error %v", l, err)
	}
}

func limitRolledBack(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 1})
	t.enqueueMany(q, 2, nil)
	task := t.takeEventually(q, 1, long)[0]
	tx := t.beginTx(c)
	t.must(q.CompleteTx(t.ctx, tx, task.Lease, nil))
	t.must(tx.Rollback())
	t.wantNone("after a settlement that was rolled back", q)
	tx = t.beginTx(c)
	t.must(q.CompleteTx(t.ctx, tx, task.Lease, nil))
	t.must(tx.Commit())
	t.takeEventually(q, 1, long)
}

func limitOther(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 1})
	other := c.Queue(q.Name() + " other")
	t.enqueueMany(other, 3, nil)
	t.enqueueMany(q, 3, nil)
	if got := t.checkout(other, 10, long); len(got) != 3 {
		t.Errorf("a queue without limits hands out %d tasks, want 3", len(got))
	}
	t.takeEventually(q, 1, long)
	t.wantNone("at the limit", q)
}

func limitPaused(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 1, PerKey: true})
	t.enqueueMany(q, 3, nil)
	t.must(admin.New(c).PauseQueue(t.ctx, q.Name()))
	other := t.open().Queue(q.Name())
	for range 3 {
		t.wantNone("paused", q)
		t.wantNone("paused", other)
	}
	t.must(admin.New(c).ResumeQueue(t.ctx, q.Name()))
	t.takeEventually(q, 1, long)
	t.wantNone("at the limit", q)
}

func limitBytes(t *test) {
	for _, perKey := range []bool{false, true} {
		c := t.open(dbq.WithMaxCheckoutBytes(1 << 20))
		q := c.Queue("limited " + uuid.NewString())
		t.limit(c, q.Name(), admin.QueueLimits{Leased: 10, PerKey: perKey})
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

func limitLocked(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 3, PerKey: true})
	if c.Info().Server.OneWriter {
		t.Skipf("%s locks no single rows", c.Info().Server.Product)
	}
	t.enqueueMany(q, 1, func(_ int, nt *dbq.NewTask) { nt.Key = "a" })
	first := t.takeEventually(q, 1, long)[0]
	t.enqueueMany(q, 3, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("b", i) })
	tx := t.beginTx(c)
	defer tx.Rollback()
	t.must(q.CompleteTx(t.ctx, tx, first.Lease, nil)) // holds the row's lock
	t.takeEventually(q, 2, long)
	t.wantNone("at the limit", q)
}

func limitBad(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 3})
	for name, l := range map[string]admin.QueueLimits{
		"a negative limit":         {Leased: -1},
		"a negative limit per key": {KeyLeased: -1},
		"a large limit":            {Leased: 1 << 40},
		"no starts":                {Rate: admin.Rate{Per: time.Second, Burst: 1}},
		"negative starts":          {Rate: admin.Rate{Starts: -1, Per: time.Second, Burst: 1}},
		"no time":                  {Rate: admin.Rate{Starts: 1, Burst: 1}},
		"a negative time":          {Rate: admin.Rate{Starts: 1, Per: -time.Second, Burst: 1}},
		"no burst":                 {Rate: admin.Rate{Starts: 1, Per: time.Second}},
		"a negative burst":         {Rate: admin.Rate{Starts: 1, Per: time.Second, Burst: -1}},
		"no starts of a key":       {KeyRate: admin.Rate{Per: time.Second, Burst: 1}},
		"no burst of a key":        {KeyRate: admin.Rate{Starts: 1, Per: time.Second}},
		"a burst of centuries":     {Rate: admin.Rate{Starts: 1, Per: 1000 * time.Hour, Burst: 1_000_000}},
	} {
		err := admin.New(c).ConfigureLimits(t.ctx, q.Name(), func(now *admin.QueueLimits) { *now = l })
		t.wantErr(name, err, dbq.ErrOption)
		t.wantErr(name, err, dbq.ErrInvalid)
	}
	t.wantErr("no queue", admin.New(c).ConfigureLimits(t.ctx, "", func(*admin.QueueLimits) {}), dbq.ErrQueueName)
	if l, err := admin.New(t.open()).QueueLimits(t.ctx, q.Name()); err != nil || l != (admin.QueueLimits{Leased: 3}) {
		t.Errorf("the limits are %+v and error %v, want those from before", l, err)
	}
}
