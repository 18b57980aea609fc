package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// Two workers that begin at the same time share slow tasks: neither leases what the other could start sooner.
func TestSlowTasksAreSplitBetweenWorkers(t *testing.T) {
	t.Parallel()
	c, err := dbq.Open(t.Context(), "sqlite::memory:", dbq.WithMigrate()) // whose checkouts wait for no disk
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	q := c.Queue("q")
	const n, takes = 12, 250 * time.Millisecond
	enqueue(t, q, n, dbq.NewTask{})
	var done [2]atomic.Int64
	var most [2]atomic.Int64 // that were leased at a time, by what had been checked out and was done
	var both sync.WaitGroup
	for i := range 2 {
		leased := atomic.Int64{}
		both.Go(func() {
			runEmpty(t, worker.Worker{Queue: q, Concurrency: 1, Tuning: worker.Tuning{Unlisted: true},
				Observe: func(e worker.Observation) {
					if e.Type == worker.CheckedOut {
						most[i].Store(max(most[i].Load(), leased.Add(int64(e.N))))
					}
				},
				Handler: worker.Func(func(context.Context, dbq.Task) error {
					time.Sleep(takes)
					done[i].Add(1)
					leased.Add(-1)
					return nil
				})})
		})
	}
	both.Wait()
	for i := range 2 {
		if got := most[i].Load(); got > n/2 {
			t.Errorf("worker %d had leased %d tasks at a time, want no more than its share", i, got)
		}
	}
	if a, b := done[0].Load(), done[1].Load(); a+b != n {
		t.Errorf("%d and %d tasks were done, want %d", a, b, n)
	}
}
