package conformance

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

func wakeCases() []Case {
	return inGroup("Wake",
		Case{Name: "NextTellsWhen", Law: "Next tells how long it is until a task of the queue is due or a lease runs out, whatever else is in the table.",
			run: wakeNext, once: true},
		Case{Name: "EnqueueRings", Law: "A bell rings for every enqueue of its process into its queue, and for no other queue's.",
			run: wakeEnqueue, once: true},
		Case{Name: "ReenqueueRingsItsQueue", Law: "Operators' events that make tasks due ring the bells of the tasks' queues, and no others.",
			run: wakeReenqueue, once: true},
		Case{Name: "LaterRingsWhenDue", Law: "A bell rings when a task is due that its process enqueued, released or failed for later, and not before.",
			run: wakeLater, once: true},
		Case{Name: "CommitRings", Law: "A bell rings after the commit of a transaction that enqueued, when that follows at once.",
			run: wakeTx, once: true},
		Case{Name: "OtherProcessRings", Law: "On an engine that notifies, a bell rings for what another process enqueues.",
			run: wakeAcross, once: true},
		Case{Name: "OperatorsRing", Law: "A bell of operators rings for settings of its queue and for orders to its workers, on an engine that notifies also " +
			"from another process, and for no enqueue.",
			run: wakeOperators, once: true},
		Case{Name: "OneWorkerForATask", once: true, run: wakeHerd,
			Law: "However many workers of a process are idle, an enqueue makes about one of them check out, and none before the task is due."},
		Case{Name: "OneProcessForATask", once: true, run: wakeHerdAcross,
			Law: "On an engine that notifies, the same holds for workers of other processes."},
		Case{Name: "DenseDelays", once: true, run: wakeDense,
			Law: "A bell rings when each of a dense stream of delayed tasks is due, however many are enqueued behind it."},
		Case{Name: "ListenerComesBack", Law: "A client that listens listens again after its connection was cut, and rings for what it may have missed.",
			run: wakeCut, once: true},
	)
}

func wakeNext(t *T) {
	c := t.Open()
	q := c.Queue("q")
	want := func(what string, least, most time.Duration) {
		wait, ok, err := q.Next(t.ctx)
		t.Must(err)
		if !ok || wait < least || wait > most {
			t.Errorf("%s: Next is %v, %v, want between %v and %v", what, wait, ok, least, most)
		}
	}
	t.enqueue(c.Queue("another"), dbq.NewTask{})
	if wait, ok, err := q.Next(t.ctx); ok || err != nil {
		t.Errorf("of an empty queue Next is %v, %v, %v, want nothing", wait, ok, err)
	}
	last := t.enqueue(q, dbq.NewTask{Priority: dbq.MaxPriority, Delay: 2 * time.Hour})
	want("a delayed task of the last priority", time.Hour, 2*time.Hour)
	t.enqueue(q, dbq.NewTask{Delay: 5 * time.Hour})
	want("a task of the first priority that is due later", time.Hour, 2*time.Hour)
	t.Must(c.Reject(t.ctx, last))
	want("the first one is parked", 4*time.Hour, 5*time.Hour)
	task := t.takeNew(q, dbq.NewTask{Priority: 3}, 30*time.Minute)
	want("a lease that runs out before", 20*time.Minute, 30*time.Minute)
	_, err := q.Extend(t.ctx, task.Lease, short)
	t.Must(err)
	t.ranOut(c, task.ID)
	want("a lease that ran out", 0, 0)
	t.Must(q.Complete(t.ctx, t.takeOver(q, task.ID, long).Lease, nil))
	want("it is completed", 4*time.Hour, 5*time.Hour)
	t.enqueue(q, dbq.NewTask{Priority: 7})
	want("a task that is due", 0, 0)
}

// rang reports whether a bell rings within a time.
func rang(b *dbq.Bell, within time.Duration) bool {
	select {
	case <-b.Wait(1):
		return true
	case <-time.After(within):
		return false
	}
}

// hears reports whether notifications of other processes can reach a client.
func hears(c *dbq.Client) bool { return c.Server().Notifies && c.Server().Pooler == "" }

// needsNotifications ends a case that cannot be checked without them.
func (t *T) needsNotifications(c *dbq.Client) {
	if p := c.Server().Pooler; p != "" {
		t.Skipf("no notification reaches a client through %s", p)
	}
	if !c.Server().Notifies {
		t.Skipf("%s has no notifications", c.Server().Product)
	}
}

// bell takes a bell that has finished with its beginnings: a client that begins to listen rings once.
func (t *T) bell(q *dbq.Queue) *dbq.Bell {
	b := q.Bell()
	t.Cleanup(b.Close)
	if hears(q.Client()) {
		t.eventually("the client listens", q.Client().Listening)
		rang(b, patience)
	}
	return b
}

func wakeEnqueue(t *T) {
	c, other := t.Open(), t.Open()
	b := t.bell(c.Queue("q"))
	for name, enqueue := range map[string]*dbq.Queue{"the same client": c.Queue("q"), "another client": other.Queue("q")} {
		t.enqueue(enqueue, dbq.NewTask{})
		if !rang(b, patience) {
			t.Errorf("no ring for an enqueue by %s", name)
		}
	}
	t.enqueue(c.Queue("another"), dbq.NewTask{})
	if rang(b, 50*time.Millisecond) {
		t.Errorf("a ring for an enqueue into another queue")
	}
	_, err := c.Queue("q").EnqueueMany(t.ctx, nil)
	t.Must(err)
	if rang(b, 20*time.Millisecond) {
		t.Errorf("a ring for an enqueue of nothing")
	}
	b.Close()
	t.enqueue(c.Queue("q"), dbq.NewTask{})
	if rang(b, 20*time.Millisecond) {
		t.Errorf("a closed bell rings")
	}
}

func wakeReenqueue(t *T) {
	c := t.Open()
	mine, other := t.bell(c.Queue("q")), c.Queue("another").Bell()
	defer other.Close()
	operators, others := c.Queue("q").OperatorBell(), c.Queue("another").OperatorBell()
	defer operators.Close()
	defer others.Close()
	var ids []uuid.UUID
	for range 3 {
		task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
		t.Must(c.Queue("q").Poison(t.ctx, task.Lease, nil))
		ids = append(ids, task.ID)
	}
	clients := map[string]*dbq.Client{"this process": c}
	if hears(c) {
		clients["another process"] = t.elsewhere(c)
	}
	step := func(what string, rings bool, do func() error) {
		mine.Look() // at what rang before
		t.Must(do())
		if rings && !rang(mine, patience) {
			t.Errorf("%s: no ring", what)
		}
		if !rings && rang(mine, 30*time.Millisecond) {
			t.Errorf("%s: a ring, though nothing became due", what)
		}
		if rang(other, 30*time.Millisecond) || rang(operators, 0) || rang(others, 0) {
			t.Errorf("%s: a ring for workers of another queue, or for operators' bells", what)
		}
	}
	for name, c := range clients {
		step("restore by "+name, false, func() error { return c.Restore(t.ctx, ids[0]) })
		step("reenqueue by "+name, true, func() error { return c.Reenqueue(t.ctx, ids[0]) })
		step("reject by "+name, false, func() error { return c.Reject(t.ctx, ids[0]) })
		step("reenqueue by filter by "+name, true, func() error {
			_, err := c.ReenqueueMany(t.ctx, dbq.Filter{Limit: 10})
			return err
		})
		for _, task := range t.checkout(c.Queue("q"), 10, long) {
			t.Must(c.Queue("q").Poison(t.ctx, task.Lease, nil))
		}
	}
}

func wakeLater(t *T) {
	c := t.Open(dbq.WithoutNotify())
	q := c.Queue("q")
	b := q.Bell()
	t.Cleanup(b.Close)
	const later = 300 * time.Millisecond
	check := func(what string, act func()) {
		act()
		begin := time.Now() // the task is due later after a moment before this
		if !rang(b, patience) {
			t.Errorf("%s: no ring", what)
		} else if took := time.Since(begin); took < later/2 {
			t.Errorf("%s: the bell rang after %v", what, took)
		}
		if tasks := t.checkout(q, 10, long); len(tasks) != 1 {
			t.Errorf("%s: at the ring %d tasks are due, want 1", what, len(tasks))
		} else {
			t.Must(q.Complete(t.ctx, tasks[0].Lease, nil))
		}
	}
	check("enqueued with a delay", func() { t.enqueue(q, dbq.NewTask{Delay: later}) })
	take := func() dbq.Lease {
		task := t.takeNew(q, dbq.NewTask{}, long)
		rang(b, patience) // of the enqueue
		return task.Lease
	}
	check("released", func() { t.Must(q.Release(t.ctx, take(), later)) })
	check("failed", func() { t.Must(q.Fail(t.ctx, take(), dbq.RetryIn(later), nil)) })
}

func wakeTx(t *T) {
	c := t.Open(dbq.WithoutNotify())
	q := c.Queue("q")
	b := q.Bell()
	t.Cleanup(b.Close)
	tx, err := c.DB().BeginTx(t.ctx, nil)
	t.Must(err)
	defer tx.Rollback()
	_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{})
	t.Must(err)
	rang(b, patience) // maybe before the commit
	t.Must(tx.Commit())
	if !rang(b, patience) {
		t.Errorf("no ring after the commit")
	}
}

// elsewhere is a client that shares no bells with those of this process, as if it were in another.
func (t *T) elsewhere(c *dbq.Client) *dbq.Client {
	other, err := dbq.New(t.ctx, c.DB(), t.dialect(), dbq.WithPrefix(t.prefix), dbq.WithLogger(quietLog))
	t.Must(err)
	t.Cleanup(func() { other.Close() })
	return other
}

func wakeAcross(t *T) {
	c := t.Open()
	t.needsNotifications(c)
	b, far := t.bell(c.Queue("q")), t.elsewhere(t.Open()).Queue("q")
	t.enqueue(far, dbq.NewTask{})
	if !rang(b, patience) {
		t.Errorf("no ring for another process's enqueue")
	}
	for range 20 { // a notification for each of the first and the last at least
		t.enqueue(far, dbq.NewTask{})
	}
	if !rang(b, patience) {
		t.Errorf("no ring for another process's enqueues in a row")
	}
	silent := t.Open(dbq.WithoutNotify())
	deaf := silent.Queue("q").Bell()
	defer deaf.Close()
	if silent.Listening() {
		t.Errorf("a client without notifications listens")
	}
}

func wakeOperators(t *T) {
	c := t.Open()
	q := c.Queue("q")
	b := q.OperatorBell()
	t.Cleanup(b.Close)
	operators := map[string]*dbq.Client{"this process": t.Open()}
	if hears(c) {
		t.eventually("the client listens", c.Listening)
		rang(b, patience) // it begins to listen
		operators["another process"] = t.elsewhere(c)
	}
	_, err := c.Announce(t.ctx, dbq.WorkerInfo{ID: "w", Queue: "q"}, time.Hour)
	t.Must(err)
	for name, operator := range operators {
		t.Must(operator.Queue("another").Configure(t.ctx, func(s *dbq.QueueSettings) { s.Batch = 7 }))
		t.enqueue(operator.Queue("q"), dbq.NewTask{})
		if rang(b, 50*time.Millisecond) {
			t.Errorf("a ring for an enqueue, or for another queue's settings")
		}
		t.Must(operator.Queue("q").Configure(t.ctx, func(s *dbq.QueueSettings) { s.Batch++ }))
		if !rang(b, patience) {
			t.Errorf("no ring for settings from %s", name)
		}
		t.Must(operator.OrderWorker(t.ctx, "w", dbq.OrderPause))
		if !rang(b, patience) {
			t.Errorf("no ring for an order from %s", name)
		}
	}
}

func wakeCut(t *T) {
	t.needsNotifications(t.Open())
	p, dsn := t.throughProxy()
	c, err := dbq.Open(t.ctx, dsn, dbq.WithPrefix(t.prefix), dbq.WithLogger(quietLog))
	t.Must(err)
	t.Cleanup(func() { c.Close() })
	b := t.bell(c.Queue("q"))
	p.cut()
	if !rang(b, patience) {
		t.Errorf("no ring after the connection was cut and made again")
	}
	t.enqueue(t.elsewhere(t.Open()).Queue("q"), dbq.NewTask{})
	if !rang(b, patience) {
		t.Errorf("no ring for another process's enqueue after the connection was cut")
	}
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if _, _, err := c.Queue("q").Next(ctx); err != nil {
		t.Errorf("the pool after the cut: %v", err)
	}
}
