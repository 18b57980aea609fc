package worker_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// counter is a handler that counts its calls.
func counter(n *atomic.Int64) worker.Handler {
	return worker.Func(func(context.Context, dbq.Task) error {
		n.Add(1)
		return nil
	})
}

func TestGroupWorksOnAllQueuesUntilTheyAreEmpty(t *testing.T) {
	t.Parallel()
	c := open(t).Client()
	var done [3]atomic.Int64
	g := worker.Group{Concurrency: 2}
	for i, name := range []string{"a", "b", "c"} {
		enqueue(t, c.Queue(name), 30*(i+1), dbq.NewTask{})
		g.Workers = append(g.Workers, worker.Worker{Queue: c.Queue(name), Handler: counter(&done[i]), UntilEmpty: true})
	}
	check.OK(t, g.Run(t.Context()))
	for i := range done {
		if got, want := done[i].Load(), int64(30*(i+1)); got != want {
			t.Errorf("queue %d: %d tasks were handled, want %d", i, got, want)
		}
	}
}

func TestMisconfiguredGroupDoesNotRun(t *testing.T) {
	t.Parallel()
	q := open(t)
	other := openAt(t, filepath.Join(t.TempDir(), "other.db"))
	h := worker.Func(func(context.Context, dbq.Task) error { return nil })
	batch := worker.BatchFunc(nil)
	for want, g := range map[string]worker.Group{
		"needs Workers":           {},
		"Group.Concurrency is -1": {Concurrency: -1, Workers: []worker.Worker{{Queue: q, Handler: h}}},
		"Workers[1]: ":            {Workers: []worker.Worker{{Queue: q, Handler: h}, {Queue: q}}},
		"different clients":       {Workers: []worker.Worker{{Queue: q, Handler: h}, {Queue: other, Handler: h}}},
		"Weight is -1":            {Workers: []worker.Worker{{Queue: q, Handler: h, Weight: -1}}},
		"has a BatchHandler":      {Workers: []worker.Worker{{Queue: q, BatchHandler: batch}}},
		"Workers[0] has a Weight": {Strict: true, Workers: []worker.Worker{{Queue: q, Handler: h, Weight: 2}}},
	} {
		err := g.Run(t.Context())
		if !errors.Is(err, worker.ErrConfig) || !errors.Is(err, dbq.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrConfig with %q", err, want)
		}
	}
}

// A worker's end by an operator, its pause, and a handler that takes long leave the Concurrency to the others.
func TestGroupContinuesWithoutAStoppedWorker(t *testing.T) {
	t.Parallel()
	c := open(t).Client()
	ops, ctx := admin.New(c), t.Context()
	var a, b atomic.Int64
	stop := check.Start(t, (&worker.Group{Concurrency: 1, Strict: true, Workers: []worker.Worker{
		{Queue: c.Queue("a"), Handler: counter(&a), ID: "a", Tuning: worker.Tuning{ReportInterval: time.Second}},
		{Queue: c.Queue("b"), Handler: counter(&b), ID: "b", Tuning: worker.Tuning{ReportInterval: time.Second}},
	}}).Run)
	registered := func(state string, n int) func() bool {
		return func() bool {
			ws, err := ops.Workers(ctx)
			found := 0
			for _, w := range ws {
				if w.State == state {
					found++
				}
			}
			return err == nil && found == n
		}
	}
	check.Eventually(t, "both workers are in the registry", registered("running", 2))
	check.OK(t, ops.CommandWorker(ctx, "a", dbq.CommandPause))
	check.Eventually(t, "the worker is paused", registered("paused", 1))
	enqueue(t, c.Queue("a"), 3, dbq.NewTask{})
	enqueue(t, c.Queue("b"), 3, dbq.NewTask{})
	check.Eventually(t, "the other worker goes on", func() bool { return b.Load() == 3 })
	check.OK(t, ops.CommandWorker(ctx, "a", dbq.CommandResume))
	check.Eventually(t, "the paused worker resumes", func() bool { return a.Load() == 3 })
	check.OK(t, ops.CommandWorker(ctx, "a", dbq.CommandStop))
	check.Eventually(t, "the worker ends", registered("running", 1))
	enqueue(t, c.Queue("b"), 3, dbq.NewTask{})
	check.Eventually(t, "the other worker goes on", func() bool { return b.Load() == 6 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A group leases only tasks that it starts at once, and finishes these when its context ends.
func TestGroupLeasesWhatItStarts(t *testing.T) {
	t.Parallel()
	const n, concurrency = 10, 3
	c := open(t).Client()
	began, proceed := make(chan struct{}, 2*n), make(chan struct{})
	g := worker.Group{Concurrency: concurrency}
	for _, name := range []string{"a", "b"} {
		enqueue(t, c.Queue(name), n, dbq.NewTask{})
		g.Workers = append(g.Workers, worker.Worker{Queue: c.Queue(name),
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				began <- struct{}{}
				<-proceed
				return nil
			})})
	}
	stop := check.Start(t, g.Run)
	count := func(s dbq.State) (n int) {
		page, err := admin.New(c).List(t.Context(), admin.Filter{States: []dbq.State{s}})
		for _, task := range page.Tasks {
			if s != dbq.StateCreated || task.Attempt == 0 {
				n++
			}
		}
		if err != nil {
			t.Error(err)
		}
		return n
	}
	check.Eventually(t, "the handlers begin", func() bool { return len(began) == concurrency })
	time.Sleep(100 * time.Millisecond) // for a worker that would lease more
	if leased := count(dbq.StateProcessing); leased != concurrency {
		t.Errorf("%d tasks are leased while %d are in handlers", leased, concurrency)
	}
	time.AfterFunc(20*time.Millisecond, func() { close(proceed) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if done, rest := count(dbq.StateCompleted), count(dbq.StateCreated); done != concurrency || rest != 2*n-concurrency {
		t.Errorf("%d tasks are COMPLETED and %d untouched, want %d and the others", done, rest, concurrency)
	}
}

func TestErrorOfOneWorkerEndsTheGroup(t *testing.T) {
	t.Parallel()
	c := open(t).Client()
	var n atomic.Int64
	g := worker.Group{Workers: []worker.Worker{
		{Queue: c.Queue("a"), Handler: counter(&n)},
		{Queue: c.Queue(""), Handler: counter(&n)},
	}}
	if err := g.Run(t.Context()); !errors.Is(err, dbq.ErrQueueName) || !strings.Contains(err.Error(), `queue ""`) {
		t.Errorf("got %v, want ErrQueueName of the second worker", err)
	}
}

// A handler of a group may fail, panic, exit its goroutine or ignore its context: its slot is free afterwards.
func TestEveryEndOfATaskFreesItsSlot(t *testing.T) {
	t.Parallel()
	c := open(t).Client()
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	mux := worker.NewMux()
	handle := func(kind string, f worker.HandlerFunc) { mux.Handle(kind, f) }
	handle("fails", func(context.Context, dbq.Task) dbq.Outcome { return dbq.Failed(errors.New("no")) })
	handle("panics", func(context.Context, dbq.Task) dbq.Outcome { panic("no") })
	handle("exits", func(context.Context, dbq.Task) dbq.Outcome {
		runtime.Goexit()
		return dbq.Deleted()
	})
	handle("hangs", func(context.Context, dbq.Task) dbq.Outcome { <-block; return dbq.Deleted() })
	handle("returns", func(context.Context, dbq.Task) dbq.Outcome { return dbq.Deleted() })
	q := c.Queue("a")
	for _, kind := range []string{"fails", "panics", "exits", "hangs"} {
		enqueue(t, q, 1, dbq.NewTask{Kind: kind, MaxAttempts: 2})
	}
	last := enqueue(t, q, 1, dbq.NewTask{Kind: "returns", Priority: 9})[0]
	stop := check.Start(t, (&worker.Group{Concurrency: 1, Workers: []worker.Worker{
		{Queue: q, Handler: mux, Timeout: 50 * time.Millisecond,
			Tuning: worker.Tuning{Grace: 50 * time.Millisecond}, Backoff: hour}}}).Run)
	check.Eventually(t, "the last task is done", func() bool {
		_, err := c.Get(context.WithoutCancel(t.Context()), last)
		return errors.Is(err, dbq.ErrNotFound)
	})
	if err := stop(); !errors.Is(err, worker.ErrAbandoned) {
		t.Errorf("got %v, want ErrAbandoned for the handler that hangs", err)
	}
}
