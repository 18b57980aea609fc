package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// drainSlack is the delay that a busy machine may add to the 3 seconds that Run may take beyond DrainTimeout.
const drainSlack = 5 * time.Second

// endsIn stops a worker and notes a failure when that takes longer than its fields allow.
func endsIn(t *testing.T, w worker.Worker, stop func() error) error {
	t.Helper()
	began := time.Now()
	err := stop()
	if took, most := time.Since(began), w.DrainTimeout+w.Grace+3*time.Second; took > most+drainSlack {
		t.Errorf("Run returned after %v, want %v", took, most)
	}
	return err
}

func TestShutdownReleasesWhatWasNotStartedAndFinishesTheRest(t *testing.T) {
	t.Parallel()
	q := open(t)
	ids := enqueue(t, q, 50, dbq.NewTask{})
	started, proceed := make(chan struct{}, 50), make(chan struct{})
	stop := start(t, worker.Worker{Queue: q, Concurrency: 2, MaxCheckout: 20,
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			started <- struct{}{}
			<-proceed
			return nil
		})})
	<-started
	<-started
	go func() {
		time.Sleep(50 * time.Millisecond) // Run is draining by then, or not yet: both must do
		close(proceed)
	}()
	check.OK(t, stop())
	counts := map[dbq.State]int{}
	for _, id := range ids {
		task := get(t, q, id)
		counts[task.State]++
		if task.State == dbq.StateCreated && task.Attempt != 0 {
			t.Errorf("a task that was not started has %d attempts", task.Attempt)
		}
	}
	if counts[dbq.StateProcessing] != 0 || counts[dbq.StateCompleted] < 2 ||
		counts[dbq.StateCompleted]+counts[dbq.StateCreated] != 50 {
		t.Errorf("got %v, want all COMPLETED or CREATED again", counts)
	}
}

func TestHandlerThatStopsAtShutdownHasItsTaskReleased(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	started := make(chan struct{})
	stop := start(t, worker.Worker{Queue: q, DrainTimeout: 10 * time.Millisecond,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			close(started)
			<-ctx.Done()
			return context.Cause(ctx)
		})})
	<-started
	check.OK(t, stop())
	if task := get(t, q, id); task.State != dbq.StateCreated || task.Attempt != 0 {
		t.Errorf("got %v with %d attempts, want CREATED with 0", task.State, task.Attempt)
	}
}

func TestRunReturnsWhileTheDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "q.db")
	q := openAt(t, file)
	other, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(30000)&_txlock=immediate")
	check.OK(t, err)
	defer other.Close()
	enqueue(t, q, 20, dbq.NewTask{})
	began, proceed := make(chan struct{}, 20), make(chan struct{})
	w := worker.Worker{Queue: q, Concurrency: 2, Lease: time.Hour, DrainTimeout: 100 * time.Millisecond,
		Tuning: worker.Tuning{Grace: time.Millisecond},
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			began <- struct{}{}
			<-proceed
			return nil
		})}
	stop := start(t, w)
	<-began
	tx, err := other.BeginTx(t.Context(), nil)
	check.OK(t, err)
	defer tx.Rollback() // until then no other connection can write
	close(proceed)
	if err := endsIn(t, w, stop); err != nil && !errors.Is(err, worker.ErrAbandoned) {
		t.Error(err)
	}
}

func TestRunWaitsForOnPoisonWithinGrace(t *testing.T) {
	t.Parallel()
	forEver := make(chan struct{})
	t.Cleanup(func() { close(forEver) })
	for name, c := range map[string]struct {
		hook func(ctx context.Context)
		want error
	}{
		"waits for its context": {func(ctx context.Context) { <-ctx.Done() }, nil},
		"ignores its context":   {func(context.Context) { <-forEver }, worker.ErrAbandoned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			enqueue(t, q, 3, dbq.NewTask{})
			called := make(chan struct{}, 3)
			var log check.Log
			w := worker.Worker{Queue: q, DrainTimeout: 50 * time.Millisecond,
				Tuning: worker.Tuning{Grace: 50 * time.Millisecond},
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				OnPoison: func(ctx context.Context, _ dbq.Task, _ error) {
					called <- struct{}{}
					c.hook(ctx)
				},
				Handler: worker.Func(func(context.Context, dbq.Task) error {
					return dbq.Poisoned(errors.New("bad"))
				})}
			stop := start(t, w)
			<-called
			if err := endsIn(t, w, stop); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.want != nil && !strings.Contains(log.String(), "OnPoison") {
				t.Errorf("the log says nothing of OnPoison: %s", log.String())
			}
		})
	}
}

// Many tasks go to POISON while the first hook does not return.
func TestSlowHookHoldsUpNoSettlement(t *testing.T) {
	t.Parallel()
	q := open(t)
	const n = 400
	enqueue(t, q, n, dbq.NewTask{})
	release := make(chan struct{})
	var calls atomic.Int64
	w := worker.Worker{Queue: q, MaxCheckout: 100, OnPoison: func(context.Context, dbq.Task, error) {
		calls.Add(1)
		<-release
	},
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			return dbq.Poisoned(errors.New("bad"))
		})}
	stop := start(t, w)
	check.Eventually(t, "all are settled", func() bool {
		stats, err := admin.New(q.Client()).Stats(t.Context())
		return err == nil && len(stats) == 1 && stats[0].Count[dbq.StatePoison] == n
	})
	close(release)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := calls.Load(); got != n {
		t.Errorf("OnPoison was called %d times, want %d", got, n)
	}
}
