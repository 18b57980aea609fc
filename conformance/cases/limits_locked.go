package cases

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
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
