package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

// farQueue is a queue without a database, by functions.
type farQueue struct {
	name     string
	checkout func(n int, lease, wait time.Duration) ([]dbq.Task, error)
	final    func(error) bool

	mu       sync.Mutex
	extended []time.Time
	settled  []dbq.Outcome
}

func (q *farQueue) Name() string { return q.name }

func (q *farQueue) Checkout(_ context.Context, n int, lease time.Duration) ([]dbq.Task, error) {
	return q.checkout(n, lease, 0)
}

func (q *farQueue) ExtendMany(_ context.Context, ls []dbq.Lease, d time.Duration) (
	renewed, lost []dbq.Lease, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.extended = append(q.extended, time.Now())
	for i := range ls {
		ls[i].Until = time.Now().Add(d)
	}
	return ls, nil, nil
}

func (q *farQueue) SettleMany(ctx context.Context, ss []dbq.Settlement) ([]dbq.Settled, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range ss {
		q.settled = append(q.settled, s.Outcome)
	}
	return make([]dbq.Settled, len(ss)), nil
}

// served is a farQueue with what a *client.Queue has.
type served struct{ *farQueue }

func (q served) Remote() invoke.Remote {
	return invoke.Remote{
		Checkout: func(_ context.Context, _ string, n int, lease, wait time.Duration) ([]dbq.Task, error) {
			return q.checkout(n, lease, wait) // the end of ctx does not interrupt it
		},
		IsFinal: q.final, Logger: slog.New(slog.DiscardHandler),
	}
}

func farTask(lease time.Duration) dbq.Task {
	id := dbq.NewID()
	return dbq.Task{ID: id, Queue: "far", Attempt: 1, MaxAttempts: 5, Lease: dbq.Lease{
		TaskID: id, Queue: "far", Fence: 1, Attempt: 1, Until: time.Now().Add(lease)}}
}

func succeed(context.Context, dbq.Task) error { return nil }

// The tasks of a checkout that returns after DrainTimeout and Grace are released: their attempts count already.
func TestLateCheckoutIsReleasedAfterAShortDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &farQueue{name: "far"}
		q.checkout = func(_ int, lease, wait time.Duration) ([]dbq.Task, error) {
			time.Sleep(wait * 3 / 4) // then a task becomes due
			return []dbq.Task{farTask(lease)}, nil
		}
		w := worker.Worker{Queue: served{q},
			Tuning: worker.Tuning{PollMax: 20 * time.Second, Grace: time.Second}, DrainTimeout: time.Second,
			Handler: worker.Func(succeed)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Second)
		cancel()
		check.OK(t, <-ended)
		if last := len(q.settled) - 1; last < 0 || q.settled[last].Event() != state.Release {
			t.Errorf("it settled %v, want at last a release of the task of the late checkout", q.settled)
		}
	})
}

// A server may shorten the wait; the next request follows it at once.
func TestShortenedWaitIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		var longest time.Duration
		q := &farQueue{name: "far"}
		q.checkout = func(int, time.Duration, time.Duration) ([]dbq.Task, error) {
			if !last.IsZero() {
				longest = max(longest, time.Since(last))
			}
			time.Sleep(time.Minute) // the default MaxWait of a server
			last = time.Now()
			return nil, nil
		}
		w := worker.Worker{Queue: served{q}, Tuning: worker.Tuning{PollMax: 5 * time.Minute}, Handler: worker.Func(succeed)}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		check.OK(t, w.Run(ctx))
		if longest > 2*time.Second {
			t.Errorf("between two waits of a minute nobody waited for %v", longest)
		}
	})
}

// A Queue that is only slow has not waited: the worker pauses between its checkouts.
func TestSlowQueueIsNotHammered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		q := &farQueue{name: "far"}
		q.checkout = func(int, time.Duration, time.Duration) ([]dbq.Task, error) {
			n++
			time.Sleep(1100 * time.Millisecond)
			return nil, nil
		}
		w := worker.Worker{Queue: q, Handler: worker.Func(succeed), Logger: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()
		check.OK(t, w.Run(ctx))
		if n > 60 { // pauses of 1 to 2 s
			t.Errorf("%d checkouts of 1.1 s in 110 s: it never pauses", n)
		}
	})
}

// An error that retrying cannot cure in one worker ends all of a Group.
func TestGroupEndsWithAFinalError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := &farQueue{name: "refused", final: func(error) bool { return true },
			checkout: func(int, time.Duration, time.Duration) ([]dbq.Task, error) {
				return nil, &dbq.Error{Op: "checkout", Err: dbq.ErrDenied}
			}}
		empty := &farQueue{name: "empty", checkout: func(int, time.Duration, time.Duration) ([]dbq.Task, error) {
			return nil, nil
		}}
		h := worker.Func(succeed)
		g := worker.Group{Workers: []worker.Worker{
			{Queue: served{refused}, Handler: h}, {Queue: served{empty}, Handler: h}}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err := g.Run(ctx)
		if ctx.Err() != nil || !errors.Is(err, dbq.ErrDenied) {
			t.Errorf("got %v, and the context's %v: want the refusal to end the Group", err, ctx.Err())
		}
	})
}

// No query for due tasks is observed where there is none.
func TestNoQueryIsObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &farQueue{name: "far", checkout: func(int, time.Duration, time.Duration) ([]dbq.Task, error) { return nil, nil }}
		n := 0
		w := worker.Worker{Queue: q, Handler: worker.Func(succeed), Logger: slog.New(slog.DiscardHandler),
			Observe: func(o worker.Observation) {
				if o.Type == worker.Queried {
					n++
				}
			}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.OK(t, w.Run(ctx))
		if n > 0 {
			t.Errorf("%d queries were observed, none was made", n)
		}
	})
}

// A Worker runs on any Queue: it polls, keeps the leases of long handlers, and settles.
func TestAnyQueueWillDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		due := false
		q := &farQueue{name: "far"}
		q.checkout = func(_ int, lease, _ time.Duration) ([]dbq.Task, error) {
			q.mu.Lock()
			defer q.mu.Unlock()
			if !due {
				return nil, nil
			}
			due = false
			return []dbq.Task{farTask(lease)}, nil
		}
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
		due = true
		q.mu.Unlock()
		time.Sleep(2 * time.Minute)
		cancel()
		check.OK(t, <-ended)
		if len(q.settled) != 1 || q.settled[0].Retries() || len(q.extended) < 5 || len(q.extended) > 7 {
			t.Errorf("it settled %v and extended at %v, want a completion and an extension each 10 s", q.settled, q.extended)
		}
	})
}
