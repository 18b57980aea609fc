package worker_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// The same as t.FailNow in a handler of a test.
func TestGoexitFailsTheAttemptAndKeepsTheExecutor(t *testing.T) {
	t.Parallel()
	one := func(task dbq.Task) {
		if task.Attempt == 1 {
			runtime.Goexit()
		}
	}
	for name, w := range map[string]worker.Worker{
		"Handler": {Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			one(task)
			return dbq.Completed([]byte("done"))
		})},
		"BatchHandler": {BatchSize: 2, BatchHandler: worker.BatchFunc(
			func(_ context.Context, tasks []dbq.Task) []dbq.Outcome {
				for _, task := range tasks {
					one(task)
				}
				return make([]dbq.Outcome, len(tasks))
			})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			ids := enqueue(t, q, 5, dbq.NewTask{})
			w.Queue, w.Concurrency, w.UntilEmpty, w.Logger = q, 1, true, slog.New(slog.DiscardHandler)
			w.Backoff = func(int) time.Duration { return 0 }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := w.Run(ctx); err != nil || ctx.Err() != nil {
				t.Fatal(err, ctx.Err())
			}
			for _, id := range ids {
				if task := get(t, q, id); task.State != dbq.StateCompleted || task.Attempt < 2 {
					t.Errorf("got %v after %d attempts, want COMPLETED after 2 or more", task.State, task.Attempt)
				}
				attempts, err := admin.New(q.Client()).Attempts(t.Context(), id)
				if err != nil || len(attempts) < 2 || !strings.Contains(attempts[0].Error, "runtime.Goexit") {
					t.Errorf("got %v, %v; want two attempts or more, the first of which says runtime.Goexit", attempts, err)
				}
			}
		})
	}
}

// Step's caller is the goroutine that ends, but not before the attempt is settled.
func TestGoexitInStepSettlesTheAttempt(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	w := worker.Worker{Queue: q, Backoff: hour, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			runtime.Goexit()
			return nil
		})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = w.Step(t.Context())
	}()
	<-ended
	if task := get(t, q, id); task.State != dbq.StateError || !strings.Contains(string(task.Result), "runtime.Goexit") {
		t.Errorf("got %v with %q, want ERROR with the reason", task.State, task.Result)
	}
}

// A handler that ends its goroutine after the worker has gone on without it leaves an executor in its place.
func TestGoexitOfAStuckHandlerKeepsTheExecutor(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 3, dbq.NewTask{})
	start(t, worker.Worker{Queue: q, Concurrency: 1, Timeout: 10 * time.Millisecond,
		Tuning:  worker.Tuning{Grace: 10 * time.Millisecond},
		Backoff: func(int) time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(_ context.Context, task dbq.Task) error {
			if task.Attempt == 1 {
				time.Sleep(100 * time.Millisecond)
				runtime.Goexit()
			}
			return nil
		})})
	check.Eventually(t, "all are completed", func() bool {
		for _, id := range ids {
			if get(t, q, id).State != dbq.StateCompleted {
				return false
			}
		}
		return true
	})
}
