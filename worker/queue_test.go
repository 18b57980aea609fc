package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// simpleQueue is a Queue with one task and no database.
type simpleQueue struct {
	mu       sync.Mutex
	due      bool
	extended []time.Time
	settled  []dbq.Outcome
}

func (q *simpleQueue) Name() string { return "simple" }

func (q *simpleQueue) Checkout(_ context.Context, _ int, lease time.Duration) (ts []dbq.Task, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.due {
		id := dbq.NewID()
		ts = []dbq.Task{{ID: id, Queue: "simple", Attempt: 1, MaxAttempts: 1,
			Lease: dbq.Lease{Task: id, Queue: "simple", Fence: 1, Attempt: 1, Until: time.Now().Add(lease)}}}
	}
	q.due = false
	return ts, nil
}

func (q *simpleQueue) ExtendMany(_ context.Context, ls []dbq.Lease, d time.Duration) (
	renewed, lost []dbq.Lease, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.extended = append(q.extended, time.Now())
	for i := range ls {
		ls[i].Until = time.Now().Add(d)
	}
	return ls, nil, nil
}

func (q *simpleQueue) SettleMany(_ context.Context, ss []dbq.Settlement) ([]dbq.Settled, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range ss {
		q.settled = append(q.settled, s.Outcome)
	}
	return make([]dbq.Settled, len(ss)), nil
}

// A Worker runs on any Queue: it polls, keeps the leases of long handlers, and settles.
func TestAnyQueueWillDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &simpleQueue{}
		w := worker.Worker{Queue: q, Lease: 30 * time.Second, Logger: slog.New(slog.DiscardHandler),
			Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
				time.Sleep(time.Minute)
				return ctx.Err()
			})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Hour)
		q.mu.Lock()
		q.due = true
		q.mu.Unlock()
		time.Sleep(2 * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if len(q.settled) != 1 || q.settled[0].Retries() || len(q.extended) < 5 || len(q.extended) > 7 {
			t.Errorf("it settled %v and extended at %v, want a completion and an extension each 10 s", q.settled, q.extended)
		}
	})
}
