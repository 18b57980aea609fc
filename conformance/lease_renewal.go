package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// renewalCases are about renewals beside transactions of callers and strangers.
func renewalCases() []Case {
	return inGroup("Renewal",
		Case{Name: "LockedRowDelaysNothing", run: renewalLocked,
			Law: "A renewal does not wait for a transaction that has locked a task's row: neither this lease nor any other is lost."},
		Case{Name: "BesideCompleteTxAtEachLevel", run: renewalLevels, once: true,
			Law: "A transaction that completes a task commits at every isolation level, whatever was renewed since it began."},
		Case{Name: "KeepsOthersOut", run: renewalKeepsOut,
			Law: "A renewal and a takeover of one task at the same moment never both succeed."},
		Case{Name: "OpenTransactionCostsNoOtherLease", run: renewalWorker, once: true,
			Law: "While a handler's transaction is open for longer than the lease, no task of its worker is handed out twice."},
	)
}

// oneWriter skips the case where a transaction that writes, as tx does, keeps out all other writers.
func (t *T) oneWriter(tx *sql.Tx) {
	ctx, cancel := context.WithTimeout(t.ctx, 2*time.Second)
	defer cancel()
	if _, err := t.Open().Queue("other").Enqueue(ctx, dbq.NewTask{}); err != nil {
		_ = tx.Rollback()
		t.Skipf("the database has one writer at a time, not locks on rows: %v", err)
	}
}

func renewalLocked(t *T) {
	c := t.Open()
	q := c.Queue("q")
	t.enqueueMany(q, 20, nil)
	tasks := t.checkout(q, 20, time.Minute)
	leases := make([]dbq.Lease, len(tasks))
	for i, task := range tasks {
		leases[i] = task.Lease
	}
	stranger := t.Open()
	tx := t.begin(stranger)
	t.Must(stranger.Queue("q").CompleteTx(t.ctx, tx, leases[7], nil))
	t.oneWriter(tx)
	ctx, cancel := context.WithTimeout(t.ctx, patience/2) // a server gives up waiting for a lock later
	defer cancel()
	renewed, lost, err := q.ExtendMany(ctx, leases, long)
	t.Must(err)
	if len(renewed) != len(leases) {
		t.Errorf("%d of %d leases were renewed and %d are lost beside a transaction that completes one of the tasks, want all renewed",
			len(renewed), len(leases), len(lost))
	}
	still, err := q.StillHeld(ctx, leases)
	t.Must(err)
	if len(still) != len(leases) {
		t.Errorf("%d of %d leases are still held before the transaction commits, want all", len(still), len(leases))
	}
	t.Must(tx.Commit())
	t.wantState(c, leases[7].Task, dbq.StateCompleted)
	renewed, lost, err = q.ExtendMany(ctx, leases, long)
	t.Must(err)
	if len(renewed) != len(leases)-1 || len(lost) != 1 || lost[0].Task != leases[7].Task {
		t.Errorf("after the commit %d leases were renewed and %d are lost, want only that of the completed task lost", len(renewed), len(lost))
	}
}

func renewalLevels(t *T) {
	c, other := t.Open(), t.Open()
	side := t.sideTable(c)
	q, beats := c.Queue("q"), other.Queue("q")
	checked := 0
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, complete := range []func(tx dbq.Tx, l dbq.Lease) error{
			func(tx dbq.Tx, l dbq.Lease) error { return q.CompleteTx(t.ctx, tx, l, []byte("done")) },
			func(tx dbq.Tx, l dbq.Lease) error { return q.CompleteAndDeleteTx(t.ctx, tx, l) },
		} {
			task := t.takeNew(q, dbq.NewTask{}, long)
			tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Logf("not at level %v: %v", level, err)
				t.Must(q.Complete(t.ctx, task.Lease, nil))
				continue
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			var n int // what begins the transaction's snapshot
			t.Must(tx.QueryRowContext(t.ctx, "SELECT count(*) FROM "+side).Scan(&n))
			t.oneWriter(tx)
			_, err = beats.Extend(t.ctx, task.Lease, long)
			t.Must(err)
			_, err = tx.ExecContext(t.ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, checked))
			t.Must(err)
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
				t.Must(q.Complete(t.ctx, task.Lease, nil))
				continue
			}
			checked++
		}
	}
	if n := t.sideRows(c, side); n != checked || t.count(c, "next") != checked {
		t.Errorf("%d transactions committed, and there are %d of their rows and %d of their tasks", checked, n, t.count(c, "next"))
	}
}

// renewalKeepsOut lets renewals and takeovers of leases that have run out meet, again and again.
func renewalKeepsOut(t *T) {
	c, other := t.Open(), t.Open()
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
		t.ranOut(c, leases[len(leases)-1].Task)
		var renewed []dbq.Lease
		var taken []dbq.Task
		var failed [2]error
		t.together(2, func(ctx context.Context, i int) {
			if i == 0 {
				for part := range slices.Chunk(leases, 4) {
					some, _, err := q.ExtendMany(ctx, part, long)
					renewed, failed[0] = append(renewed, some...), errors.Join(failed[0], err)
				}
			} else {
				taken, failed[1] = rival.Checkout(ctx, each, long)
			}
		})
		t.Must(failed[0])
		t.Must(failed[1])
		for _, l := range renewed {
			for _, task := range taken {
				if task.ID == l.Task {
					t.Fatalf("task %s was renewed under fence %d and taken over under fence %d", l.Task, l.Fence, task.Fence)
				}
			}
		}
		renewedAll, takenAll = renewedAll+len(renewed), takenAll+len(taken)
		for _, l := range renewed {
			t.Must(q.Complete(t.ctx, l, nil))
		}
		for _, task := range taken {
			t.Must(rival.Complete(t.ctx, task.Lease, nil))
		}
		t.eventually("what neither got is taken over and completed", func() bool {
			for _, task := range t.checkout(rival, each, long) {
				t.Must(rival.Complete(t.ctx, task.Lease, nil))
			}
			return t.idle(t.ctx, c)
		})
	}
	t.Logf("%d leases were renewed and %d taken over", renewedAll, takenAll)
}

func renewalWorker(t *T) {
	c := t.Open()
	q := c.Queue("work")
	side := t.sideTable(c)
	const lease = 2 * time.Second
	ids := t.enqueueMany(q, 4, nil)
	var calls atomic.Int64
	own := t.Open() // the first handler's transaction is of a pool of its own
	probe := t.begin(own)
	_, err := probe.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
	t.Must(err)
	t.oneWriter(probe)
	t.Must(probe.Rollback())
	stop := t.run(worker.Worker{Queue: q, Concurrency: 4, Lease: lease, Logger: quietLog, PollMax: 100 * time.Millisecond,
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) ([]byte, error) {
			calls.Add(1)
			if task.ID != ids[0] {
				return nil, rest(ctx, 2*lease)
			}
			tx, err := own.DB().BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			defer func() { _ = tx.Rollback() }()
			if err := q.CompleteTx(ctx, tx, task.Lease, nil); err != nil {
				return nil, err
			}
			if err := rest(ctx, 2*lease); err != nil {
				return nil, err
			}
			if err := tx.Commit(); err != nil {
				return nil, err
			}
			return nil, nil
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
