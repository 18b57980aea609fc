package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

func workerTxCases() []Case {
	return inGroup("WorkerTx",
		Case{Name: "OneEffectAtEachLevel", Slow: true, Once: true, run: workerTxLevels,
			Law: "A handler that runs in the transaction that completes its task has its effect once, at every isolation " +
				"level and over several renewals."},
		Case{Name: "FailureLeavesNothing", Once: true, run: workerTxFails,
			Law: "When a handler that runs in the transaction that completes its task fails, nothing of it remains, and the " +
				"next attempt may succeed."},
		Case{Name: "NoTransactionCostsNoAttempt", Once: true, run: workerTxNone,
			Law: "An attempt does not count if the transaction for its handler could not begin: all connections were in use " +
				"until Timeout, or the server was away."},
		Case{Name: "ForeignErrorKeepsConnection", Once: true, run: workerTxForeign,
			Law: "A network error of another service, which a handler returns, costs no connection to the database."},
	)
}

func workerTxLevels(t *test) {
	c := t.open()
	side := t.sideTable(c)
	effects := 0
	var n atomic.Int64 // of what handlers insert
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable} {
		tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Logf("not at level %v: %v", level, err)
			continue
		}
		t.must(tx.Rollback())
		q := c.Queue(fmt.Sprint("at ", level))
		ids := t.enqueueMany(q, 3, nil)
		const lease = 600 * time.Millisecond
		stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 3, Lease: lease, Logger: quietLog,
			PollMax: 50 * time.Millisecond,
			Handler: worker.TxHandler{Isolation: level,
				Func: func(ctx context.Context, tx *sql.Tx, task dbq.Task) dbq.Outcome {
					if err := sleep(ctx, lease); err != nil {
						return dbq.Failed(err)
					}
					_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, n.Add(1)))
					if err != nil {
						return dbq.Failed(err)
					}
					return dbq.Completed([]byte("done"))
				}}})
		for _, id := range ids {
			t.eventually("the task ends", func() bool { return t.get(c, id).Ended() })
			if task := t.wantState(c, id, dbq.StateCompleted); string(task.Result) != "done" {
				t.Errorf("at level %v: %s, want it completed with the result %q", level, show(task), "done")
			}
		}
		stop()
		effects += len(ids)
	}
	if rows := t.sideRows(c, side); rows != effects {
		t.Errorf("%d tasks have %d effects, want one each", effects, rows)
	}
}

func workerTxFails(t *test) {
	c := t.open()
	q := c.Queue("q")
	side := t.sideTable(c)
	var calls atomic.Int64
	ways := []func() error{
		func() error { return errBoom },
		func() error { panic("boom") },
		func() error { return dbq.Released(0).Err() },
		func() error { return errors.Join(dbq.ErrConflict, errBoom) }, // does not count
	}
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 3})
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, Lease: time.Minute, Logger: quietLog,
		PollMax: 50 * time.Millisecond, Backoff: soon,
		Handler: worker.TxFunc(func(ctx context.Context, tx *sql.Tx, task dbq.Task) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+side+" (n) VALUES (1)"); err != nil {
				return err
			}
			if n := int(calls.Add(1)); n <= len(ways) {
				return ways[n-1]()
			}
			return nil
		})})
	t.eventually("the task ends", func() bool { return t.get(c, id).Ended() })
	stop()
	if task := t.wantState(c, id, dbq.StateCompleted); task.Attempt != 3 {
		t.Errorf("the task took %d attempts that count, want 3", task.Attempt)
	}
	if n := t.sideRows(c, side); n != 1 {
		t.Errorf("the task has %d effects after %d calls, want 1", n, calls.Load())
	}
}

func workerTxNone(t *test) {
	c := t.open()
	if !c.Info().Server.OneWriter {
		c = t.openCallersPool(4)
	}
	t.enqueueMany(c.Queue("slow"), 2, nil)
	held := make(chan struct{}, 2)
	stop := t.runWorker(worker.Worker{Queue: c.Queue("slow"), Concurrency: 2, Logger: quietLog,
		Handler: worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error {
			held <- struct{}{}
			time.Sleep(time.Second)
			return nil
		})})
	defer stop()
	quick := t.enqueueMany(c.Queue("quick"), 20, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 1000 })
	var mu sync.Mutex
	calls := map[uuid.UUID]int{}
	t.await("a slow handler has its transaction", held)
	stopQuick := t.runWorker(worker.Worker{Queue: c.Queue("quick"), Timeout: 100 * time.Millisecond, Logger: quietLog,
		PollMax: 50 * time.Millisecond, Backoff: soon,
		Handler: worker.TxFunc(func(_ context.Context, _ *sql.Tx, task dbq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			calls[task.ID]++
			return nil
		})})
	defer stopQuick()
	for _, id := range quick {
		t.eventually("the task ends", func() bool { return t.get(c, id).Ended() })
		task := t.wantState(c, id, dbq.StateCompleted)
		mu.Lock()
		n := calls[id] // more than one if a busy machine did not commit before Timeout
		mu.Unlock()
		if task.Attempt > n {
			t.Errorf("a task was completed as attempt %d after %d calls", task.Attempt, n)
		}
	}
	if !c.Info().Server.OneWriter {
		t.txHandlerWithoutServer()
	}
}

func workerTxForeign(t *test) {
	p, dsn := t.throughProxy()
	c := t.openDSN(dsn)
	q := c.Queue("q")
	const n = 20
	t.enqueueMany(q, n, nil)
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, Logger: quietLog,
		Backoff: func(int) time.Duration { return long },
		Handler: worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error {
			calls.Add(1)
			return &net.OpError{Op: "dial", Net: "tcp", Err: errBoom}
		})})
	t.eventually("all handlers have run", func() bool { return calls.Load() == n })
	stop()
	if opened := p.Accepted(); opened > n/2 {
		t.Errorf("%d handlers, one at a time, took %d connections", n, opened)
	}
}

// txHandlerWithoutServer takes the server away between the checkout and the handler's transaction.
func (t *test) txHandlerWithoutServer() {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	id := t.enqueue(direct.Queue("away"), dbq.NewTask{MaxAttempts: 1})
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: c.Queue("away"), Concurrency: 1, Logger: quietLog,
		PollMax: 50 * time.Millisecond,
		Middleware: []worker.Middleware{func(next worker.Handler) worker.Handler {
			return worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
				if calls.Add(1) == 1 {
					p.GoDown()
					defer p.Heal()
				}
				return next.HandleTask(ctx, task)
			})
		}},
		Handler: worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error { return nil })})
	defer stop()
	t.eventually("the task ends", func() bool { return t.get(direct, id).Ended() })
	if task := t.wantState(direct, id, dbq.StateCompleted); task.Attempt != 1 || calls.Load() != 2 {
		t.Errorf("the task was completed as attempt %d after %d calls, want 1 after 2", task.Attempt, calls.Load())
	}
}
