package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

var sqliteDialect = sqlite.Dialect{}

func hour(int) time.Duration { return time.Hour }

func runEmpty(t *testing.T, w worker.Worker) {
	t.Helper()
	w.UntilEmpty = true
	if w.Backoff == nil {
		w.Backoff = hour
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTimeoutFailsTheAttempt(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	runEmpty(t, worker.Worker{Queue: q, Timeout: 20 * time.Millisecond,
		Handler: worker.HandlerFunc(func(ctx context.Context, _ dbq.Task) ([]byte, error) {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, worker.ErrTimeout) {
				t.Errorf("got cause %v, want ErrTimeout", cause)
			}
			return nil, ctx.Err()
		})})
	task := get(t, q, id)
	if task.State != dbq.StateError || task.Parked() || !strings.Contains(string(task.Result), worker.ErrTimeout.Error()) {
		t.Errorf("got %v with %q, want ERROR with a retry and %q", task.State, task.Result, worker.ErrTimeout)
	}
}

func TestHandlerThatIgnoresItsTimeoutBlocksNobody(t *testing.T) {
	t.Parallel()
	q := open(t)
	var log lockedBuffer
	release := make(chan struct{})
	defer close(release)
	enqueue(t, q, 1, dbq.NewTask{Kind: "stuck"})
	id := enqueue(t, q, 1, dbq.NewTask{Kind: "quick"})[0]
	started := make(chan struct{}, 10)
	stop := start(t, worker.Worker{Queue: q, Concurrency: 1, Timeout: 10 * time.Millisecond, Grace: 10 * time.Millisecond, Backoff: hour,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) ([]byte, error) {
			if task.Kind == "stuck" {
				ignoreEverything(release)
			}
			started <- struct{}{}
			return []byte("too late"), nil
		})})
	eventually(t, "the other task is completed", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	tasks, err := q.Client().List(t.Context(), dbq.Filter{Kind: "stuck"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stuck attempt has failed", func() bool { return get(t, q, tasks[0].ID).State == dbq.StateError })
	if text := log.String(); !strings.Contains(text, "ignoreEverything") || !strings.Contains(text, tasks[0].ID.String()) {
		t.Errorf("the log names no task with the stack of its handler: %s", text)
	}
	if err := stop(); !errors.Is(err, worker.ErrAbandoned) {
		t.Errorf("got %v, want ErrAbandoned: the handler is still at it", err)
	}
}

//go:noinline
func ignoreEverything(until <-chan struct{}) { <-until }

func TestHandlerThatComesBackLateIsAWorkersHandlerAgain(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 6, dbq.NewTask{})
	release := make(chan struct{})
	var calls atomic.Int64
	stop := start(t, worker.Worker{Queue: q, Concurrency: 1, Timeout: 10 * time.Millisecond, Grace: 10 * time.Millisecond, Backoff: hour,
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) {
			if calls.Add(1) <= 3 { // one more than are replaced
				<-release
			}
			return nil, nil
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

func TestMaxAttemptsOfTheWorkerEndInPoisonAndCallTheHook(t *testing.T) {
	t.Parallel()
	q := open(t)
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		err  error
		hook bool
	}{
		"plain error": {boom, true}, "RetryIn": {worker.RetryIn(time.Hour, boom), true}, "Poison": {worker.Poison(boom), true},
		"Park": {worker.Park(boom), false}, "Snooze": {worker.Snooze(time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := q.Client().Queue(name)
			id := enqueue(t, q, 1, dbq.NewTask{})[0]
			var hooked []dbq.Task
			var hookErr error
			runEmpty(t, worker.Worker{Queue: q, MaxAttempts: 1,
				OnPoison: func(_ context.Context, t dbq.Task, err error) { hooked, hookErr = append(hooked, t), err },
				Handler:  worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, c.err })})
			if (get(t, q, id).State == dbq.StatePoison) != c.hook || (len(hooked) == 1 && hooked[0].ID == id) != c.hook {
				t.Errorf("got %v and hooks %v, want POISON and one hook: %v", get(t, q, id).State, hooked, c.hook)
			}
			if c.hook && !errors.Is(hookErr, boom) {
				t.Errorf("the hook got %v, want %v", hookErr, boom)
			}
		})
	}
}

func TestHookHearsOfALastAttemptThatCrashed(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})[0]
	if _, err := q.Checkout(t.Context(), 1, dbq.MinLease); err != nil { // and never settled
		t.Fatal(err)
	}
	hooked := make(chan dbq.Task, 1)
	start(t, worker.Worker{Queue: q, OnPoison: func(_ context.Context, t dbq.Task, _ error) { hooked <- t },
		Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil })})
	if task := wantStarted(t, "a lease that ran out", hooked); task.ID != id || task.State != dbq.StatePoison {
		t.Errorf("the hook got %v in %v", task.ID, task.State)
	}
}

func TestSnoozeKeepsTheResultBesideIt(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	runEmpty(t, worker.Worker{Queue: q, Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) {
		return []byte("half done"), worker.Snooze(time.Hour)
	})})
	if task := get(t, q, id); string(task.Result) != "half done" || task.Attempt != 0 || task.State != dbq.StateCreated {
		t.Errorf("got %v with %q after %d attempts", task.State, task.Result, task.Attempt)
	}
}

type mail struct{ To string }

func TestTypedHandlersGetTheirKinds(t *testing.T) {
	t.Parallel()
	q := open(t)
	send, count := dbq.Kind[mail]{Name: "send"}, dbq.Kind[int]{Name: "count"}
	var mux worker.Mux
	worker.HandleResult(&mux, send, func(_ context.Context, t dbq.Task, m mail) ([]byte, error) { return []byte("to " + m.To), nil })
	worker.Handle(&mux, count, func(_ context.Context, _ dbq.Task, n int) error { return fmt.Errorf("counted %d", n) }, worker.Limits{MaxAttempts: 1})
	mailID, err := send.Enqueue(t.Context(), q, mail{To: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	countID, err := count.Enqueue(t.Context(), q, 7)
	if err != nil {
		t.Fatal(err)
	}
	badID := enqueue(t, q, 1, dbq.NewTask{Kind: "send", Payload: []byte("no JSON")})[0]
	unknownID := enqueue(t, q, 1, dbq.NewTask{Kind: "other"})[0]
	runEmpty(t, worker.Worker{Queue: q, Handler: &mux})

	if task := get(t, q, mailID); task.State != dbq.StateCompleted || string(task.Result) != "to ann" {
		t.Errorf("typed task: got %v with %q", task.State, task.Result)
	}
	if task := get(t, q, countID); task.State != dbq.StatePoison || string(task.Result) != "counted 7" {
		t.Errorf("a kind with one attempt: got %v with %q, want POISON", task.State, task.Result)
	}
	if task := get(t, q, badID); !task.Parked() || !strings.Contains(string(task.Result), dbq.ErrPayload.Error()) {
		t.Errorf("a payload that cannot be decoded: got %v with %q, want it parked with the reason", task.State, task.Result)
	}
	if task := get(t, q, unknownID); !task.Parked() || !strings.Contains(string(task.Result), `"other"`) {
		t.Errorf("an unknown kind: got %v with %q, want it parked with the reason", task.State, task.Result)
	}
	if _, err := (dbq.Kind[func()]{}).Task(nil); !errors.Is(err, dbq.ErrPayload) {
		t.Errorf("a value that JSON cannot hold: got %v, want ErrPayload", err)
	}
}

func TestBatchHandlerDecidesAboutEachTask(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 25, dbq.NewTask{})
	var mu sync.Mutex
	most, seen := 0, 0
	runEmpty(t, worker.Worker{Queue: q, Concurrency: 2, BatchSize: 10,
		BatchHandler: worker.BatchFunc(func(_ context.Context, ts []dbq.Task) []worker.Outcome {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, len(ts))
			out := make([]worker.Outcome, len(ts))
			for i, task := range ts {
				seen++
				switch task.ID {
				case ids[3]:
					out[i].Err = worker.Poison(errors.New("bad"))
				case ids[4]:
					out[i].Err = worker.Delete
				default:
					out[i].Result = []byte("ok")
				}
			}
			return out
		})})
	if most < 2 || most > 10 || seen != 25 {
		t.Errorf("batches of up to %d, %d tasks in all; want up to 10, and 25", most, seen)
	}
	for i, id := range ids {
		if i == 4 {
			if _, err := q.Client().Get(t.Context(), id); !errors.Is(err, dbq.ErrNotFound) {
				t.Errorf("got %v for a deleted task", err)
			}
			continue
		}
		want := dbq.StateCompleted
		if i == 3 {
			want = dbq.StatePoison
		}
		if task := get(t, q, id); task.State != want {
			t.Errorf("task %d is %v, want %v", i, task.State, want)
		}
	}
}

func TestBatchHandlerThatPanicsOrForgetsFailsTheTasks(t *testing.T) {
	t.Parallel()
	q := open(t)
	for name, f := range map[string]worker.BatchFunc{
		"panics":  func(context.Context, []dbq.Task) []worker.Outcome { panic("kaboom") },
		"forgets": func(context.Context, []dbq.Task) []worker.Outcome { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := q.Client().Queue(name)
			ids := enqueue(t, q, 3, dbq.NewTask{})
			runEmpty(t, worker.Worker{Queue: q, BatchHandler: f})
			for _, id := range ids {
				if task := get(t, q, id); task.State != dbq.StateError || len(task.Result) == 0 {
					t.Errorf("got %v with %q, want ERROR with a reason", task.State, task.Result)
				}
			}
		})
	}
}

func TestMiddlewareIsAroundTheHandlerInOrder(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	var order []string
	note := func(name string) worker.Middleware {
		return func(next worker.Handler) worker.Handler {
			return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) ([]byte, error) {
				order = append(order, name)
				defer func() { order = append(order, "/"+name) }()
				return next.Handle(ctx, t)
			})
		}
	}
	runEmpty(t, worker.Worker{Queue: q, Concurrency: 1, Middleware: []worker.Middleware{note("outer"), note("inner")},
		Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil })})
	if got, want := strings.Join(order, " "), "outer inner /inner /outer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHandlersContextCarriesRunsValues(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	type key struct{}
	w := worker.Worker{Queue: q, UntilEmpty: true, Handler: worker.HandlerFunc(func(ctx context.Context, _ dbq.Task) ([]byte, error) {
		if ctx.Value(key{}) != "value" {
			t.Error("the value of Run's context is missing")
		}
		return nil, nil
	})}
	if err := w.Run(context.WithValue(t.Context(), key{}, "value")); err != nil {
		t.Fatal(err)
	}
}

func TestEveryTaskIsStartedEndedAndRecordedForTheObserver(t *testing.T) {
	t.Parallel()
	q := open(t)
	const n = 50
	enqueue(t, q, n, dbq.NewTask{})
	var mu sync.Mutex
	seen := map[worker.EventKind]int{}
	runEmpty(t, worker.Worker{Queue: q, Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil }),
		Observe: func(e worker.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen[e.Kind]++
			if e.Queue != "q" || e.Kind == worker.Ended && e.Outcome != "complete" || e.Kind == worker.Recorded && e.State != dbq.StateCompleted {
				t.Errorf("got %+v", e)
			}
		}})
	if seen[worker.Started] != n || seen[worker.Ended] != n || seen[worker.Recorded] != n || seen[worker.Polled] < 1 {
		t.Errorf("got %v, want %d of each", seen, n)
	}
}

// lockedBuffer is written by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestHeartbeatsGoOnWhileTheWorkerDrains(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	const lease = time.Second
	started := make(chan struct{})
	stop := start(t, worker.Worker{Queue: q, Lease: lease, Handler: worker.HandlerFunc(func(ctx context.Context, _ dbq.Task) ([]byte, error) {
		close(started)
		select {
		case <-time.After(5 * lease / 2):
			return []byte("kept"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
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
	stop := start(t, worker.Worker{Queue: q, Concurrency: 1, DrainTimeout: time.Millisecond, Grace: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) {
			close(started)
			ignoreEverything(release)
			return nil, nil
		})})
	<-started
	if err := stop(); !errors.Is(err, worker.ErrAbandoned) {
		t.Errorf("got %v, want ErrAbandoned", err)
	}
	if !strings.Contains(log.String(), "ignoreEverything") {
		t.Errorf("the log lacks the handler's stack: %s", log.String())
	}
	if task := get(t, q, id); task.State != dbq.StateProcessing { // until its lease runs out: the handler may still be at it
		t.Errorf("got %v, want PROCESSING", task.State)
	}
}

func TestStuckHandlerWhoseLeaseIsLostBlocksNobody(t *testing.T) {
	t.Parallel()
	q := open(t)
	first := enqueue(t, q, 1, dbq.NewTask{Kind: "stuck"})[0]
	started, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	start(t, worker.Worker{Queue: q, Concurrency: 1, Lease: 300 * time.Millisecond, Grace: 10 * time.Millisecond, DrainTimeout: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) ([]byte, error) {
			if task.Kind == "stuck" {
				close(started)
				<-release
			}
			return []byte("too late"), nil
		})})
	<-started
	if err := q.Client().Revoke(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	eventually(t, "the other task is completed", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	if task := get(t, q, first); !task.Parked() || string(task.Result) != "revoked by "+q.Client().Name() {
		t.Errorf("got %v with %q, want it parked as the operator left it", task.State, task.Result)
	}
}
