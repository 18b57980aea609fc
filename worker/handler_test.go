package worker_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

var sqliteDialect = sqlite.Dialect{}

func hour(int) time.Duration { return time.Hour }

func runEmpty(t *testing.T, w worker.Worker) {
	t.Helper()
	w.UntilEmpty = true
	if w.Backoff == nil {
		w.Backoff = hour
	}
	check.OK(t, w.Run(t.Context()))
}

func TestMaxAttemptsOfTheWorkerEndInPoisonAndCallTheHook(t *testing.T) {
	t.Parallel()
	q := open(t)
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		end  dbq.Outcome
		hook bool
	}{
		"failed": {dbq.Failed(boom), true}, "retry": {dbq.RetryIn(time.Hour, boom), true},
		"poisoned": {dbq.Poisoned(boom), true},
		"parked":   {dbq.Parked(boom), false}, "released": {dbq.Released(time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := q.Client().Queue(name)
			id := enqueue(t, q, 1, dbq.NewTask{})[0]
			var hooked []dbq.Task
			var hookErr error
			runEmpty(t, worker.Worker{Queue: q, MaxAttempts: 1,
				OnPoison: func(_ context.Context, t dbq.Task, err error) { hooked, hookErr = append(hooked, t), err },
				Handler:  worker.HandlerFunc(func(context.Context, dbq.Task) dbq.Outcome { return c.end })})
			if (get(t, q, id).State == dbq.StatePoison) != c.hook || (len(hooked) == 1 && hooked[0].ID == id) != c.hook {
				t.Errorf("got %v and hooks %v, want POISON and one hook: %v", get(t, q, id).State, hooked, c.hook)
			}
			if c.hook && !errors.Is(hookErr, boom) {
				t.Errorf("the hook got %v, want %v", hookErr, boom)
			}
		})
	}
}

func TestOnPoisonAfterLastAttemptCrashed(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})[0]
	if _, err := q.Checkout(t.Context(), 1, dbq.MinLease); err != nil { // and never settled
		t.Fatal(err)
	}
	hooked := make(chan dbq.Task, 1)
	start(t, worker.Worker{Queue: q, OnPoison: func(_ context.Context, t dbq.Task, _ error) { hooked <- t },
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
	if task := wantStarted(t, "an expired lease", hooked); task.ID != id || task.State != dbq.StatePoison {
		t.Errorf("the hook got %v in %v", task.ID, task.State)
	}
}

type mail struct{ To string }

func TestTypedHandlersGetTheirKinds(t *testing.T) {
	t.Parallel()
	q := open(t)
	send := dbq.Kind[mail]{Name: "send", Queue: q.Name()}
	count := dbq.Kind[int]{Name: "count", Queue: q.Name()}
	mux := worker.NewMux()
	worker.Handle(mux, send, func(_ context.Context, t dbq.Task, m mail) error {
		return dbq.Completed([]byte("to " + m.To))
	})
	worker.HandleTx(mux, count, func(_ context.Context, _ *sql.Tx, _ dbq.Task, n int) error {
		return fmt.Errorf("counted %d", n)
	})
	mux.SetPolicy(count.Name, worker.Policy{MaxAttempts: 1})
	mailID, err := send.Enqueue(t.Context(), q.Client(), mail{To: "ann"})
	check.OK(t, err)
	countID, err := count.Enqueue(t.Context(), q.Client(), 7)
	check.OK(t, err)
	badID := enqueue(t, q, 1, dbq.NewTask{Kind: "send", Payload: []byte("no JSON")})[0]
	unknownID := enqueue(t, q, 1, dbq.NewTask{Kind: "other"})[0]
	runEmpty(t, worker.Worker{Queue: q, Handler: mux})

	if task := get(t, q, mailID); task.State != dbq.StateCompleted || string(task.Result) != "to ann" {
		t.Errorf("typed task: got %v with %q", task.State, task.Result)
	}
	if task := get(t, q, countID); task.State != dbq.StatePoison || string(task.Result) != "counted 7" {
		t.Errorf("a kind with one attempt: got %v with %q, want POISON", task.State, task.Result)
	}
	if task := get(t, q, badID); !task.Parked() || !strings.Contains(string(task.Result), dbq.ErrPayload.Error()) {
		t.Errorf("a payload that cannot be decoded: got %v with %q, want it parked with the reason", task.State, task.Result)
	}
	if task := get(t, q, unknownID); task.State != dbq.StateCreated || task.Attempt != 0 || !task.Due.After(task.Updated) {
		t.Errorf("an unknown kind: got %v after %d attempts, due %v, want it back in the queue for a while", task.State,
			task.Attempt, task.Due)
	}
	direct := mux.HandleTask(t.Context(), dbq.Task{Kind: "other"})
	if !errors.Is(direct.Cause(), worker.ErrNoHandler) ||
		!strings.Contains(string(direct.Result()), `"other", only for ["count" "send"]`) {
		t.Errorf("an unknown kind: the Mux returns %v with %q", direct, direct.Result())
	}
	if _, err := (dbq.Kind[func()]{Name: "never"}).Task(nil); !errors.Is(err, dbq.ErrPayload) {
		t.Errorf("a value that JSON cannot hold: got %v, want ErrPayload", err)
	}
}

// In a rolling deploy, the old worker meets tasks that only the new one can handle. Nothing is parked or fails, the new
// worker gets all of them, and the log has one line.
func TestTasksWithoutAHandlerWaitForAWorkerThatHasOne(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 20, dbq.NewTask{Kind: "new", MaxAttempts: 1})
	var log check.Log
	old := worker.Worker{Queue: q, Handler: worker.NewMux(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Tuning: worker.Tuning{ReportInterval: 20 * time.Millisecond}}
	stop := check.Start(t, old.Run)
	ops := admin.New(q.Client())
	check.Eventually(t, "the registry names the kind", func() bool {
		workers, err := ops.Workers(t.Context())
		check.OK(t, err)
		return slices.Equal(admin.NoHandlers(workers)[q.Name()], []string{"new"})
	})
	mux := worker.NewMux()
	mux.Handle("new", worker.Func(func(context.Context, dbq.Task) error { return nil }))
	updated := worker.Worker{Queue: q, Handler: mux, Logger: slog.New(slog.DiscardHandler)}
	stopNew := check.Start(t, updated.Run)
	check.Eventually(t, "the new worker completes all", func() bool {
		stats, err := ops.StatsOf(t.Context(), q.Name())
		check.OK(t, err)
		return stats.Count[dbq.StateCompleted] == int64(len(ids))
	})
	check.OK(t, stop())
	check.OK(t, stopNew())
	for _, id := range ids {
		if task := get(t, q, id); task.Attempt != 1 {
			t.Errorf("the task was completed in attempt %d, want the first", task.Attempt)
		}
	}
	if n := strings.Count(log.String(), "kinds without a handler"); n < 1 || n > 2 {
		t.Errorf("%d lines about kinds without a handler, want one, and one at the end:\n%s", n, log.String())
	}
}

func TestIncompleteHandlersAreRefused(t *testing.T) {
	t.Parallel()
	unnamed := dbq.Kind[int]{Queue: "q"}
	for name, register := range map[string]func(m *worker.Mux){
		"a kind without a name": func(m *worker.Mux) {
			worker.Handle(m, unnamed, func(context.Context, dbq.Task, int) error { return nil })
		},
		"a kind without a name in a transaction": func(m *worker.Mux) {
			worker.HandleTx(m, unnamed, func(context.Context, *sql.Tx, dbq.Task, int) error { return nil })
		},
		"no function": func(m *worker.Mux) { m.Handle("k", worker.HandlerFunc(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic")
				}
			}()
			register(worker.NewMux())
		})
	}
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	runEmpty(t, worker.Worker{Queue: q, Handler: worker.TxHandler{}})
	if task := get(t, q, id); !task.Parked() || !strings.Contains(string(task.Result), "without Func") {
		t.Errorf("a TxHandler without Func: got %v with %q, want the task parked with the reason", task.State, task.Result)
	}
}

func TestBatchHandlerDecidesAboutEachTask(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 25, dbq.NewTask{})
	var mu sync.Mutex
	most, seen := 0, 0
	runEmpty(t, worker.Worker{Queue: q, Concurrency: 2, BatchSize: 10,
		BatchHandler: worker.BatchFunc(func(_ context.Context, ts []dbq.Task) []dbq.Outcome {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, len(ts))
			out := make([]dbq.Outcome, len(ts))
			for i, task := range ts {
				seen++
				switch task.ID {
				case ids[3]:
					out[i] = dbq.Poisoned(errors.New("bad"))
				case ids[4]:
					out[i] = dbq.Deleted()
				default:
					out[i] = dbq.Completed([]byte("ok"))
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
		"panics":  func(context.Context, []dbq.Task) []dbq.Outcome { panic("kaboom") },
		"forgets": func(context.Context, []dbq.Task) []dbq.Outcome { return nil },
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
			return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
				order = append(order, name)
				defer func() { order = append(order, "/"+name) }()
				return next.HandleTask(ctx, t)
			})
		}
	}
	runEmpty(t, worker.Worker{Queue: q, Concurrency: 1, Middleware: []worker.Middleware{note("outer"), note("inner")},
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
	if got, want := strings.Join(order, " "), "outer inner /inner /outer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHandlersContextCarriesRunsValues(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	type key struct{}
	w := worker.Worker{Queue: q, UntilEmpty: true, Handler: worker.Func(
		func(ctx context.Context, _ dbq.Task) error {
			if ctx.Value(key{}) != "value" {
				t.Error("the value of Run's context is missing")
			}
			return nil
		})}
	check.OK(t, w.Run(context.WithValue(t.Context(), key{}, "value")))
}

func TestEveryTaskIsStartedEndedAndRecordedForTheObserver(t *testing.T) {
	t.Parallel()
	q := open(t)
	const n = 50
	enqueue(t, q, n, dbq.NewTask{})
	var mu sync.Mutex
	seen := map[worker.ObservationType]int{}
	runEmpty(t, worker.Worker{Queue: q,
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil }),
		Observe: func(e worker.Observation) {
			mu.Lock()
			defer mu.Unlock()
			seen[e.Type]++
			if e.Queue != "q" || e.Type == worker.Ended && e.Event != state.Complete ||
				e.Type == worker.Recorded && e.State != dbq.StateCompleted {
				t.Errorf("got %+v", e)
			}
		}})
	if seen[worker.Started] != n || seen[worker.Ended] != n || seen[worker.Recorded] != n || seen[worker.CheckedOut] < 1 {
		t.Errorf("got %v, want %d of each", seen, n)
	}
}

// A result that is too long, or cannot be encoded, completes its task: it is stored marked, and logged, and a step of a
// workflow finds none.
func TestResultThatCannotBeStoredCompletesItsTask(t *testing.T) {
	t.Parallel()
	q := open(t)
	text := strings.Repeat("x", dbq.MaxResult)
	mux, want := worker.NewMux(), map[string]string{"plain": "[cut from 4002 bytes]", "tx": "[cut from 4002 bytes]",
		"NaN": "NaN]"}
	worker.HandleResult(mux, dbq.Kind[int]{Name: "plain"}, func(context.Context, dbq.Task, int) (string, error) {
		return text, nil
	})
	worker.HandleTx(mux, dbq.Kind[int]{Name: "tx"}, func(context.Context, *sql.Tx, dbq.Task, int) error {
		return dbq.Completed([]byte(`"` + text + `"`))
	})
	worker.HandleResult(mux, dbq.Kind[int]{Name: "NaN"}, func(context.Context, dbq.Task, int) (float64, error) {
		return math.NaN(), nil
	})
	ids := map[string]uuid.UUID{}
	for kind := range want {
		ids[kind] = enqueue(t, q, 1, dbq.NewTask{Kind: kind, Payload: []byte("1")})[0]
	}
	var log bytes.Buffer
	runEmpty(t, worker.Worker{Queue: q, Handler: mux, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for kind, mark := range want {
		if task := get(t, q, ids[kind]); task.State != dbq.StateCompleted || !strings.HasSuffix(string(task.Result), mark) {
			t.Errorf("%s: the task is %v with %d bytes of result: %s", kind, task.State, len(task.Result), task.Result)
		}
	}
	if n := strings.Count(log.String(), "without its whole result"); n != len(want) {
		t.Errorf("%d lines about results, want %d:\n%s", n, len(want), &log)
	}
}

func TestNoConnectionUntilTimeoutCostsNoAttempt(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1000})[0]
	tries, calls := 0, 0
	runEmpty(t, worker.Worker{Queue: q, Concurrency: 1, Timeout: 200 * time.Millisecond,
		Middleware: []worker.Middleware{func(next worker.Handler) worker.Handler {
			return worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
				if tries++; tries == 1 { // this transaction has the only connection until the handler gives up
					tx, err := q.Client().DB().BeginTx(context.WithoutCancel(ctx), nil)
					if err != nil {
						t.Error(err)
						return dbq.Failed(err)
					}
					defer tx.Rollback()
				}
				return next.HandleTask(ctx, task)
			})
		}},
		Handler: worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error { calls++; return nil })})
	// There is more than one call if a busy machine did not commit before Timeout.
	if task := get(t, q, id); task.State != dbq.StateCompleted || task.Attempt > calls || tries < 2 {
		t.Errorf("%v as attempt %d after %d tries and %d calls, want COMPLETED and no attempt without a call", task.State,
			task.Attempt, tries, calls)
	}
}
