package conformance

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
		Case{Name: "OneEffectAtEachLevel", run: workerTxLevels, once: true,
			Law: "A handler in the transaction that completes its task has its effect once at every isolation level, also over several renewals."},
		Case{Name: "FailureLeavesNothing", run: workerTxFails, once: true,
			Law: "When a handler in the transaction that completes its task fails, nothing of it is left, and the next attempt may succeed."},
	)
}

func workerTxLevels(t *T) {
	c := t.Open()
	side := t.sideTable(c)
	effects := 0
	var n atomic.Int64 // of what handlers insert
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Logf("not at level %v: %v", level, err)
			continue
		}
		t.Must(tx.Rollback())
		q := c.Queue(fmt.Sprint("at ", level))
		ids := t.enqueueMany(q, 3, nil)
		const lease = 600 * time.Millisecond
		stop := t.run(worker.Worker{Queue: q, Concurrency: 3, Lease: lease, Logger: quietLog, PollMax: 50 * time.Millisecond,
			Handler: worker.HandleTxWith(worker.TxOptions{Isolation: level},
				func(ctx context.Context, tx *sql.Tx, task dbq.Task) ([]byte, error) {
					if err := rest(ctx, lease); err != nil {
						return nil, err
					}
					_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, n.Add(1)))
					return []byte("done"), err
				})})
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

func workerTxFails(t *T) {
	c := t.Open()
	q := c.Queue("q")
	side := t.sideTable(c)
	var calls atomic.Int64
	ways := []func() error{
		func() error { return errBoom },
		func() error { panic("boom") },
		func() error { return worker.Snooze(0) },
		func() error { return errors.Join(dbq.ErrConflict, errBoom) }, // does not count
	}
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 3})
	stop := t.run(worker.Worker{Queue: q, Concurrency: 1, Lease: time.Minute, Logger: quietLog, PollMax: 50 * time.Millisecond, Backoff: soon,
		Handler: worker.HandleTx(func(ctx context.Context, tx *sql.Tx, task dbq.Task) ([]byte, error) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+side+" (n) VALUES (1)"); err != nil {
				return nil, err
			}
			if n := int(calls.Add(1)); n <= len(ways) {
				return nil, ways[n-1]()
			}
			return nil, nil
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
