package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

func TestTimeoutFailsTheAttempt(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	runEmpty(t, worker.Worker{Queue: q, Timeout: 20 * time.Millisecond,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, worker.ErrTimeout) {
				t.Errorf("got cause %v, want ErrTimeout", cause)
			}
			return ctx.Err()
		})})
	task := get(t, q, id)
	if task.State != dbq.StateError || task.Parked() || !strings.Contains(string(task.Result), worker.ErrTimeout.Error()) {
		t.Errorf("got %v with %q, want ERROR with a retry and %q", task.State, task.Result, worker.ErrTimeout)
	}
}

func TestHandlerThatIgnoresItsTimeoutBlocksNoOther(t *testing.T) {
	t.Parallel()
	q := open(t)
	var log lockedBuffer
	release := make(chan struct{})
	defer close(release)
	enqueue(t, q, 1, dbq.NewTask{Kind: "stuck"})
	id := enqueue(t, q, 1, dbq.NewTask{Kind: "quick"})[0]
	started := make(chan struct{}, 10)
	stop := start(t, worker.Worker{Queue: q, Concurrency: 1, Timeout: 10 * time.Millisecond,
		Tuning: worker.Tuning{Grace: 10 * time.Millisecond}, Backoff: hour,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			if task.Kind == "stuck" {
				ignoreEverything(release)
			}
			started <- struct{}{}
			return dbq.Completed([]byte("too late"))
		})})
	eventually(t, "the other task is completed", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	page, err := admin.New(q.Client()).List(t.Context(), admin.Filter{Kind: "stuck"})
	check.OK(t, err)
	stuck := page.Tasks[0].ID
	eventually(t, "the stuck attempt has failed", func() bool { return get(t, q, stuck).State == dbq.StateError })
	if text := log.String(); !strings.Contains(text, "ignoreEverything") || !strings.Contains(text, stuck.String()) {
		t.Errorf("the log names no task with the stack of its handler: %s", text)
	}
	if err := stop(); !errors.Is(err, worker.ErrAbandoned) {
		t.Errorf("got %v, want ErrAbandoned: the handler is still at it", err)
	}
}

//go:noinline
func ignoreEverything(until <-chan struct{}) { <-until }

func TestLateHandlerReturnsItsExecutor(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 6, dbq.NewTask{})
	release := make(chan struct{})
	var calls atomic.Int64
	stop := start(t, worker.Worker{Queue: q, Concurrency: 1, Timeout: 10 * time.Millisecond,
		Tuning: worker.Tuning{Grace: 10 * time.Millisecond}, Backoff: hour,
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			if calls.Add(1) <= 3 { // one more than are replaced
				<-release
			}
			return nil
		})})
	failed := func() (n int) {
		for _, id := range ids {
			if get(t, q, id).State == dbq.StateError {
				n++
			}
		}
		return n
	}
	eventually(t, "two are stuck, which is all that the worker can afford", func() bool { return failed() == 2 })
	close(release)
	eventually(t, "the others are completed", func() bool { return calls.Load() == 6 })
	if err := stop(); err != nil {
		t.Errorf("got %v, want none: all handlers have returned", err)
	}
}

func TestHeartbeatsContinueDuringDrain(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	const lease = time.Second
	started := make(chan struct{})
	stop := start(t, worker.Worker{Queue: q, Lease: lease,
		Handler: worker.HandlerFunc(func(ctx context.Context, _ dbq.Task) dbq.Outcome {
			close(started)
			select {
			case <-time.After(5 * lease / 2):
				return dbq.Completed([]byte("kept"))
			case <-ctx.Done():
				return dbq.Failed(context.Cause(ctx))
			}
		})})
	<-started
	var thief sync.WaitGroup
	stolen := make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	thief.Go(func() {
		n := 0
		for ctx.Err() == nil {
			tasks, err := q.Checkout(t.Context(), 1, time.Minute)
			if err != nil {
				t.Errorf("checkout: %v", err)
			}
			n += len(tasks)
			time.Sleep(10 * time.Millisecond)
		}
		stolen <- n
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	cancel()
	thief.Wait()
	if n := <-stolen; n > 0 {
		t.Errorf("another worker got the task %d times while the first drained", n)
	}
	if task := get(t, q, id); string(task.Result) != "kept" || task.Attempt != 1 {
		t.Errorf("got %v with %q after %d attempts", task.State, task.Result, task.Attempt)
	}
}

func TestHandlerThatIgnoresTheShutdownIsReportedAndItsTaskLeft(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	var log lockedBuffer
	started, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	stop := start(t, worker.Worker{Queue: q, Concurrency: 1, DrainTimeout: time.Millisecond,
		Tuning: worker.Tuning{Grace: 10 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			close(started)
			ignoreEverything(release)
			return nil
		})})
	<-started
	if err := stop(); !errors.Is(err, worker.ErrAbandoned) {
		t.Errorf("got %v, want ErrAbandoned", err)
	}
	if !strings.Contains(log.String(), "ignoreEverything") {
		t.Errorf("the log lacks the handler's stack: %s", log.String())
	}
	// until its lease expires: the handler may still be at it
	if task := get(t, q, id); task.State != dbq.StateProcessing {
		t.Errorf("got %v, want PROCESSING", task.State)
	}
}

func TestStuckHandlerWithLostLeaseBlocksNoOther(t *testing.T) {
	t.Parallel()
	q := open(t)
	first := enqueue(t, q, 1, dbq.NewTask{Kind: "stuck"})[0]
	started, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	start(t, worker.Worker{Queue: q, Concurrency: 1, Lease: 300 * time.Millisecond,
		Tuning:       worker.Tuning{Grace: 10 * time.Millisecond},
		DrainTimeout: time.Millisecond,
		Logger:       slog.New(slog.DiscardHandler),
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			if task.Kind == "stuck" {
				close(started)
				<-release
			}
			return dbq.Completed([]byte("too late"))
		})})
	<-started
	check.OK(t, admin.New(q.Client()).Operate(t.Context(), admin.Revoke, first))
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	eventually(t, "the other task is completed", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	if task := get(t, q, first); !task.Parked() || string(task.Result) != "revoked by "+q.Client().Info().Name {
		t.Errorf("got %v with %q, want it parked as the operator left it", task.State, task.Result)
	}
}
