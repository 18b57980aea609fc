package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/dbq-go/dbq/worker"
)

// coarse is SQLite with a clock so coarse that a lease ends by the worker's clock long before it does in the
// database. No lease can be extended.
type coarse struct {
	sqlite.Dialect
	precision time.Duration
}

func (d coarse) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	s, err := d.Dialect.Probe(ctx, db)
	s.Precision = d.precision
	return s, err
}

func (d coarse) Statements(n dialect.Names) dialect.Statements {
	st := d.Dialect.Statements(n)
	st.Extend.SQL = "SELECT no_such_column FROM ({rows})"
	return st
}

// openCoarse opens a queue whose server has a clock of this precision.
func openCoarse(t *testing.T, precision time.Duration) *dbq.Queue {
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	c, err := dbq.New(t.Context(), pool.Write, coarse{precision: precision}, dbq.WithMigrate())
	check.OK(t, err)
	return c.Queue("q")
}

// Where the clock leaves a worker little of a lease, this is no reason not to mark attempts that must count.
func TestLastAttemptsStartWhateverTheClocksPrecision(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	q := openCoarse(t, lease*3/4)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})[0]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := worker.Worker{Queue: q, Lease: lease, UntilEmpty: true, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
	check.OK(t, w.Run(ctx))
	if task := get(t, q, id); task.State != dbq.StateCompleted {
		t.Errorf("it is %v", task.State)
	}
}

// UntilEmpty is not the end while the database still counts tasks as this worker's that the worker has given up.
func TestUntilEmptyRetakesTasksLostByItsOwnClock(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond // the first heartbeat would be after 500
	q := openCoarse(t, lease-100*time.Millisecond)
	ids := enqueue(t, q, 20, dbq.NewTask{})
	runEmpty(t, worker.Worker{Queue: q, Lease: lease, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			if task.Lapses > 0 { // the lease of the first try expired, which is no attempt
				return nil
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, dbq.ErrLeaseLost) {
				t.Errorf("the context ended with %v, want ErrLeaseLost", cause)
			}
			return context.Cause(ctx)
		})})
	for _, id := range ids {
		if task := get(t, q, id); task.State != dbq.StateCompleted {
			t.Errorf("Run returned while a task was %v", task.State)
		}
	}
}

// The database said what became of the task: there is no lease to wait for.
func TestUntilEmptyReturnsWhenItsTaskWasRevoked(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	w := worker.Worker{Queue: q, Lease: time.Hour, UntilEmpty: true, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			return admin.New(q.Client()).Operate(ctx, admin.Revoke, id)
		})}
	began := time.Now()
	check.OK(t, w.Run(t.Context()))
	if took := time.Since(began); took > time.Minute {
		t.Errorf("Run returned after %v, want it at once", took)
	}
}

// A task that the worker has put back itself is not left behind, whether its transaction met a conflict or could not
// begin.
func TestUntilEmptyWaitsForTasksPutBack(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"conflict": dbq.ErrConflict,
		"not called": &invoke.NotCalledError{Err: dbq.ErrUnavailable}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			ids := enqueue(t, q, 5, dbq.NewTask{MaxAttempts: 1})
			var calls atomic.Int64
			runEmpty(t, worker.Worker{Queue: q, Concurrency: 1, Logger: slog.New(slog.DiscardHandler),
				Handler: worker.Func(func(context.Context, dbq.Task) error {
					if calls.Add(1) > int64(len(ids))-2 && calls.Load() <= int64(len(ids)) {
						return err // the last ones, so that nothing else is due
					}
					return nil
				})})
			for _, id := range ids {
				if task := get(t, q, id); task.State != dbq.StateCompleted || task.Attempt != 1 {
					t.Errorf("Run returned while a task was %v after attempt %d", task.State, task.Attempt)
				}
			}
		})
	}
}
