package engines

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A pgx pool of the caller's serves a client: its calls, its transactions, notifications, and a worker beside handlers
// that hold every connection they can get.
func TestPgxPool(t *testing.T) {
	onServers(t, "pgx", func(t *testing.T, dsn string) {
		prefix := ownTables(t, dsn)
		pool := newPgxPool(t, dsn, 8)
		db := postgres.FromPool(pool)
		defer db.Close()
		c, err := dbq.New(t.Context(), db, postgres.Dialect{}, prefix, dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close()
		tasksOnCallersPool(t, c)
		transactionOfPgxPool(t, pool, c)
		workOnPgxPool(t, c, dsn, prefix)
		// pgxpool closes the connection of a cancelled statement in a goroutine, and counts it as acquired until then.
		for deadline := time.Now().Add(10 * time.Second); pool.Stat().AcquiredConns() != 0; {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections were not given back within 10 s", pool.Stat().AcquiredConns())
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func newPgxPool(t *testing.T, dsn string, conns int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	cfg.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	check.OK(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// transactionOfPgxPool enqueues in transactions of the pool: one that commits, and one that does not.
func transactionOfPgxPool(t *testing.T, pool *pgxpool.Pool, c *dbq.Client) {
	q := c.Queue("in transactions")
	for reference, end := range map[string]func(pgx.Tx, context.Context) error{
		"committed": pgx.Tx.Commit, "rolled back": pgx.Tx.Rollback} {
		tx, err := pool.Begin(t.Context())
		check.OK(t, err)
		_, err = q.EnqueueTx(t.Context(), postgres.Tx(tx), dbq.NewTask{Reference: reference})
		if endErr := end(tx, t.Context()); err != nil || endErr != nil {
			t.Fatal(err, endErr)
		}
	}
	tasks, err := q.Checkout(t.Context(), 10, time.Minute)
	if err != nil || len(tasks) != 1 || tasks[0].Reference != "committed" {
		t.Errorf("got %+v, %v, want the task of the transaction that committed", tasks, err)
	}
}

// workOnPgxPool runs a worker whose handlers want more connections than there are, on tasks of another client.
func workOnPgxPool(t *testing.T, c *dbq.Client, dsn string, prefix dbq.Option) {
	other, err := dbq.Open(t.Context(), dsn, prefix)
	check.OK(t, err)
	defer other.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan dbq.Task, 100)
	w := worker.Worker{Queue: c.Queue("work"), Concurrency: 12, Lease: time.Second,
		Tuning: worker.Tuning{PollMin: time.Minute, PollMax: time.Minute},
		Handler: worker.TxFunc(func(ctx context.Context, tx *sql.Tx, task dbq.Task) error {
			_, err := tx.ExecContext(ctx, "SELECT pg_sleep(1.5)") // longer than a lease
			done <- task
			return err
		})}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for !c.Stats().Listening && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	begun := time.Now()
	if _, err := other.Queue("work").EnqueueMany(ctx, make([]dbq.NewTask, 8)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		select {
		case task := <-done:
			if task.Attempt != 1 {
				t.Errorf("a task took %d attempts, want 1", task.Attempt)
			}
		case <-ctx.Done():
			t.Fatal("the tasks were not handled within a minute")
		}
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("handled after %v: the notification did not arrive", took)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
