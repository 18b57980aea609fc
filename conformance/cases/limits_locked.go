package cases

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// limitLockedCases are laws of tasks that other transactions have locked, in queues with limits.
func limitLockedCases() []Case {
	return inGroup("Limits",
		Case{Name: "LockedTaskDelaysNoOther", run: limitLockedDelays,
			Law: "A due task whose row is locked by another transaction delays no task of another key and none without a key, " +
				"whatever limits the queue has, nor tasks of its own key, unless they have an order; it is handed out when its " +
				"row is free."},
		Case{Name: "ManyLockedTasks", run: limitLockedMany,
			Law: "More locked tasks than a checkout reads delay no others, whether they are of one key, of many, or of none."},
		Case{Name: "StoppedCheckoutDelaysNoOther", Once: true, run: limitStalled,
			Law: "A client that stops at any point of a checkout within limits, with its connection open, delays the other " +
				"checkouts of the queue by seconds at most."},
		Case{Name: "LockedTaskDelaysNoWorker", run: limitLockedWorker,
			Law: "A worker of a queue with limits goes on while another transaction has locked a due task."},
		Case{Name: "LockedLimitsLeaveConnections", Once: true, run: limitLockedConnections,
			Law: "However many checkouts wait for the limits of a queue, the client has connections left for other queues."},
		Case{Name: "SilentServerEndsCheckouts", Once: true, Slow: true, run: limitSilent,
			Law: "When the server falls silent, checkouts of a queue with limits return together, although they take turns."},
	)
}

// lockTasks locks the tasks whose reference begins with "locked" in another transaction, as an operator's forgotten
// session does.
func (t *test) lockTasks(c *dbq.Client) *sql.Tx {
	tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // locks no gaps
	t.must(err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET kind = kind WHERE reference LIKE 'locked%%'", t.Prefix))
	t.must(err)
	return tx
}

// rowLocks skips a case where a transaction that writes blocks all other writers.
func (t *test) rowLocks(c *dbq.Client) {
	if c.Info().Server.OneWriter {
		t.Skipf("%s locks no single rows", c.Info().Server.Product)
	}
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
		{Leased: 9}, {Rate: admin.Rate{Starts: 1, Per: long, Burst: 9}}, {PerKey: true}, {KeyLeased: 1},
		{KeyLeased: 2, Leased: 9}, {Order: admin.OrderBlock}, {Order: admin.OrderSkip},
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
	tx := t.lockTasks(t.open())
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
		t.limit(c, name, admin.QueueLimits{KeyLeased: 2})
		t.enqueueMany(q[name], locked+free, func(i int, nt *dbq.NewTask) {
			if nt.Key = key(min(i, locked)); i < locked {
				nt.Reference = fmt.Sprint("locked ", i)
			} else if i > locked {
				nt.Key = fmt.Sprint("c", i)
			}
		})
	}
	tx := t.lockTasks(t.open())
	for name, q := range q {
		started := 0
		for range 2 * free {
			started += len(t.checkout(q, 1, long))
		}
		if started != free {
			t.Errorf("%s: %d checkouts behind locked tasks brought %d, want the %d others", name, 2*free, started, free)
		}
	}
	t.must(tx.Rollback())
	t.eventually("the locked tasks are handed out, too", func() bool {
		return len(t.checkout(q["no key"], 100, long)) > 0 && len(t.checkout(q["many keys"], 100, long)) > 0
	})
}

func limitLockedWorker(t *test) {
	c := t.open()
	t.rowLocks(c)
	q := c.Queue("q")
	t.limit(c, "q", admin.QueueLimits{KeyLeased: 1, Leased: 5})
	t.enqueueMany(q, 40, func(i int, nt *dbq.NewTask) {
		if nt.Key = fmt.Sprint("k", i%4); i < 4 {
			nt.Reference = fmt.Sprint("locked ", i)
		}
	})
	tx := t.lockTasks(t.open())
	done := make(chan string, 40)
	t.runWorker(worker.Worker{
		Queue: q, Logger: quietLog, Concurrency: 3,
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			done <- task.Reference
			return dbq.Completed(nil)
		}),
	})
	next := func(n int) (locked int) {
		for i := range n {
			select {
			case reference := <-done:
				if reference != "" {
					locked++
				}
			case <-time.After(t.Patience):
				t.Fatalf("%d of %d tasks were handled", i, n)
			}
		}
		return locked
	}
	if n := next(36); n > 0 {
		t.Errorf("%d tasks were handled while another transaction had locked them", n)
	}
	t.must(tx.Rollback())
	next(4)
}

func limitLockedConnections(t *test) {
	const conns, waiting, most = 4, 32, 3 * time.Second
	c := t.openCallersPool(conns)
	q, other := c.Queue("q"), c.Queue("other")
	t.limit(c, q.Name(), admin.QueueLimits{Leased: waiting})
	t.enqueueMany(q, waiting, nil)
	lease := t.takeNew(other, dbq.NewTask{}, long).Lease
	tx := t.beginTx(t.open())
	_, err := tx.ExecContext(t.ctx, fmt.Sprintf("UPDATE %skv SET version = version + 1 WHERE name = 'q'", t.Prefix))
	t.must(err)
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
			if err != nil {
				t.Fatalf("a renewal in another queue: %v", err)
			}
		}
	})
}

func limitSilent(t *test) {
	const checkouts, patience = 16, 2 * time.Second
	p, dsn := t.throughProxy()
	c := t.openDSN(dsn)
	q := c.Queue("q")
	t.limit(c, q.Name(), admin.QueueLimits{Leased: checkouts})
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
