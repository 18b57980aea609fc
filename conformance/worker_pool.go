package conformance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/worker"
)

// These handlers keep all connections busy for longer than a lease, which is long enough for a renewal on a busy
// machine.
const (
	poolLease = 4 * time.Second
	poolBusy  = 5 * time.Second
)

func workerTransactions(t *T) {
	c := t.Open()
	if c.Server().OneWriter { // one after the other, and renewals wait with them
		t.inTransactions(c, 10, poolLease, func() time.Duration { return time.Second })
		return
	}
	t.inTransactions(c, 20, poolLease, busyFirst(c.DB().Stats().MaxOpenConnections))
}

func workerCallersPool(t *T) {
	const conns = 16
	t.inTransactions(t.openCallersPool(conns), 20, poolLease, busyFirst(conns))
}

func workerSmallPool(t *T) {
	const conns = 4
	t.inTransactions(t.openCallersPool(conns), 20, poolLease, busyFirst(conns))
}

// busyFirst is how long transactions take, of which the first n are to keep as many connections busy.
func busyFirst(n int) func() time.Duration {
	var begun atomic.Int64
	return func() time.Duration {
		if begun.Add(1) <= int64(n) {
			return poolBusy
		}
		return 50 * time.Millisecond
	}
}

// openCallersPool is Open on a pool of the case's own, of at most conns connections.
func (t *T) openCallersPool(conns int) *dbq.Client {
	if t.Open().Server().OneWriter {
		t.Skipf("on one writer transactions take turns, whatever the pool")
	}
	drv, pool, err := dialect.Open(t.ctx, t.dsn)
	t.Must(err)
	t.Cleanup(func() { pool.Close() })
	pool.Write.SetMaxOpenConns(conns)
	c, err := dbq.New(t.ctx, pool.Write, drv.Dialect, t.options(dbq.WithMigrate())...)
	t.Must(err)
	t.adopt(c)
	return c
}

// inTransactions runs n tasks by as many handlers, each of which takes its time in a transaction of Client.DB.
func (t *T) inTransactions(c *dbq.Client, n int, lease time.Duration, takes func() time.Duration) {
	q := c.Queue("work")
	table := t.effectTable(c)
	ids := t.enqueueMany(q, n, nil)
	e := effects{q, table, "worker"}
	w := worker.Worker{Queue: q, Concurrency: n, Lease: lease, UntilEmpty: true, Logger: quietLog,
		Observe: func(ev worker.Event) {
			if ev.Kind == worker.LeaseLost {
				t.Errorf("the lease of task %s is lost", ev.Task.ID)
			}
		},
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) ([]byte, error) {
			tx, err := c.DB().BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, e.insert(task.ID, e.who)); err != nil {
				return nil, err
			}
			select {
			case <-time.After(takes()):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			return nil, tx.Commit()
		})}
	t.Must(w.Run(t.ctx))
	for _, id := range ids {
		if task := t.wantState(c, id, dbq.StateCompleted); task.Attempt != 1 {
			t.Errorf("task %s took %d attempts, want one", id, task.Attempt)
		}
	}
	t.wantEffects(c, table, ids)
}
