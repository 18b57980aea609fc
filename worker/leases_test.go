package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// The lease is shortened while a handler runs, and then nothing can be renewed any more: the handler's context ends
// with the short lease.
func TestShortenedLeaseIsWatchedAtOnce(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	const long, short = time.Minute, time.Second
	began, ended := make(chan struct{}), make(chan error, 1)
	start(t, worker.Worker{Queue: q, Lease: long,
		Tuning: worker.Tuning{ReportInterval: 10 * time.Millisecond}, DrainTimeout: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			close(began)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return context.Cause(ctx)
		})})
	<-began
	configure(t, q, func(s *admin.QueueSettings) { s.Lease = short })
	check.Eventually(t, "the lease is renewed for the short time", func() bool {
		wait, some, err := access.Of(q.Client()).Wake.Next(t.Context(), "q")
		return err == nil && some && wait <= short
	})
	q.Client().Close() // from here on nothing can be renewed, or asked
	select {
	case cause := <-ended:
		if !errors.Is(cause, dbq.ErrLeaseLost) {
			t.Errorf("the handler's context ended with %v, want ErrLeaseLost", cause)
		}
	case <-time.After(long / 3):
		t.Error("the handler's context did not end with the short lease")
	}
}

// The handler returns about when the worker continues without it, again and again: either way its attempt is settled
// before Step returns.
func TestStepSettlesAnAttemptWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	q := open(t)
	const grace = 5 * time.Millisecond
	w := worker.Worker{Queue: q, Timeout: time.Millisecond, Tuning: worker.Tuning{Grace: grace, Unlisted: true},
		Logger:  slog.New(slog.DiscardHandler),
		Backoff: func(int) time.Duration { return time.Hour },
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			<-ctx.Done()
			time.Sleep(grace)
			return context.Cause(ctx)
		})}
	for i := range 60 {
		id := enqueue(t, q, 1, dbq.NewTask{})[0]
		if _, found, err := w.Step(t.Context()); err != nil || !found {
			t.Fatal(found, err)
		}
		if task := get(t, q, id); task.State != dbq.StateError {
			t.Fatalf("step %d left the task %v, want ERROR", i, task.State)
		}
	}
}
