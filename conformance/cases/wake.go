package cases

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

func wakeCases() []Case {
	return inGroup("Wake",
		Case{Name: "NextReportsWait", Once: true, run: wakeNext,
			Law: "Next returns how long it is until a task of the queue is due or a lease expires, whatever else the table " +
				"contains."},
		Case{Name: "EnqueueWakes", Once: true, run: wakeEnqueue,
			Law: "Every enqueue wakes the waiters of its queue in the same process, and those of no other queue."},
		Case{Name: "ReenqueueWakesItsQueue", Once: true, run: wakeReenqueue,
			Law: "Operators' events that make tasks due wake the waiters of the tasks' queues, and no others."},
		Case{Name: "DelayedWakesWhenDue", Once: true, run: wakeLater,
			Law: "A task that was enqueued, released or failed for later wakes the waiters in its process when it is due, " +
				"and not before."},
		Case{Name: "CommitWakes", Once: true, run: wakeTx,
			Law: "A transaction that enqueued wakes the waiters after its commit, when the commit follows at once."},
		Case{Name: "OtherProcessWakes", Once: true, run: wakeAcross,
			Law: "On an engine that notifies, an enqueue wakes the waiters of other processes."},
		Case{Name: "ControlWakes", Once: true, run: wakeOperators,
			Law: "Settings of a queue and commands to its workers wake those that wait for control, on an engine that " +
				"notifies also in other processes; an enqueue does not."},
		Case{Name: "OneWorkerForATask", Slow: true, Once: true, run: wakeHerd,
			Law: "However many workers of a process are idle, an enqueue makes about one of them check out, and none before " +
				"the task is due."},
		Case{Name: "OneProcessForATask", Slow: true, Once: true, run: wakeHerdAcross,
			Law: "On an engine that notifies, an enqueue makes about one idle worker check out, however many processes have " +
				"idle workers."},
		Case{Name: "DenseDelays", Once: true, run: wakeDense,
			Law: "In a dense stream of delayed tasks, waiters are woken when tasks become due, however many are enqueued " +
				"behind them."},
		Case{Name: "ListenerReconnects", Once: true, run: wakeCut,
			Law: "A client whose listening connection was cut listens again, and wakes its waiters for what it may have " +
				"missed."},
	)
}

func wakeNext(t *test) {
	c := t.open()
	q := c.Queue("q")
	want := func(what string, least, most time.Duration) {
		wait, ok, err := waker(c).Next(t.ctx, "q")
		t.must(err)
		if !ok || wait < least || wait > most {
			t.Errorf("%s: Next is %v, %v, want between %v and %v", what, wait, ok, least, most)
		}
	}
	t.enqueue(c.Queue("another"), dbq.NewTask{})
	if wait, ok, err := waker(c).Next(t.ctx, "q"); ok || err != nil {
		t.Errorf("of an empty queue Next is %v, %v, %v, want nothing", wait, ok, err)
	}
	last := t.enqueue(q, dbq.NewTask{Priority: dbq.MaxPriority, Delay: 2 * time.Hour})
	want("a delayed task of the last priority", time.Hour, 2*time.Hour)
	t.enqueue(q, dbq.NewTask{Delay: 5 * time.Hour})
	want("a task of the first priority that is due later", time.Hour, 2*time.Hour)
	t.must(admin.New(c).Operate(t.ctx, admin.Reject, last))
	want("the first one is parked", 4*time.Hour, 5*time.Hour)
	task := t.takeNew(q, dbq.NewTask{Priority: 3}, 30*time.Minute)
	want("a lease that expires before", 20*time.Minute, 30*time.Minute)
	_, err := q.Extend(t.ctx, task.Lease, short)
	t.must(err)
	t.awaitExpiry(c, task.ID)
	want("an expired lease", 0, 0)
	t.must(q.Complete(t.ctx, t.takeOver(q, task.ID, long).Lease, nil))
	want("it is completed", 4*time.Hour, 5*time.Hour)
	t.enqueue(q, dbq.NewTask{Priority: 7})
	want("a task that is due", 0, 0)
}

// waker returns a client's access to wake-ups.
func waker(c *dbq.Client) *wake.Waker { return access.Of(c).Wake }

// woken reports whether a waiter for tasks is woken within a time.
func woken(w *wake.Waiter, within time.Duration) bool { return receives(w.Wait(1), within) }

func receives(c <-chan wake.Wakeup, within time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(within):
		return false
	}
}

func listening(c *dbq.Client) func() bool { return func() bool { return c.Stats().Listening } }

// receivesNotifications reports whether notifications of other processes can reach a client.
func receivesNotifications(c *dbq.Client) bool {
	return c.Info().Server.Notifies && c.Info().Server.Pooler == ""
}

// needsNotifications skips a case that cannot be checked without notifications.
func (t *test) needsNotifications(c *dbq.Client) {
	if p := c.Info().Server.Pooler; p != "" {
		t.Skipf("no notification reaches a client through %s", p)
	}
	if !c.Info().Server.Notifies {
		t.Skipf("%s has no notifications", c.Info().Server.Product)
	}
}

// listening returns a waiter for the tasks of queue "q" that has been woken once, as by a client that begins to listen.
func (t *test) listening(c *dbq.Client) *wake.Waiter {
	w := t.waiter(c)
	if receivesNotifications(c) {
		t.eventually("the client listens", listening(c))
		woken(w, t.Patience)
	}
	return w
}

// waiter returns a waiter for the tasks of queue "q".
func (t *test) waiter(c *dbq.Client) *wake.Waiter {
	w := waker(c).TaskWaiter("q")
	t.Cleanup(w.Close)
	return w
}

func wakeEnqueue(t *test) {
	c, other := t.open(), t.open()
	w := t.listening(c)
	for name, enqueue := range map[string]*dbq.Queue{"the same client": c.Queue("q"), "another client": other.Queue("q")} {
		t.enqueue(enqueue, dbq.NewTask{})
		if !woken(w, t.Patience) {
			t.Errorf("not woken by an enqueue of %s", name)
		}
	}
	t.enqueue(c.Queue("another"), dbq.NewTask{})
	if woken(w, 50*time.Millisecond) {
		t.Errorf("woken by an enqueue into another queue")
	}
	_, err := c.Queue("q").EnqueueMany(t.ctx, nil)
	t.must(err)
	if woken(w, 20*time.Millisecond) {
		t.Errorf("woken by an enqueue of nothing")
	}
	w.Close()
	t.enqueue(c.Queue("q"), dbq.NewTask{})
	if woken(w, 20*time.Millisecond) {
		t.Errorf("a closed waiter was woken")
	}
}

func wakeReenqueue(t *test) {
	c := t.open()
	mine, other := t.listening(c), waker(c).TaskWaiter("another")
	defer other.Close()
	control, others := waker(c).ControlWaiter("q"), waker(c).ControlWaiter("another")
	defer control.Close()
	defer others.Close()
	var ids []uuid.UUID
	for range 3 {
		task := t.takeNew(c.Queue("q"), dbq.NewTask{Key: "k"}, long)
		t.must(c.Queue("q").Settle(t.ctx, task.Lease, dbq.Poisoned(nil)))
		ids = append(ids, task.ID)
	}
	clients := map[string]*dbq.Client{"this process": c}
	if receivesNotifications(c) {
		clients["another process"] = t.otherProcess(c)
	}
	step := func(what string, wakes bool, do func() error) {
		mine.BeforeCheckout() // serves what came before
		t.must(do())
		if wakes && !woken(mine, t.Patience) {
			t.Errorf("%s: not woken", what)
		}
		if !wakes && woken(mine, 30*time.Millisecond) {
			t.Errorf("%s: woken, though nothing became due", what)
		}
		if woken(other, 30*time.Millisecond) || receives(control.C(), 0) || receives(others.C(), 0) {
			t.Errorf("%s: workers of another queue, or waiters for control, were woken", what)
		}
	}
	for name, c := range clients {
		step("restore by "+name, false, func() error { return admin.New(c).Operate(t.ctx, admin.Restore, ids[0]) })
		step("reenqueue by "+name, true, func() error { return admin.New(c).Operate(t.ctx, admin.Reenqueue, ids[0]) })
		step("reject by "+name, false, func() error { return admin.New(c).Operate(t.ctx, admin.Reject, ids[0]) })
		step("reenqueue by filter by "+name, true, func() error {
			_, err := admin.New(c).OperateMany(t.ctx, admin.Reenqueue, admin.Filter{Limit: 10})
			return err
		})
		for _, task := range t.checkout(c.Queue("q"), 10, long) {
			t.must(c.Queue("q").Settle(t.ctx, task.Lease, dbq.Poisoned(nil)))
		}
	}
}

func wakeLater(t *test) {
	c := t.open(dbq.WithoutNotify())
	q, w := c.Queue("q"), t.waiter(c)
	const later = 300 * time.Millisecond
	check := func(what string, act func()) {
		act()
		begin := time.Now() // the task is due later after a moment before this
		if !woken(w, t.Patience) {
			t.Errorf("%s: not woken", what)
		} else if took := time.Since(begin); took < later/2 {
			t.Errorf("%s: woken after %v", what, took)
		}
		if tasks := t.checkout(q, 10, long); len(tasks) != 1 {
			t.Errorf("%s: at the wake-up %d tasks are due, want 1", what, len(tasks))
		} else {
			t.must(q.Complete(t.ctx, tasks[0].Lease, nil))
		}
	}
	check("enqueued with a delay", func() { t.enqueue(q, dbq.NewTask{Delay: later}) })
	take := func() dbq.Lease {
		task := t.takeNew(q, dbq.NewTask{}, long)
		woken(w, t.Patience) // of the enqueue
		return task.Lease
	}
	check("released", func() { t.must(q.Settle(t.ctx, take(), dbq.Released(later))) })
	check("failed", func() { t.must(q.Settle(t.ctx, take(), dbq.RetryIn(later, nil))) })
}

func wakeTx(t *test) {
	c := t.open(dbq.WithoutNotify())
	q, w := c.Queue("q"), t.waiter(c)
	tx, err := c.DB().BeginTx(t.ctx, nil)
	t.must(err)
	defer tx.Rollback()
	_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{})
	t.must(err)
	woken(w, t.Patience) // maybe before the commit
	t.must(tx.Commit())
	if !woken(w, t.Patience) {
		t.Errorf("not woken after the commit")
	}
}

// otherProcess returns a client that shares no waiters with those of this process, as if it were in another one.
func (t *test) otherProcess(c *dbq.Client) *dbq.Client {
	other, err := dbq.New(t.ctx, c.DB(), t.dialect(), dbq.WithPrefix(t.Prefix), dbq.WithLogger(quietLog))
	t.must(err)
	t.Cleanup(func() { other.Close() })
	return other
}

func wakeAcross(t *test) {
	c := t.open()
	t.needsNotifications(c)
	w, far := t.listening(c), t.otherProcess(t.open()).Queue("q")
	t.enqueue(far, dbq.NewTask{})
	if !woken(w, t.Patience) {
		t.Errorf("not woken by another process's enqueue")
	}
	for range 20 { // a notification for each of the first and the last at least
		t.enqueue(far, dbq.NewTask{})
	}
	if !woken(w, t.Patience) {
		t.Errorf("not woken by another process's enqueues in a row")
	}
	silent := t.open(dbq.WithoutNotify())
	t.waiter(silent)
	if silent.Stats().Listening {
		t.Errorf("a client without notifications listens")
	}
}

func wakeOperators(t *test) {
	c := t.open()
	w := waker(c).ControlWaiter("q")
	t.Cleanup(w.Close)
	operators := map[string]*dbq.Client{"this process": t.open()}
	if receivesNotifications(c) {
		t.eventually("the client listens", listening(c))
		receives(w.C(), t.Patience) // it begins to listen
		operators["another process"] = t.otherProcess(c)
	}
	_, err := access.Of(c).Control.Report(t.ctx, control.Worker{ID: "w", Queue: "q"}, time.Hour)
	t.must(err)
	for name, operator := range operators {
		ops := admin.New(operator)
		t.must(ops.ConfigureQueue(t.ctx, "another", func(s *admin.QueueSettings) { s.Batch = 7 }))
		t.enqueue(operator.Queue("q"), dbq.NewTask{})
		if receives(w.C(), 50*time.Millisecond) {
			t.Errorf("woken by an enqueue, or by another queue's settings")
		}
		t.must(ops.ConfigureQueue(t.ctx, "q", func(s *admin.QueueSettings) { s.Batch++ }))
		if !receives(w.C(), t.Patience) {
			t.Errorf("not woken by settings from %s", name)
		}
		t.must(ops.CommandWorker(t.ctx, "w", dbq.CommandPause))
		if !receives(w.C(), t.Patience) {
			t.Errorf("not woken by a command from %s", name)
		}
	}
}

func wakeCut(t *test) {
	t.needsNotifications(t.open())
	p, dsn := t.throughProxy()
	c, err := dbq.Open(t.ctx, dsn, dbq.WithPrefix(t.Prefix), dbq.WithLogger(quietLog))
	t.must(err)
	t.Cleanup(func() { c.Close() })
	w := t.listening(c)
	p.CutAll()
	if !woken(w, t.Patience) {
		t.Errorf("not woken after the connection was cut and made again")
	}
	t.enqueue(t.otherProcess(t.open()).Queue("q"), dbq.NewTask{})
	if !woken(w, t.Patience) {
		t.Errorf("not woken by another process's enqueue after the connection was cut")
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience)
	defer cancel()
	if _, _, err := waker(c).Next(ctx, "q"); err != nil {
		t.Errorf("the pool after the cut: %v", err)
	}
}
