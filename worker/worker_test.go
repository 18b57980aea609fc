package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

func open(t *testing.T) *dbq.Queue {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "q.db"))
}

func openAt(t *testing.T, file string) *dbq.Queue {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+file, dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c.Queue("q")
}

func enqueue(t *testing.T, q *dbq.Queue, n int, task dbq.NewTask) []uuid.UUID {
	t.Helper()
	ts := make([]dbq.NewTask, n)
	for i := range ts {
		ts[i] = task
	}
	out, err := q.EnqueueMany(t.Context(), ts)
	check.OK(t, err)
	ids := make([]uuid.UUID, n)
	for i := range out {
		ids[i] = out[i].ID
	}
	return ids
}

func get(t *testing.T, q *dbq.Queue, id uuid.UUID) dbq.Task {
	t.Helper()
	task, err := q.Client().Get(context.WithoutCancel(t.Context()), id)
	check.OK(t, err)
	return task
}

// start runs a worker until the test ends, or stop is called, which returns Run's error.
func start(t *testing.T, w worker.Worker) (stop func() error) { return check.Start(t, w.Run) }

func TestEveryTaskIsHandledOnce(t *testing.T) {
	t.Parallel()
	q := open(t)
	const n = 3000
	ids := enqueue(t, q, n, dbq.NewTask{Payload: []byte("x")})
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	w := worker.Worker{Queue: q, Concurrency: 8, UntilEmpty: true,
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			mu.Lock()
			defer mu.Unlock()
			seen[task.ID]++
			return dbq.Completed(append([]byte("done "), task.Payload...))
		})}
	check.OK(t, w.Run(t.Context()))
	for _, id := range ids {
		if seen[id] != 1 {
			t.Fatalf("task %s was handled %d times, want once", id, seen[id])
		}
	}
	if task := get(t, q, ids[n-1]); task.State != dbq.StateCompleted || string(task.Result) != "done x" {
		t.Errorf("got state %v and result %q, want COMPLETED and %q", task.State, task.Result, "done x")
	}
}

func TestOutcomesDecideHowTheAttemptEnds(t *testing.T) {
	t.Parallel()
	boom, inAnHour := errors.New("boom"), time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		err    error
		state  dbq.State
		parked bool
		result string
	}{
		"plain error is retried": {err: boom, state: dbq.StateError, result: "boom"},
		"poisoned":               {err: dbq.Poisoned(boom), state: dbq.StatePoison, result: "boom"},
		"wrapped poisoned": {err: fmt.Errorf("mail: %w", dbq.Poisoned(boom)), state: dbq.StatePoison,
			result: "mail: boom"},
		"parked":                  {err: dbq.Parked(boom), state: dbq.StateError, parked: true, result: "boom"},
		"retry in":                {err: dbq.RetryIn(time.Hour, boom), state: dbq.StateError, result: "boom"},
		"retry at":                {err: dbq.RetryAt(inAnHour, boom), state: dbq.StateError, result: "boom"},
		"retry out of bounds":     {err: dbq.RetryIn(math.MaxInt64, boom), state: dbq.StateError, result: "boom"},
		"released":                {err: dbq.Released(time.Hour), state: dbq.StateCreated},
		"completed with a result": {err: dbq.Completed([]byte("done")), state: dbq.StateCompleted, result: "done"},
		"released with a result": {err: dbq.Released(time.Hour).WithResult([]byte("half")), state: dbq.StateCreated,
			result: "half"},
		"deleted": {err: dbq.Deleted()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			id := enqueue(t, q, 1, dbq.NewTask{})[0]
			w := worker.Worker{Queue: q, UntilEmpty: true, Backoff: func(int) time.Duration { return time.Hour },
				Handler: worker.Func(func(context.Context, dbq.Task) error { return c.err })}
			check.OK(t, w.Run(t.Context()))
			task, err := q.Client().Get(t.Context(), id)
			if c.state == 0 && errors.Is(err, dbq.ErrNotFound) {
				return
			}
			if err != nil || task.State != c.state || task.Parked() != c.parked || string(task.Result) != c.result {
				t.Errorf("got %v, parked %v, result %q; want %v, %v, %q",
					task.State, task.Parked(), task.Result, c.state, c.parked, c.result)
			}
			wantAttempt := 1
			if c.state == dbq.StateCreated {
				wantAttempt = 0
			}
			if task.Attempt != wantAttempt {
				t.Errorf("got attempt %d, want %d", task.Attempt, wantAttempt)
			}
		})
	}
}

func TestPanicIsAnErrorWithItsStack(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})[0]
	w := worker.Worker{Queue: q, UntilEmpty: true,
		Handler: worker.Func(func(context.Context, dbq.Task) error { panic("kaboom") })}
	check.OK(t, w.Run(t.Context()))
	task := get(t, q, id)
	if task.State != dbq.StatePoison {
		t.Errorf("got %v, want POISON: the only attempt is exhausted", task.State)
	}
	for _, want := range []string{"kaboom", "worker_test.go"} {
		if !strings.Contains(string(task.Result), want) {
			t.Errorf("the result lacks %q: %s", want, task.Result)
		}
	}
}

// The cause of a handler's context says how its lease was lost, by whom and why.
func TestLostLeaseEndsTheHandlersContext(t *testing.T) {
	t.Parallel()
	operate := func(q *dbq.Queue, event state.Event, id uuid.UUID) {
		if err := admin.New(q.Client()).Operate(t.Context(), event, id, admin.By("ops"), admin.Reason("enough")); err != nil {
			t.Error(err)
		}
	}
	for text, c := range map[string]struct {
		want error
		lose func(q *dbq.Queue, id uuid.UUID)
	}{
		"revoked by ops: enough":   {worker.ErrRevoked, func(q *dbq.Queue, id uuid.UUID) { operate(q, admin.Revoke, id) }},
		"cancelled by ops: enough": {worker.ErrCancelled, func(q *dbq.Queue, id uuid.UUID) { operate(q, admin.Cancel, id) }},
		"another worker": {worker.ErrTakenOver, func(q *dbq.Queue, _ uuid.UUID) { // as a checkout does after the lease
			exec(t, q, "UPDATE dbq_task SET fence = fence + 1")
		}},
	} {
		q := open(t)
		id := enqueue(t, q, 1, dbq.NewTask{})[0]
		started, causes := make(chan struct{}), make(chan error, 1)
		start(t, worker.Worker{Queue: q, Lease: 3 * time.Second,
			Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
				close(started)
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			})})
		<-started
		c.lose(q, id)
		select {
		case cause := <-causes:
			if !errors.Is(cause, dbq.ErrLeaseLost) || !errors.Is(cause, c.want) || !strings.Contains(cause.Error(), text) {
				t.Errorf("got cause %v, want %v with %q", cause, c.want, text)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the handler's context did not end")
		}
	}
}

func TestUnreachableDatabaseEndsTheHandlersContextWithItsLease(t *testing.T) {
	t.Parallel()
	db := open(t).Client().DB()
	c, err := dbq.New(t.Context(), db, sqliteDialect) // whose one pool is all that it has
	check.OK(t, err)
	q := c.Queue("q")
	enqueue(t, q, 1, dbq.NewTask{})
	const lease = 300 * time.Millisecond
	took := make(chan time.Duration, 1)
	start(t, worker.Worker{Queue: q, Lease: lease,
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			db.Close() // from here on nothing can be renewed, nor read
			begin := time.Now()
			<-ctx.Done()
			took <- time.Since(begin)
			return context.Cause(ctx)
		})})
	select {
	case d := <-took:
		if d > 2*lease+5*time.Second {
			t.Errorf("the context ended after %v, the lease was %v", d, lease)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the handler's context did not end")
	}
}

func TestMisconfiguredWorkerDoesNotRun(t *testing.T) {
	t.Parallel()
	q := open(t)
	h := worker.Func(func(context.Context, dbq.Task) error { return nil })
	for name, w := range map[string]worker.Worker{
		"no queue":       {Handler: h},
		"no handler":     {Queue: q},
		"negative":       {Queue: q, Handler: h, Concurrency: -1},
		"short lease":    {Queue: q, Handler: h, Lease: time.Millisecond},
		"long lease":     {Queue: q, Handler: h, Lease: 48 * time.Hour},
		"batch too big":  {Queue: q, Handler: h, MaxCheckout: dbq.MaxCheckout + 1},
		"quick check":    {Queue: q, Handler: h, Tuning: worker.Tuning{ReportInterval: time.Nanosecond}},
		"retention":      {Queue: q, Handler: h, Retention: dbq.Retention{Poison: -1}},
		"bad queue name": {Queue: q.Client().Queue(""), Handler: h},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.Run(t.Context())
			if !errors.Is(err, worker.ErrConfig) && !errors.Is(err, dbq.ErrInvalid) {
				t.Errorf("got %v, want ErrConfig or ErrInvalid", err)
			}
		})
	}
}
