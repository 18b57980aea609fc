package worker_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// counting returns a step's function that counts its calls and returns their number.
func counting(calls map[string]int, name string) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		calls[name]++
		return calls[name], nil
	}
}

func TestStepsRunOnceThroughRetriesReleasesAndPanics(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 9})[0]
	calls, attempt := map[string]int{}, 0
	w := worker.Worker{Queue: q, UntilEmpty: true, Backoff: func(int) time.Duration { return 0 },
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			attempt++
			for n, end := range []error{errors.New("once more"), dbq.Released(0), nil} {
				name := fmt.Sprint("step ", n)
				if v, err := worker.Do(ctx, name, counting(calls, name)); v != 1 || err != nil {
					t.Errorf("attempt %d has %d of %s, %v; want 1", attempt, v, name, err)
				}
				switch {
				case attempt == n+1 && end != nil:
					return end
				case attempt == n+1:
					panic("no")
				}
			}
			_, err := worker.Do(ctx, "fails", func(context.Context) (int, error) {
				calls["fails"]++
				if attempt == 4 {
					return 0, errors.New("not yet")
				}
				return 0, nil
			})
			return err
		})}
	check.OK(t, w.Run(t.Context()))
	if attempt != 5 || calls["step 0"] != 1 || calls["step 1"] != 1 || calls["step 2"] != 1 || calls["fails"] != 2 {
		t.Errorf("%d attempts called the steps %v", attempt, calls)
	}
	if task := get(t, q, id); task.State != dbq.StateCompleted || task.Progress != nil {
		t.Errorf("the task is %v and keeps %q", task.State, task.Progress)
	}
}

func TestStepIsStoredWhenDoReturns(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 20, dbq.NewTask{})
	w := worker.Worker{Queue: q, UntilEmpty: true, Concurrency: 20, Lease: time.Hour,
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			var steps sync.WaitGroup
			defer steps.Wait()
			for n := range 5 {
				steps.Go(func() {
					name := fmt.Sprint("step ", n)
					_, err := worker.Do(ctx, name, func(context.Context) (string, error) { return "value", nil })
					if p := get(t, q, task.ID).Progress; err != nil || !strings.Contains(string(p), `"`+name+`":"value"`) {
						t.Errorf("Do has returned %v, and %q is stored; want %s", err, p, name)
					}
				})
			}
			return nil
		})}
	check.OK(t, w.Run(t.Context()))
	for _, id := range ids {
		if task := get(t, q, id); task.State != dbq.StateCompleted {
			t.Errorf("a task is %v", task.State)
		}
	}
}

func TestStepOfALostLeaseIsNotStored(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	done := make(chan error, 1)
	stop := start(t, worker.Worker{Queue: q, Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
		_, err := worker.Do(ctx, "charge", func(ctx context.Context) (string, error) {
			return "a receipt", admin.New(q.Client()).Operate(context.WithoutCancel(ctx), admin.Revoke, id)
		})
		done <- err
		return err
	})})
	if err := <-done; !errors.Is(err, dbq.ErrLeaseLost) {
		t.Errorf("Do after the task was revoked: %v, want ErrLeaseLost", err)
	}
	check.OK(t, stop())
	if task := get(t, q, id); !task.Parked() || task.Progress != nil {
		t.Errorf("the task is %v with %q, want parked and nothing remembered", task.State, task.Progress)
	}
}

// On SQLite, a transaction of the handler keeps the writer that a renewal needs.
func TestStepThatCannotBeStoredEnds(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})
	calls, lease := map[string]int{}, time.Second
	w := worker.Worker{Queue: q, UntilEmpty: true, Lease: lease, Timeout: time.Minute,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			tx, err := q.Client().DB().BeginTx(ctx, nil)
			check.OK(t, err)
			for range 2 { // the second call neither runs the step again nor says that it is stored
				_, err := worker.Do(ctx, "step", counting(calls, "step"))
				if !errors.Is(err, dbq.ErrUnavailable) && !errors.Is(err, dbq.ErrLeaseLost) {
					t.Errorf("Do while its value cannot be stored: %v", err)
				}
			}
			check.OK(t, tx.Rollback())
			return nil
		})}
	check.OK(t, w.Run(t.Context()))
	if calls["step"] != 1 {
		t.Errorf("the step ran %d times, want once", calls["step"])
	}
}

// asking is a value whose encoding calls the worker.
type asking struct{ ctx context.Context }

func (a asking) MarshalJSON() ([]byte, error) { return json.Marshal(string(worker.Progress(a.ctx))) }

func TestEncodingOfAValueMayCallTheWorker(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	w := worker.Worker{Queue: q, UntilEmpty: true, Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
		return worker.Remember(ctx, "x", asking{ctx})
	})}
	check.OK(t, w.Run(t.Context()))
	if task := get(t, q, id); task.State != dbq.StateCompleted {
		t.Errorf("the task is %v", task.State)
	}
}

func TestSleepWaitsOnceWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	q := db.Queue("q")
	id, err := q.Enqueue(t.Context(), dbq.NewTask{})
	check.OK(t, err)
	calls := 0
	w := worker.Worker{Queue: q, Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
		calls++
		for _, name := range []string{"an hour", "another hour"} {
			if err := worker.Sleep(ctx, name, time.Hour); err != nil {
				return err
			}
		}
		return worker.Sleep(ctx, "not at all", 0)
	})}
	due := func(want time.Duration) {
		t.Helper()
		db.Run(w)
		task, err := db.Client.Get(t.Context(), id)
		if left := task.Due.Sub(task.Updated); err != nil || task.State != dbq.StateCreated || task.Attempt != 0 ||
			left > want || left < want-time.Minute {
			t.Errorf("the task is %v after attempt %d, due in %v, %v; want %v", task.State, task.Attempt, left, err, want)
		}
	}
	due(time.Hour)
	check.OK(t, admin.New(db.Client).Operate(t.Context(), admin.Reject, id))
	check.OK(t, admin.New(db.Client).Operate(t.Context(), admin.Reenqueue, id)) // before its time
	due(time.Hour)
	db.Advance(time.Hour)
	due(time.Hour)
	db.Advance(time.Hour)
	db.Run(w)
	if task, err := db.Client.Get(t.Context(), id); err != nil || task.State != dbq.StateCompleted || task.Attempt != 1 {
		t.Errorf("the task is %v after attempt %d, %v; want COMPLETED by the first", task.State, task.Attempt, err)
	}
	if calls != 4 {
		t.Errorf("the handler was called %d times, want 4", calls)
	}
}

func TestLoopGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	var rows []int
	w := worker.Worker{Queue: q, UntilEmpty: true, Backoff: func(int) time.Duration { return 0 },
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			row, _, err := worker.Recall[int](ctx, "row")
			for ; err == nil && row < 6; err = worker.Remember(ctx, "row", row) {
				rows = append(rows, row)
				if row++; row == 3 && task.Attempt == 1 {
					return errors.New("after the third row")
				}
			}
			return err
		})}
	check.OK(t, w.Run(t.Context()))
	if fmt.Sprint(rows) != "[0 1 2 2 3 4 5]" {
		t.Errorf("rows %v", rows)
	}
}

func TestRefusedSteps(t *testing.T) {
	t.Parallel()
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})
	nothing := func(context.Context) (int, error) { return 1, nil }
	w := worker.Worker{Queue: q, UntilEmpty: true, Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
		if _, err := worker.Do(ctx, "number", nothing); err != nil {
			t.Error(err)
		}
		for what, c := range map[string]struct{ got, want error }{
			"no name":      {second(worker.Do(ctx, "", nothing)), dbq.ErrInvalid},
			"a long name":  {second(worker.Do(ctx, strings.Repeat("x", 101), nothing)), dbq.ErrInvalid},
			"much":         {worker.Remember(ctx, "much", strings.Repeat("x", dbq.MaxProgress)), dbq.ErrProgress},
			"SetProgress":  {worker.SetProgress(ctx, []byte("half")), worker.ErrConfig},
			"a long sleep": {worker.Sleep(ctx, "long", -1), dbq.ErrDelay},
			"no handler":   {second(worker.Do(context.Background(), "x", nothing)), worker.ErrConfig},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", what, c.got, c.want)
			}
		}
		if err := worker.Remember(ctx, "no JSON", func() {}); err == nil {
			t.Error("a value that cannot be encoded was remembered")
		}
		if _, _, err := worker.Recall[string](ctx, "number"); err == nil || !strings.Contains(err.Error(), `step "number"`) {
			t.Errorf("a number as a text: %v", err)
		}
		if v, ok, err := worker.Recall[int](ctx, "number"); v != 1 || !ok || err != nil {
			t.Errorf("after what was refused, the number is %d, %t, %v", v, ok, err)
		}
		return nil
	})}
	check.OK(t, w.Run(t.Context()))

	enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})
	w.Handler = worker.Func(func(ctx context.Context, _ dbq.Task) error {
		check.OK(t, worker.SetProgress(ctx, []byte("half")))
		if _, err := worker.Do(ctx, "step", nothing); !errors.Is(err, worker.ErrConfig) {
			t.Errorf("a step after SetProgress: %v", err)
		}
		return nil
	})
	check.OK(t, w.Run(t.Context()))

	enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})
	w.Handler = worker.TxFunc(func(ctx context.Context, _ *sql.Tx, _ dbq.Task) error {
		if _, err := worker.Do(ctx, "step", nothing); !errors.Is(err, worker.ErrConfig) {
			t.Errorf("a step in a TxHandler: %v", err)
		}
		return nil
	})
	check.OK(t, w.Run(t.Context()))
}

func second[T any](_ T, err error) error { return err }
