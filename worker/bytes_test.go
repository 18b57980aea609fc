package worker_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// A checkout that its payloads cut short is no empty queue: the worker queries again at once, though it may wait an
// hour. And what waits for handlers is bounded in bytes, too.
func TestBufferIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const size, fit, tasks = 1000, 3, 40
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), dbq.WithMigrate(),
		dbq.WithMaxCheckoutBytes(fit*size))
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	q := c.Queue("q")
	enqueue(t, q, tasks, dbq.NewTask{Payload: make([]byte, size)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var done, most atomic.Int64
	w := worker.Worker{Queue: q, Concurrency: 1, Tuning: worker.Tuning{PollMin: time.Hour, PollMax: time.Hour},
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			stats, err := admin.New(c).Stats(ctx)
			if err != nil {
				return err
			}
			ahead := tasks - stats[0].Count[dbq.StateCreated] - done.Load() - 1
			most.Store(max(most.Load(), ahead))
			if done.Add(1) == tasks {
				cancel()
			}
			return nil
		})}
	check.OK(t, w.Run(ctx))
	if done.Load() != tasks {
		t.Errorf("%d of %d tasks were handled", done.Load(), tasks)
	}
	// A checkout begins while less than its bytes wait, and another one may be under way.
	if n := most.Load(); n > 3*fit {
		t.Errorf("%d tasks of %d bytes waited for the handler at once, want at most %d", n, size, 3*fit)
	}
}
