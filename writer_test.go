package dbq_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

// On SQLite a call that would wait for a transaction of its own caller's ends with an error that names the cure.
func TestWriteOutsideItsOwnTransactionFails(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"file":   "sqlite:" + filepath.Join(t.TempDir(), "q.db") + "?busy_timeout=0",
		"memory": "sqlite::memory:?busy_timeout=0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := dbq.Open(t.Context(), dsn, dbq.WithMigrate())
			check.OK(t, err)
			defer c.Close()
			q := c.Queue("q")
			if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
				t.Fatal(err)
			}
			tasks, err := q.Checkout(t.Context(), 1, time.Minute)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("got %v, %v", tasks, err)
			}
			besideATransaction(t, c, q, tasks[0])
			if err := q.Complete(t.Context(), tasks[0].Lease, nil); err != nil {
				t.Errorf("after the transaction: %v", err)
			}
			if stats, err := admin.New(c).Stats(t.Context()); err != nil || len(stats) != 1 {
				t.Errorf("got %v, %v, want one queue, in which nothing happened but the completion", stats, err)
			}
		})
	}
}

func besideATransaction(t *testing.T, c *dbq.Client, q *dbq.Queue, task dbq.Task) {
	tx, err := c.DB().BeginTx(t.Context(), nil)
	check.OK(t, err)
	defer tx.Rollback()
	if _, err := q.EnqueueTx(t.Context(), tx, dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"enqueue":  func(ctx context.Context) error { _, err := q.Enqueue(ctx, dbq.NewTask{}); return err },
		"complete": func(ctx context.Context) error { return q.Complete(ctx, task.Lease, nil) },
		"many": func(ctx context.Context) error {
			_, err := q.EnqueueMany(ctx, make([]dbq.NewTask, 100))
			return err
		},
	} {
		err := call(t.Context())
		if !errors.Is(err, dbq.ErrWriterBusy) || !errors.Is(err, dbq.ErrUnavailable) ||
			errors.Is(err, dbq.ErrMayHaveHappened) || !strings.Contains(err.Error(), "EnqueueTx") {
			t.Errorf("%s: got %v, want ErrWriterBusy with the cure", name, err)
		}
		soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		var both sync.WaitGroup // the second waits for the first, if their commits are shared
		for range 2 {
			both.Go(func() {
				if err := call(soon); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dbq.ErrWriterBusy) {
					t.Errorf("%s, whose context ends before: got %v", name, err)
				}
			})
		}
		both.Wait()
		cancel()
	}
}

// However many callers wait for SQLite's writer, none waits longer than busy_timeout, which is a second at least: not
// for the others, and not for the limits of its queue.
func TestEachCallWaitsForTheWriterInItsOwnTime(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, q *dbq.Queue) error{
		"enqueue": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.Enqueue(ctx, dbq.NewTask{})
			return err
		},
		"checkout": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.Checkout(ctx, 1, time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db")+"?busy_timeout=0", dbq.WithMigrate())
			check.OK(t, err)
			defer c.Close()
			err = admin.New(c).ConfigureLimits(t.Context(), "q", func(l *admin.QueueLimits) { l.Concurrency = 100 })
			check.OK(t, err)
			if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
				t.Fatal(err)
			}
			tx, err := c.DB().BeginTx(t.Context(), nil)
			check.OK(t, err)
			defer tx.Rollback()
			begun := time.Now()
			var all sync.WaitGroup
			for range 20 { // one after the other, they would wait for 20 seconds
				all.Go(func() {
					err := call(t.Context(), c.Queue("q"))
					if !errors.Is(err, dbq.ErrWriterBusy) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want ErrWriterBusy", err)
					}
				})
			}
			all.Wait()
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("the last call waited for %v", took)
			}
		})
	}
}
