package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

func workerTxCases() []Case {
	return inGroup("WorkerTx",
		Case{Name: "OneEffectAtEachLevel", Slow: true, Once: true, run: workerTxLevels,
			Law: "A handler that runs in the transaction that completes its task has its effect once, at every isolation " +
				"level and over several renewals."},
		Case{Name: "FailureLeavesNothing", Once: true, run: workerTxFails,
			Law: "When a handler that runs in the transaction that completes its task fails, nothing of it remains, and the " +
				"next attempt may succeed."},
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
