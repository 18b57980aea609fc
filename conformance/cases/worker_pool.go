package cases

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/worker"
)

// These handlers keep all connections busy for longer than a lease, which is long enough for a renewal on a busy
// machine.
const (
	poolLease = 4 * time.Second
	poolBusy  = 5 * time.Second
)

func workerTransactions(t *test) {
	c := t.open()
	if c.Info().Server.OneWriter { // one after the other, and renewals wait with them
		t.inTransactions(c, 10, func() time.Duration { return poolBusy / 8 })
		return
	}
	t.inTransactions(c, 20, busyAtFirst())
}

func workerTxDB(t *test) {
	_, pool, err := sqlrun.Open(t.ctx, t.DSN)
	t.must(err)
	t.Cleanup(func() { pool.Close() })
	t.inTransactions(t.openCallersPool(4, dbq.WithTxDB(pool.Write)), 20, busyAtFirst())
}

// busyAtFirst returns the durations of transactions: all that begin while the first one takes its time end with it.
func busyAtFirst() func() time.Duration {
	end := sync.OnceValue(func() time.Time { return time.Now().Add(poolBusy) })
	return func() time.Duration { return max(50*time.Millisecond, time.Until(end())) }
}

// openCallersPool opens a client on a pool of the case's own with at most conns connections.
func (t *test) openCallersPool(conns int, opts ...dbq.Option) *dbq.Client {
	if t.open().Info().Server.OneWriter {
		t.Skipf("on one writer transactions take turns, whatever the pool")
	}
	drv, pool, err := sqlrun.Open(t.ctx, t.DSN)
	t.must(err)
	t.Cleanup(func() { pool.Close() })
	pool.Write.SetMaxOpenConns(conns)
	c, err := dbq.New(t.ctx, pool.Write, drv.Dialect, t.options(append(opts, dbq.WithMigrate())...)...)
	t.must(err)
	t.register(c)
	return c
}

// inTransactions runs n tasks by as many handlers, each of which takes its time in a transaction of Client.DB.
func (t *test) inTransactions(c *dbq.Client, n int, takes func() time.Duration) {
	q := c.Queue("work")
	table := t.effectTable(c)
	ids := t.enqueueMany(q, n, nil)
	e := effects{q, table, "worker"}
	w := worker.Worker{Queue: q, Concurrency: n, Lease: poolLease, UntilEmpty: true, Logger: quietLog,
		Observe: func(ev worker.Observation) {
			if ev.Type == worker.LeaseLost {
				t.Errorf("the lease of task %s is lost", ev.Task.ID)
			}
		},
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			tx, err := c.DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, e.insert(task.ID, e.who)); err != nil {
				return err
			}
			select {
			case <-time.After(takes()):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return tx.Commit()
		})}
	t.must(w.Run(t.ctx))
	for _, id := range ids {
		if task := t.wantState(c, id, dbq.StateCompleted); task.Attempt != 1 {
			t.Errorf("task %s took %d attempts, want one", id, task.Attempt)
		}
	}
	t.wantEffects(c, table, ids)
}
