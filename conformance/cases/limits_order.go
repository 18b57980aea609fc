package cases

import (
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// orderCases are the laws of queues with an order of each key.
func orderCases() []Case {
	return inGroup("Limits",
		Case{Name: "OrderOfAKey", run: limitOrder,
			Law: "In a queue with an order, a task starts only when all earlier tasks of its key have ended, though many " +
				"clients check out at once and tasks fail, are released, cancelled and abandoned."},
		Case{Name: "WaitingTaskKeepsItsPlace", SharedTables: true, run: limitOrderWaits,
			Law: "A task that is delayed, is released for later or waits for a retry keeps later tasks of its key waiting, " +
				"and those of no other key."},
		Case{Name: "OrderAtPoison", SharedTables: true, run: limitOrderPoison,
			Law: "A task in POISON or parked keeps the later tasks of its key waiting, or is skipped, as the queue is set; " +
				"one that was cancelled or removed does neither."},
		Case{Name: "FreedPlaceWakesAWorker", Once: true, run: limitOrderWakes,
			Law: "An operator's event that may let a later task of a key start, by any client or in a transaction, wakes an " +
				"idle worker."},
		Case{Name: "OrderBehindManyTasks", SharedTables: true, run: limitOrderMany,
			Law: "The order of each key is kept behind more due tasks than a checkout reads, and the keys are served in turn."},
		Case{Name: "OrderSurvivesCrash", run: orderKilled,
			Law: "Though processes are killed while they hold tasks, no two tasks of a key are ever held at once in a queue " +
				"with an order, each starts after those before it have ended, and all are done in the end."},
	)
}

func limitOrder(t *test) {
	const keys = 7
	key := func(i int) string { return fmt.Sprint("key ", i%keys) }
	t.workLimited(admin.QueueLimits{Order: admin.OrderSkip}, key, func(w *working) error {
		place := map[uuid.UUID]int{}
		for i, id := range w.ids {
			place[id] = i
		}
		for id, task := range w.tasks {
			if w.ends[id] {
				continue // it was taken over, since the call that ends it came too late
			}
			for i := place[id] - keys; i >= 0; i -= keys {
				if !w.ends[w.ids[i]] {
					return fmt.Errorf("task %d of %q started before task %d has ended", place[id], task.Key, i)
				}
			}
		}
		return nil
	})
}

// wantStarted checks that the tasks of some ids start, and no others. It returns them in the order of ids.
func (t *test) wantStarted(when string, q *dbq.Queue, ids ...uuid.UUID) (tasks []dbq.Task) {
	if len(ids) == 0 {
		t.wantNone(when, q)
		return nil
	}
	place := func(task dbq.Task) int { return slices.Index(ids, task.ID) }
	tasks = t.takeEventually(q, len(ids), long)
	for _, task := range tasks {
		if place(task) < 0 {
			t.Fatalf("%s: task %s of key %q started, want %v", when, task.ID, task.Key, ids)
		}
	}
	slices.SortFunc(tasks, func(a, b dbq.Task) int { return place(a) - place(b) })
	t.wantNone(when+", and the others have started", q)
	return tasks
}

func limitOrderWaits(t *test) {
	c, q := t.limited(admin.QueueLimits{Order: admin.OrderBlock})
	ops := admin.New(c)
	var ids []uuid.UUID
	for i := range 6 {
		nt := dbq.NewTask{Key: []string{"a", "b"}[i%2]}
		if i == 0 {
			nt.Delay = long
		}
		ids = append(ids, t.enqueue(q, nt))
	}
	b := t.wantStarted("the first of a is delayed", q, ids[1])[0]
	t.must(ops.Operate(t.ctx, admin.Cancel, ids[0]))
	a := t.wantStarted("it is cancelled", q, ids[2])[0]
	t.must(q.Settle(t.ctx, a.Lease, dbq.RetryIn(long, errBoom)))
	t.must(q.Settle(t.ctx, b.Lease, dbq.Released(long)))
	t.wantStarted("one waits for its retry and one was released for later", q)
	t.must(ops.Operate(t.ctx, admin.Reenqueue, ids[2]))
	a = t.wantStarted("the retry is due", q, ids[2])[0]
	t.must(q.Complete(t.ctx, a.Lease, nil))
	t.wantStarted("it is completed", q, ids[4])
}

func limitOrderPoison(t *test) {
	for _, order := range []admin.KeyOrder{admin.OrderBlock, admin.OrderSkip} {
		c, q := t.limited(admin.QueueLimits{Order: order})
		ops := admin.New(c)
		ids := t.enqueueMany(q, 10, func(i int, nt *dbq.NewTask) { nt.Key = []string{"a", "b"}[i%2] })
		started := t.wantStarted("at first", q, ids[0], ids[1])
		t.must(q.Settle(t.ctx, started[0].Lease, dbq.Poisoned(errBoom)))
		t.must(ops.Operate(t.ctx, admin.Revoke, started[1].ID))
		if order == admin.OrderSkip {
			for _, task := range t.wantStarted("the failed ones are skipped", q, ids[2], ids[3]) {
				t.must(q.Complete(t.ctx, task.Lease, nil))
			}
			t.must(ops.Operate(t.ctx, admin.Reenqueue, ids[0]))
			t.wantStarted("one is reenqueued", q, ids[0], ids[5])
			continue
		}
		t.wantStarted("the failed ones block their keys", q)
		t.must(ops.Operate(t.ctx, admin.Cancel, started[1].ID))
		next := t.wantStarted("one is cancelled", q, ids[3])
		t.must(ops.Operate(t.ctx, admin.Purge, started[0].ID))
		next = append(next, t.wantStarted("one is removed", q, ids[2])...)
		for _, task := range next {
			t.must(q.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))
		}
		t.must(ops.Operate(t.ctx, admin.Reenqueue, ids[2]))
		t.wantStarted("one is reenqueued", q, ids[2])
	}
}

func limitOrderMany(t *test) {
	const tasks = 520
	c, q := t.limited(admin.QueueLimits{Order: admin.OrderSkip})
	ids := t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) {
		if nt.Key = "hot"; i >= tasks-4 {
			nt.Key = fmt.Sprint("k", i%2)
		}
	})
	t.must(admin.New(c).Operate(t.ctx, admin.Cancel, ids[0]))
	started := t.takeEventually(q, 3, long)
	want := map[uuid.UUID]bool{ids[1]: true, ids[tasks-4]: true, ids[tasks-3]: true}
	for _, task := range started {
		if !want[task.ID] {
			t.Errorf("task %s of key %q started, want the first of each key", task.ID, task.Key)
		}
	}
}

func limitOrderWakes(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.limit(c, "q", admin.QueueLimits{Order: admin.OrderBlock})
	mine := t.listening(c)
	clients := map[string]*dbq.Client{"this process": c}
	if receivesNotifications(c) {
		clients["another process"] = t.otherProcess(c) // it does not know that the queue has limits
	}
	wakes := func(what string, do func() error) {
		mine.BeforeCheckout() // serves what came before
		t.must(do())
		if !woken(mine, t.Patience) {
			t.Errorf("%s: not woken", what)
		}
	}
	for name, c := range clients {
		ops := admin.New(c)
		ids := t.enqueueMany(q, 4, func(i int, nt *dbq.NewTask) { nt.Key, nt.Delay = name, long })
		wakes("cancel by "+name, func() error { return ops.Operate(t.ctx, admin.Cancel, ids[0]) })
		wakes("cancel by filter by "+name, func() error {
			_, err := ops.OperateMany(t.ctx, admin.Cancel, admin.Filter{Key: name, Limit: 1})
			return err
		})
		wakes("cancel in a transaction by "+name, func() error {
			tx := t.beginTx(c)
			if err := ops.OperateTx(t.ctx, tx, admin.Cancel, ids[2]); err != nil {
				return err
			}
			return tx.Commit()
		})
		t.must(ops.Operate(t.ctx, admin.Reject, ids[3]))
		wakes("purge by "+name, func() error { return ops.Operate(t.ctx, admin.Purge, ids[3]) })
	}
}
