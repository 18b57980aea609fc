package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// patient is a worker that would poll once an hour: what it starts, it was woken for.
func patient(q *dbq.Queue, started chan<- dbq.Task) worker.Worker {
	return worker.Worker{Queue: q, Tuning: worker.Tuning{PollMin: time.Hour, PollMax: time.Hour},
		Handler: worker.Func(func(_ context.Context, t dbq.Task) error {
			started <- t
			return nil
		})}
}

func wantStarted(t *testing.T, what string, started <-chan dbq.Task) dbq.Task {
	t.Helper()
	select {
	case task := <-started:
		return task
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: the worker did not wake", what)
		return dbq.Task{}
	}
}

func TestEnqueueWakesAWorker(t *testing.T) {
	t.Parallel()
	q := open(t)
	started := make(chan dbq.Task, 10)
	start(t, patient(q, started))
	enqueue(t, q, 1, dbq.NewTask{})
	wantStarted(t, "the first enqueue", started)
	enqueue(t, q, 1, dbq.NewTask{})
	wantStarted(t, "an enqueue into a queue that the worker found empty", started)
	enqueue(t, q, 1, dbq.NewTask{Delay: 200 * time.Millisecond})
	wantStarted(t, "a delayed task", started)

	tx, err := q.Client().DB().BeginTx(t.Context(), nil)
	check.OK(t, err)
	defer tx.Rollback()
	_, err = q.EnqueueTx(t.Context(), tx, dbq.NewTask{})
	check.OK(t, err)
	check.OK(t, tx.Commit())
	wantStarted(t, "the commit of an enqueue", started)
}

func TestRetryWakesAWorkerWhenItIsDue(t *testing.T) {
	t.Parallel()
	q := open(t)
	started := make(chan dbq.Task, 10)
	w := patient(q, started)
	inner := w.Handler
	var calls atomic.Int64
	w.Handler = worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
		if calls.Add(1) == 1 {
			return dbq.RetryIn(100*time.Millisecond, context.DeadlineExceeded)
		}
		return inner.HandleTask(ctx, t)
	})
	start(t, w)
	enqueue(t, q, 1, dbq.NewTask{})
	if task := wantStarted(t, "the retry", started); task.Attempt != 2 {
		t.Errorf("got attempt %d, want 2", task.Attempt)
	}
}

// The worker's own queries report a task that no wake-up comes for, as one of another process.
func TestWorkerSleepsNoLongerThanTheNextTaskIsDue(t *testing.T) {
	t.Parallel()
	q := open(t)
	other, err := dbq.New(t.Context(), q.Client().DB(), sqliteDialect, dbq.WithName("another place")) // shares no waiters
	check.OK(t, err)
	defer other.Close()
	enqueue(t, other.Queue("q"), 1, dbq.NewTask{Delay: time.Second})
	started := make(chan dbq.Task, 10)
	w := patient(q, started)
	w.PollMin = time.Millisecond // asks soon, and then has an hour to wait but for the answer
	w.PollMax = time.Hour
	start(t, w)
	wantStarted(t, "a task that is due in a second", started)
}

func TestPausedWorkerTakesNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	q := open(t)
	started := make(chan dbq.Task, 10)
	w := patient(q, started)
	w.PollMin, w.PollMax = time.Millisecond, 5*time.Millisecond
	w.Switch = &worker.Switch{}
	w.Switch.Pause()
	start(t, w)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	time.Sleep(50 * time.Millisecond) // ten polls long
	if task := get(t, q, id); task.State != dbq.StateCreated || !w.Switch.Paused() {
		t.Fatalf("a worker that started paused took the task: %v", task.State)
	}
	w.Switch.Resume()
	wantStarted(t, "resumed", started)
	w.Switch.Pause()
	check.Eventually(t, "the worker is at rest", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	time.Sleep(20 * time.Millisecond) // a checkout that was under way at the pause may still take what comes
	id = enqueue(t, q, 1, dbq.NewTask{})[0]
	time.Sleep(50 * time.Millisecond)
	if task := get(t, q, id); task.State != dbq.StateCreated {
		t.Fatalf("a paused worker took a task: %v", task.State)
	}
	w.Switch.Resume()
	wantStarted(t, "resumed again", started)
}

func TestIdleWorkerQueriesLessThanOnceASecond(t *testing.T) {
	t.Parallel()
	q := open(t)
	var checkouts, questions atomic.Int64
	// It begins with the pauses that it comes to by itself.
	w := worker.Worker{Queue: q, Tuning: worker.Tuning{PollMin: 2 * time.Second, PollMax: 2 * time.Second},
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil }),
		Observe: func(e worker.Observation) {
			switch e.Type {
			case worker.CheckedOut:
				checkouts.Add(1)
			case worker.Queried:
				questions.Add(1)
			}
		}}
	stop := start(t, w)
	time.Sleep(5 * time.Second)
	check.OK(t, stop())
	if c, n := checkouts.Load(), questions.Load(); c != 1 || n < 1 || n >= 5 {
		t.Errorf("in 5 s of idleness the worker checked out %d times and asked %d times, "+
			"want once, and less than once a second", c, n)
	}
}
