package worker_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// A suspect on trial is marked as started, and is the only one until its outcome is stored; other tasks run beside it.
// After this many lapses, no other suspects of this process can vouch for it.
func TestTrialsRunOneAtATime(t *testing.T) {
	t.Parallel()
	for name, batches := range map[string]bool{"single": false, "batches": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			ids := enqueue(t, q, 8, dbq.NewTask{Kind: "plain"})
			ids = append(ids, enqueue(t, q, 4, dbq.NewTask{Kind: "suspect"})...)
			exec(t, q, "UPDATE dbq_task SET lapses = 90 WHERE kind = 'suspect'")
			var suspects atomic.Int64
			handle := func(_ context.Context, task dbq.Task) error {
				if marked := isMarked(t, q, task); marked != (task.Kind == "suspect") {
					return fmt.Errorf("after %d lapses it is marked: %v", task.Lapses, marked)
				}
				if task.Kind == "plain" {
					time.Sleep(10 * time.Millisecond)
					return nil
				}
				defer suspects.Add(-1)
				if n := suspects.Add(1); n > 1 {
					return fmt.Errorf("%d suspects run at once", n)
				}
				var marked int
				err := q.Client().DB().QueryRowContext(t.Context(), "SELECT count(*) FROM dbq_task "+
					"WHERE kind = 'suspect' AND state = 1 AND known_started = 1").Scan(&marked)
				if err == nil && marked != 1 {
					err = fmt.Errorf("%d suspects are marked at once", marked)
				}
				time.Sleep(50 * time.Millisecond)
				return err
			}
			w := worker.Worker{Queue: q, Concurrency: 6, UntilEmpty: true, Backoff: func(int) time.Duration { return time.Hour }}
			if batches {
				w.BatchSize, w.BatchHandler = 5, worker.BatchFunc(func(ctx context.Context, tasks []dbq.Task) []dbq.Outcome {
					out := make([]dbq.Outcome, len(tasks))
					for i, task := range tasks {
						if out[i] = dbq.OutcomeOf(handle(ctx, task)); task.Kind == "suspect" && len(tasks) > 1 {
							out[i] = dbq.Failed(fmt.Errorf("it is in a batch of %d", len(tasks)))
						}
					}
					return out
				})
			} else {
				w.Handler = worker.Func(handle)
			}
			check.OK(t, w.Run(t.Context()))
			for i, id := range ids {
				if task := get(t, q, id); task.State != dbq.StateCompleted || task.Attempt != 1 {
					t.Errorf("task %d is %v after %d attempts: %s", i, task.State, task.Attempt, task.Result)
				}
			}
		})
	}
}

// The last attempt of a task is marked before its handler is called: a crash must not repeat it.
func TestLastAttemptsAreMarked(t *testing.T) {
	t.Parallel()
	q := open(t)
	for _, most := range []int{1, 2} {
		id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: most})[0]
		handler := worker.Func(func(_ context.Context, task dbq.Task) error {
			marked := isMarked(t, q, task)
			if last := task.Attempt == most; last != marked {
				return dbq.Poisoned(fmt.Errorf("attempt %d of %d is marked: %v", task.Attempt, most, marked))
			} else if !last {
				return dbq.RetryIn(0, fmt.Errorf("once more"))
			}
			return nil
		})
		for range most {
			if _, found, err := (&worker.Worker{Queue: q, Handler: handler}).Step(t.Context()); err != nil || !found {
				t.Fatalf("found a task: %v, %v", found, err)
			}
		}
		if task := get(t, q, id); task.State != dbq.StateCompleted {
			t.Errorf("the task is %v: %s", task.State, task.Result)
		}
	}
}

// A handler that ignores its end does not keep other suspects from their trials.
func TestStuckSuspectLetsOthersRun(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 2, dbq.NewTask{MaxAttempts: 3})
	exec(t, q, "UPDATE dbq_task SET lapses = 90")
	release := make(chan struct{})
	var calls atomic.Int64
	stop := start(t, worker.Worker{Queue: q, Concurrency: 2, Timeout: 20 * time.Millisecond,
		Tuning:  worker.Tuning{Grace: 20 * time.Millisecond},
		Backoff: func(int) time.Duration { return time.Hour },
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			if calls.Add(1) == 1 {
				<-release
			}
			return nil
		})})
	check.Eventually(t, "one task fails and the other is completed", func() bool {
		a, b := get(t, q, ids[0]).State, get(t, q, ids[1]).State
		return a == dbq.StateError && b == dbq.StateCompleted || a == dbq.StateCompleted && b == dbq.StateError
	})
	close(release)
	check.OK(t, stop())
}

// A suspect that an operator revokes between its checkout and its start delays no other.
func TestRevokedSuspectLetsOthersRun(t *testing.T) {
	t.Parallel()
	const n = 4
	file := filepath.Join(t.TempDir(), "q.db")
	operator := openAt(t, file)
	var revoke sync.Once
	c, err := dbq.Open(t.Context(), "sqlite:"+file, dbq.WithObserver(func(call dbq.Call) {
		if call.Op == "checkout" && call.Tasks > 0 {
			revoke.Do(func() {
				f := admin.Filter{States: []dbq.State{dbq.StateProcessing}, Limit: n}
				if _, err := admin.New(operator.Client()).OperateMany(t.Context(), admin.Revoke, f); err != nil {
					t.Error(err)
				}
			})
		}
	}))
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	ids := enqueue(t, operator, n, dbq.NewTask{})
	exec(t, operator, "UPDATE dbq_task SET lapses = 90")
	start(t, worker.Worker{Queue: c.Queue("q"), Concurrency: 1, BatchSize: 1,
		Tuning:  worker.Tuning{PollMax: 50 * time.Millisecond},
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
	check.Eventually(t, "all tasks that were not revoked are completed", func() bool {
		revoked, completed := 0, 0
		for _, id := range ids {
			switch get(t, operator, id).State {
			case dbq.StateError:
				revoked++
			case dbq.StateCompleted:
				completed++
			}
		}
		return revoked > 0 && revoked+completed == n
	})
}

// Tasks that have all lapsed, as after an outage, run as many at a time as others, after a few trials.
func TestLapsedTasksRunAtFullConcurrency(t *testing.T) {
	t.Parallel()
	const concurrency = 10
	q := open(t)
	enqueue(t, q, 200, dbq.NewTask{})
	exec(t, q, "UPDATE dbq_task SET lapses = 6")
	var running, most atomic.Int64
	w := worker.Worker{Queue: q, Concurrency: concurrency, UntilEmpty: true,
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
			return nil
		})}
	check.OK(t, w.Run(t.Context()))
	if most.Load() != concurrency {
		t.Errorf("%d tasks at most ran at once, want %d", most.Load(), concurrency)
	}
}

// slow is SQLite whose first answers to checkouts that found something come when the leases are over.
type slow struct {
	sqlite.Dialect
	answers *atomic.Int64
	by      time.Duration
}

func (d slow) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	leased, err := d.Dialect.Checkout(ctx, s, r)
	if len(leased.Rows) > 0 && d.answers.Add(-1) >= 0 {
		time.Sleep(d.by)
	}
	return leased, err
}

// Tasks that a starved database hands out too late to start lose no attempt.
func TestSlowDatabasePoisonsNoTask(t *testing.T) {
	t.Parallel()
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	const lease = 1500 * time.Millisecond
	answers := new(atomic.Int64)
	answers.Store(3)
	c, err := dbq.New(t.Context(), pool.Write, slow{answers: answers, by: lease * 3 / 2}, dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	q := c.Queue("q")
	ids := append(enqueue(t, q, 2, dbq.NewTask{MaxAttempts: 1}), enqueue(t, q, 2, dbq.NewTask{MaxAttempts: 2})...)
	stop := start(t, worker.Worker{Queue: q, Concurrency: 10, Lease: lease,
		Tuning:  worker.Tuning{PollMax: 50 * time.Millisecond},
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
	check.Eventually(t, "all tasks have ended", func() bool {
		for _, id := range ids {
			if !get(t, q, id).Ended() {
				return false
			}
		}
		return true
	})
	check.OK(t, stop())
	for i, id := range ids {
		if task := get(t, q, id); task.State != dbq.StateCompleted || task.Attempt != 1 {
			t.Errorf("task %d is %v after attempt %d and %d lapses: %s", i, task.State, task.Attempt, task.Lapses, task.Result)
		}
	}
}

func exec(t *testing.T, q *dbq.Queue, text string) {
	t.Helper()
	if _, err := q.Client().DB().ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// isMarked reports whether a task's attempt is marked as started.
func isMarked(t *testing.T, q *dbq.Queue, task dbq.Task) (marked bool) {
	t.Helper()
	text := fmt.Sprintf("SELECT known_started FROM dbq_task WHERE id = x'%x'", task.ID[:])
	if err := q.Client().DB().QueryRowContext(t.Context(), text).Scan(&marked); err != nil {
		t.Error(err)
	}
	return marked
}
