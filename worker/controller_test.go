package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// busy is a handler that works until it is told to stop, and counts how many do so at once.
func busy(now *atomic.Int64, stop <-chan struct{}) worker.Handler {
	return worker.Func(func(ctx context.Context, _ dbq.Task) error {
		now.Add(1)
		defer now.Add(-1)
		select {
		case <-stop:
		case <-ctx.Done():
		}
		return nil
	})
}

func configure(t *testing.T, q *dbq.Queue, change func(s *admin.QueueSettings)) {
	t.Helper()
	check.OK(t, admin.New(q.Client()).ConfigureQueue(t.Context(), q.Name(), change))
}

func TestConcurrencyFollowsTheQueuesSettings(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 500, dbq.NewTask{})
	var now atomic.Int64
	step := make(chan struct{})
	defer close(step)
	start(t, worker.Worker{Queue: q, Handler: busy(&now, step), Concurrency: 2,
		Tuning: worker.Tuning{ReportInterval: time.Hour},
		Logger: slog.New(slog.DiscardHandler)})
	runs := func(n int64) func() bool { return func() bool { return now.Load() == n } }
	check.Eventually(t, "two handlers run", runs(2))
	configure(t, q, func(s *admin.QueueSettings) { s.Concurrency = 5 })
	check.Eventually(t, "five handlers run", runs(5))
	configure(t, q, func(s *admin.QueueSettings) { s.Concurrency = 1 })
	check.Eventually(t, "the worker says that it has one", func() bool {
		ws, err := admin.New(q.Client()).Workers(t.Context())
		return err == nil && len(ws) == 1 && ws[0].Concurrency == 1
	})
	for range 20 { // as many tasks end, and at most one begins each time
		step <- struct{}{}
	}
	check.Eventually(t, "one handler runs", runs(1))
	configure(t, q, func(s *admin.QueueSettings) { s.Concurrency = 0 })
	check.Eventually(t, "the worker's own two run again", runs(2))
}

func TestLeaseAndAttemptsFollowTheQueuesSettings(t *testing.T) {
	t.Parallel()
	q := open(t)
	configure(t, q, func(s *admin.QueueSettings) { s.Lease, s.MaxAttempts = time.Hour, 1 })
	boom := worker.Func(func(context.Context, dbq.Task) error { return errors.New("boom") })
	start(t, worker.Worker{Queue: q, Handler: boom, Logger: slog.New(slog.DiscardHandler)})
	check.Eventually(t, "a failing task is POISON after its first attempt", func() bool {
		id := enqueue(t, q, 1, dbq.NewTask{})[0]
		check.Eventually(t, "the task has failed", func() bool { return get(t, q, id).State >= dbq.StateError })
		return get(t, q, id).State == dbq.StatePoison
	})
	var until atomic.Int64
	other := q.Client().Queue("other")
	configure(t, other, func(s *admin.QueueSettings) { s.Lease = time.Hour })
	start(t, worker.Worker{Queue: other, Handler: worker.Func(
		func(_ context.Context, task dbq.Task) error {
			until.Store(int64(time.Until(task.LeaseUntil)))
			return nil
		}), Logger: slog.New(slog.DiscardHandler)})
	check.Eventually(t, "a task is leased for an hour", func() bool {
		enqueue(t, other, 1, dbq.NewTask{})
		return time.Duration(until.Load()) > 30*time.Minute
	})
}

func TestOperatorsCommandsAreExecuted(t *testing.T) {
	t.Parallel()
	q := open(t)
	var handled atomic.Int64
	ended := make(chan error, 1)
	var obeyed []dbq.Command // until ended
	w := worker.Worker{Queue: q, ID: "the worker", Tuning: worker.Tuning{ReportInterval: time.Hour},
		Logger: slog.New(slog.DiscardHandler)}
	w.Observe = func(e worker.Observation) {
		if e.Type == worker.Commanded {
			obeyed = append(obeyed, e.Command)
		}
	}
	w.Handler = worker.Func(func(context.Context, dbq.Task) error {
		handled.Add(1)
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- w.Run(ctx) }()
	state := func() string {
		ws, err := admin.New(q.Client()).Workers(t.Context())
		if err != nil || len(ws) != 1 || ws[0].Dead {
			return ""
		}
		return ws[0].State
	}
	order := func(o dbq.Command) {
		t.Helper()
		check.OK(t, admin.New(q.Client()).CommandWorker(t.Context(), "the worker", o))
	}
	first := enqueue(t, q, 1, dbq.NewTask{})[0]
	check.Eventually(t, "the worker runs", func() bool {
		return state() == "running" && get(t, q, first).State == dbq.StateCompleted
	})
	order(dbq.CommandPause)
	check.Eventually(t, "the worker is paused", func() bool { return state() == "paused" })
	before := handled.Load()
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	time.Sleep(200 * time.Millisecond) // several times what it takes to be handled
	if handled.Load() != before || get(t, q, id).State != dbq.StateCreated {
		t.Error("a paused worker took a task")
	}
	order(dbq.CommandResume)
	check.Eventually(t, "the task is done", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	order(dbq.CommandStop)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run returned %v, want nil after a clean drain", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the worker did not stop")
	}
	want := []dbq.Command{dbq.CommandPause, dbq.CommandResume, dbq.CommandStop}
	if !slices.Equal(obeyed, want) {
		t.Errorf("it obeyed %v, want %v", obeyed, want)
	}
	if ws, err := admin.New(q.Client()).Workers(t.Context()); err != nil || len(ws) != 0 {
		t.Errorf("got %+v, %v, want a worker that ended to be gone", ws, err)
	}
}

// Another process on SQLite wakes no worker here. Nor does a client with another DSN of the same file.
func TestWorkerWithoutWakeupsFindsCommandsByPolling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine, theirs := openAt(t, filepath.Join(dir, "q.db")), openAt(t, dir+"/./q.db")
	ended := make(chan error, 1)
	w := worker.Worker{Queue: mine, ID: "w", Tuning: worker.Tuning{ReportInterval: 50 * time.Millisecond}, Concurrency: 1,
		Handler: worker.HandlerFunc(nil)}
	go func() { ended <- w.Run(t.Context()) }()
	configure(t, theirs, func(s *admin.QueueSettings) { s.Concurrency = 3 })
	check.Eventually(t, "the worker follows the settings", func() bool {
		ws, err := admin.New(theirs.Client()).Workers(t.Context())
		return err == nil && len(ws) == 1 && ws[0].Concurrency == 3
	})
	check.OK(t, admin.New(theirs.Client()).CommandWorker(t.Context(), "w", dbq.CommandStop))
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the worker did not stop")
	}
}

func TestEveryAttemptIsInTheHistory(t *testing.T) {
	t.Parallel()
	q := open(t)
	crashing := enqueue(t, q, 1, dbq.NewTask{Kind: "crashed"})[0]
	tasks, err := q.Checkout(t.Context(), 1, time.Millisecond)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("got %v, %v", tasks, err)
	}
	time.Sleep(5 * time.Millisecond)
	want := map[uuid.UUID]string{crashing: "1 crashed, 2 completed"}
	for kind, outcomes := range map[string]string{
		"complete": "1 completed", "delete": "", "fail": "1 failed boom, 2 completed",
		"poison": "1 poisoned boom", "park": "1 failed boom", "spent": "1 poisoned boom",
		"snooze": "1 released, 1 completed", "settled": "1 completed",
		"panic": "1 failed panic: boom, 2 completed",
	} {
		nt := dbq.NewTask{Kind: kind}
		if kind == "spent" {
			nt.MaxAttempts = 1
		}
		want[enqueue(t, q, 1, nt)[0]] = outcomes
	}
	seen := make(map[uuid.UUID]int)
	err = (&worker.Worker{Queue: q, ID: "w", Concurrency: 1, Logger: slog.New(slog.DiscardHandler),
		Backoff: func(int) time.Duration { return 0 }, UntilEmpty: true,
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			boom := errors.New("boom")
			seen[task.ID]++
			switch first := seen[task.ID] == 1; {
			case task.Kind == "delete":
				return dbq.Deleted()
			case task.Kind == "fail" && first, task.Kind == "spent":
				return boom
			case task.Kind == "poison":
				return dbq.Poisoned(boom)
			case task.Kind == "park":
				return dbq.Parked(boom)
			case task.Kind == "snooze" && first:
				return dbq.Released(0)
			case task.Kind == "panic" && first:
				panic("boom")
			case task.Kind == "settled":
				if err := q.Complete(ctx, task.Lease, nil); err != nil {
					t.Error(err)
				}
				return nil
			}
			return nil
		})}).Run(t.Context())
	check.OK(t, err)
	for id, outcomes := range want {
		as, err := admin.New(q.Client()).Attempts(t.Context(), id)
		check.OK(t, err)
		var got []string
		for _, a := range as {
			text, _, _ := strings.Cut(a.Error, "\n")
			if a.Outcome == dbq.AttemptCrashed {
				text = ""
			} else if a.Worker != "w" || a.Taken.After(a.Ended) || a.Taken.IsZero() || a.Queue != "q" {
				t.Errorf("%+v: want the worker's name and its times", a)
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Number, a.Outcome, text)))
		}
		if strings.Join(got, ", ") != outcomes {
			t.Errorf("the history has %q, want %q", strings.Join(got, ", "), outcomes)
		}
	}
}

func TestHistoryFollowsItsSetting(t *testing.T) {
	t.Parallel()
	for history, want := range map[dbq.History][2]int{
		dbq.HistoryAll: {2, 2}, dbq.HistoryFailures: {2, 1}, dbq.HistoryNone: {1, 0},
	} {
		q := open(t)
		configure(t, q, func(s *admin.QueueSettings) { s.History = history })
		id := enqueue(t, q, 1, dbq.NewTask{})[0]
		failed := false
		err := (&worker.Worker{Queue: q, Logger: slog.New(slog.DiscardHandler),
			Backoff: func(int) time.Duration { return 0 }, UntilEmpty: true, History: history,
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				if !failed {
					failed = true
					return errors.New("boom")
				}
				return nil
			})}).Run(t.Context())
		check.OK(t, err)
		ops := admin.New(q.Client())
		wantAttempts := func(when string, want int) {
			if as, err := ops.Attempts(t.Context(), id); err != nil || len(as) != want {
				t.Errorf("%s: got %v, %v %s, want %d attempts", history, as, err, when, want)
			}
		}
		wantAttempts("of the completed task", want[0])
		check.Eventually(t, "the task is removed", func() bool {
			done, err := ops.Clean(t.Context(), q.Name(), dbq.Retention{Completed: time.Millisecond})
			return err == nil && done.Tasks == 1
		})
		wantAttempts("of the removed task", want[1])
	}
}

func TestOneWorkerOfAQueueCleans(t *testing.T) {
	t.Parallel()
	q := open(t)
	nothing := worker.Func(func(context.Context, dbq.Task) error { return nil })
	ids := enqueue(t, q, 30, dbq.NewTask{})
	for range 3 {
		start(t, worker.Worker{Queue: q, Handler: nothing, Logger: slog.New(slog.DiscardHandler),
			Retention: dbq.Retention{Completed: time.Hour}})
	}
	check.Eventually(t, "all are done", func() bool {
		left, err := admin.New(q.Client()).List(t.Context(), admin.Filter{States: []dbq.State{dbq.StateCompleted}})
		return err == nil && len(left.Tasks) == len(ids)
	})
	configure(t, q, func(s *admin.QueueSettings) {
		s.Retention.Completed, s.Retention.Attempts = time.Millisecond, time.Millisecond
	})
	check.Eventually(t, "the tasks are removed", func() bool {
		left, err := admin.New(q.Client()).List(t.Context(), admin.Filter{})
		return err == nil && len(left.Tasks) == 0
	})
	check.Eventually(t, "so is their history", func() bool {
		as, err := admin.New(q.Client()).Attempts(t.Context(), ids[0])
		return err == nil && len(as) == 0
	})
}

func TestResumedQueueWakesItsWorkers(t *testing.T) {
	t.Parallel()
	q := open(t)
	started, polls := make(chan dbq.Task, 10), make(chan int, 100)
	w := patient(q, started)
	w.Observe = func(o worker.Observation) {
		if o.Type == worker.CheckedOut {
			polls <- o.N
		}
	}
	start(t, w)
	enqueue(t, q, 1, dbq.NewTask{})
	wantStarted(t, "a task", started)
	check.OK(t, admin.New(q.Client()).PauseQueue(t.Context(), q.Name()))
	for len(polls) > 0 { // those before the pause
		<-polls
	}
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	select { // the enqueue wakes the worker
	case n := <-polls:
		if n != 0 {
			t.Errorf("a checkout of a paused queue returned %d tasks", n)
		}
	case <-time.After(10 * time.Second):
		t.Error("the worker did not wake")
	}
	if state := get(t, q, id).State; state != dbq.StateCreated {
		t.Errorf("the task is %v, though its queue is paused", state)
	}
	check.OK(t, admin.New(q.Client()).ResumeQueue(t.Context(), q.Name()))
	wantStarted(t, "the task of the resumed queue", started)
}

func TestUnlistedWorkerLeavesNoTrace(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	started := make(chan struct{})
	step := make(chan struct{})
	start(t, worker.Worker{Queue: q, Tuning: worker.Tuning{Unlisted: true}, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			close(started)
			<-step
			return nil
		})})
	<-started
	time.Sleep(100 * time.Millisecond)
	if ws, err := admin.New(q.Client()).Workers(t.Context()); err != nil || len(ws) != 0 {
		t.Errorf("got %+v, %v, want nobody", ws, err)
	}
	close(step)
}

// TestWorkerReportsTheTasksThatItRuns: of a worker that vanishes, the registry has what it ran, the longest first.
func TestWorkerReportsTheTasksThatItRuns(t *testing.T) {
	t.Parallel()
	q := open(t)
	first := enqueue(t, q, 1, dbq.NewTask{})[0]
	release := make(chan struct{})
	defer close(release)
	var running atomic.Int64
	start(t, worker.Worker{Queue: q, Concurrency: 30, Tuning: worker.Tuning{ReportInterval: 20 * time.Millisecond},
		Logger: slog.New(slog.DiscardHandler), Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			running.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})})
	holds := func(n int) []uuid.UUID {
		var held []uuid.UUID
		check.Eventually(t, fmt.Sprintf("it reports %d tasks", n), func() bool {
			ws, err := admin.New(q.Client()).Workers(t.Context())
			if err == nil && len(ws) == 1 {
				held = ws[0].Held
			}
			return len(held) == n
		})
		return held
	}
	if held := holds(1); held[0] != first {
		t.Errorf("it reports %v, want %v", held, first)
	}
	enqueue(t, q, 29, dbq.NewTask{})
	check.Eventually(t, "all run", func() bool { return running.Load() == 30 })
	if held := holds(20); held[0] != first {
		t.Errorf("of 30 tasks, the first that it reports is %v, want the longest, %v", held[0], first)
	}
}
