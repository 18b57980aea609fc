package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// renewalCases are about renewals beside transactions of callers and strangers.
func renewalCases() []Case {
	return inGroup("Renewal",
		Case{Name: "LockedRowDelaysNothing", run: renewalLocked,
			Law: "A renewal does not wait for a transaction that has locked a task's row: neither that lease nor any other " +
				"is lost."},
		Case{Name: "BesideCompleteTxAtEachLevel", Once: true, run: renewalLevels,
			Law: "A transaction that completes a task commits at every isolation level, whatever was renewed since it began."},
		Case{Name: "KeepsOthersOut", run: renewalKeepsOut,
			Law: "A renewal and a simultaneous takeover of one task never both succeed."},
		Case{Name: "StoppedDelaysNoCheckout", Once: true, run: renewalStalled,
			Law: "A client that stops at any point of a renewal, with its connection open, delays no checkout."},
		Case{Name: "OpenTransactionCostsNoOtherLease", Slow: true, Once: true, run: renewalWorker,
			Law: "While a handler's transaction stays open for longer than the lease, no task of its worker is handed out " +
				"twice."},
	)
}

// skipOneWriter skips the case where tx, a transaction that writes, blocks all other writers.
func (t *test) skipOneWriter(tx *sql.Tx) {
	if t.open().Info().Server.OneWriter {
		_ = tx.Rollback()
		t.Skipf("the database has one writer at a time, not locks on rows")
	}
}

func renewalLocked(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueueMany(q, 20, nil)
	tasks := t.checkout(q, 20, time.Minute)
	leases := make([]dbq.Lease, len(tasks))
	for i, task := range tasks {
		leases[i] = task.Lease
	}
	other := t.open()
	tx := t.beginTx(other)
	t.must(other.Queue("q").CompleteTx(t.ctx, tx, leases[7], nil))
	t.skipOneWriter(tx)
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience/2) // a server gives up waiting for a lock later
	defer cancel()
	renewed, lost, err := q.ExtendMany(ctx, leases, long)
	t.must(err)
	if len(renewed) != len(leases) {
		t.Errorf("%d of %d leases were renewed and %d are lost beside a transaction that completes one of the tasks, want "+
			"all renewed",
			len(renewed), len(leases), len(lost))
	}
	still, err := access.StillHeld(ctx, q, leases)
	t.must(err)
	if len(still) != len(leases) {
		t.Errorf("%d of %d leases are still held before the transaction commits, want all", len(still), len(leases))
	}
	t.must(tx.Commit())
	t.wantState(c, leases[7].Task, dbq.StateCompleted)
	renewed, lost, err = q.ExtendMany(ctx, leases, long)
	t.must(err)
	if len(renewed) != len(leases)-1 || len(lost) != 1 || lost[0].Task != leases[7].Task {
		t.Errorf("after the commit %d leases were renewed and %d are lost, want only that of the completed task lost",
			len(renewed), len(lost))
	}
}

func renewalLevels(t *test) {
	c, other := t.open(), t.open()
	side := t.sideTable(c)
	q, beats := c.Queue("q"), other.Queue("q")
	checked := 0
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable} {
		for _, complete := range []func(tx dbq.Tx, l dbq.Lease) error{
			func(tx dbq.Tx, l dbq.Lease) error { return q.CompleteTx(t.ctx, tx, l, []byte("done")) },
			func(tx dbq.Tx, l dbq.Lease) error { return q.SettleTx(t.ctx, tx, l, dbq.Deleted()) },
		} {
			task := t.takeNew(q, dbq.NewTask{}, long)
			tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Logf("not at level %v: %v", level, err)
				t.must(q.Complete(t.ctx, task.Lease, nil))
				continue
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			var n int // what begins the transaction's snapshot
			t.must(tx.QueryRowContext(t.ctx, "SELECT count(*) FROM "+side).Scan(&n))
			t.skipOneWriter(tx)
			_, err = beats.Extend(t.ctx, task.Lease, long)
			t.must(err)
			_, err = tx.ExecContext(t.ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, checked))
			t.must(err)
			if err = complete(tx, task.Lease); err == nil {
				_, err = c.Queue("next").EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: fmt.Sprint("after ", checked)})
			}
			if err == nil {
				_, err = beats.Extend(t.ctx, task.Lease, long)
			}
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				t.Errorf("at level %v, with a renewal since the transaction began: %v", level, err)
				_ = tx.Rollback()
				t.must(q.Complete(t.ctx, task.Lease, nil))
				continue
			}
			checked++
		}
	}
	if n := t.sideRows(c, side); n != checked || t.count(c, "next") != checked {
		t.Errorf("%d transactions committed, and there are %d of their rows and %d of their tasks", checked, n,
			t.count(c, "next"))
	}
}

// renewalKeepsOut makes renewals and takeovers of expired leases meet, again and again.
func renewalKeepsOut(t *test) {
	c, other := t.open(), t.open()
	q, rival := c.Queue("q"), other.Queue("q")
	const each = 20
	renewedAll, takenAll := 0, 0
	for range t.load(15) {
		t.enqueueMany(q, each, nil)
		tasks := t.checkout(q, each, short)
		leases := make([]dbq.Lease, len(tasks))
		for i, task := range tasks {
			leases[i] = task.Lease
		}
		t.awaitExpiry(c, leases[len(leases)-1].Task)
		var renewed []dbq.Lease
		var taken []dbq.Task
		var failed [2]error
		t.concurrently(2, func(ctx context.Context, i int) {
			if i == 0 {
				for part := range slices.Chunk(leases, 4) {
					some, _, err := q.ExtendMany(ctx, part, long)
					renewed, failed[0] = append(renewed, some...), errors.Join(failed[0], err)
				}
			} else {
				taken, failed[1] = rival.Checkout(ctx, each, long)
			}
		})
		t.must(failed[0])
		t.must(failed[1])
		for _, l := range renewed {
			for _, task := range taken {
				if task.ID == l.Task {
					t.Fatalf("task %s was renewed under fence %d and taken over under fence %d", l.Task, l.Fence, task.Fence)
				}
			}
		}
		renewedAll, takenAll = renewedAll+len(renewed), takenAll+len(taken)
		for _, l := range renewed {
			t.must(q.Complete(t.ctx, l, nil))
		}
		for _, task := range taken {
			t.must(rival.Complete(t.ctx, task.Lease, nil))
		}
		t.eventually("what neither got is taken over and completed", func() bool {
			for _, task := range t.checkout(rival, each, long) {
				t.must(rival.Complete(t.ctx, task.Lease, nil))
			}
			return t.idle(t.ctx, c)
		})
	}
	t.Logf("%d leases were renewed and %d taken over", renewedAll, takenAll)
}

func renewalWorker(t *test) {
	c := t.open()
	q := c.Queue("work")
	side := t.sideTable(c)
	const lease = 2 * time.Second
	ids := t.enqueueMany(q, 4, nil)
	var calls atomic.Int64
	own := t.open() // the first handler's transaction is of a pool of its own
	probe := t.beginTx(own)
	_, err := probe.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
	t.must(err)
	t.skipOneWriter(probe)
	t.must(probe.Rollback())
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 4, Lease: lease, Logger: quietLog,
		PollMax: 100 * time.Millisecond,
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			calls.Add(1)
			if task.ID != ids[0] {
				return sleep(ctx, 2*lease)
			}
			tx, err := own.DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := q.CompleteTx(ctx, tx, task.Lease, nil); err != nil {
				return err
			}
			if err := sleep(ctx, 2*lease); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			return nil
		})})
	t.eventually("all tasks end", func() bool {
		return !slices.ContainsFunc(ids, func(id uuid.UUID) bool { return !t.get(c, id).Ended() })
	})
	stop()
	for _, id := range ids {
		if task := t.wantState(c, id, dbq.StateCompleted); task.Attempt != 1 {
			t.Errorf("task %s took %d attempts, want 1", id, task.Attempt)
		}
	}
	if n := calls.Load(); n != int64(len(ids)) {
		t.Errorf("%d tasks were handed out %d times, want each once", len(ids), n)
	}
}
