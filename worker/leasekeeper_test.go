package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// long is a handler that works for a while, unless its context ends, and counts as done when it did.
func long(took time.Duration, began chan<- struct{}) worker.Handler {
	return worker.Func(func(ctx context.Context, _ dbq.Task) error {
		began <- struct{}{}
		select {
		case <-time.After(took):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Running tasks hold leases of the old length, which end before the first heartbeat of the new one.
func TestLongerLeaseRenewsRunningTasksAtOnce(t *testing.T) {
	t.Parallel()
	q, began := open(t), make(chan struct{}, 1)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	start(t, worker.Worker{Queue: q, Handler: long(3*time.Second, began), Lease: 2 * time.Second,
		Logger: slog.New(slog.DiscardHandler)})
	<-began
	configure(t, q, func(s *admin.QueueSettings) { s.Lease = time.Hour })
	check.Eventually(t, "the task is done", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	if attempt := get(t, q, id).Attempt; attempt != 1 {
		t.Errorf("it took %d attempts", attempt)
	}
}

// Another connection holds the file's lock from before the first heartbeat until after the time of the last one.
func TestHeartbeatThatFailsIsRepeatedBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "q.db")
	q, began := openAt(t, file), make(chan struct{}, 1)
	other, err := sql.Open("sqlite", file)
	check.OK(t, err)
	defer other.Close()
	conn, err := other.Conn(t.Context())
	check.OK(t, err)
	defer conn.Close()
	exec := func(text string) {
		if _, err := conn.ExecContext(t.Context(), text); err != nil {
			t.Error(err)
		}
	}
	const lease = 6 * time.Second // long beside the grace of two seconds that a statement under way has
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	start(t, worker.Worker{Queue: q, Handler: long(lease+time.Second, began), Lease: lease,
		Tuning: worker.Tuning{Unlisted: true},
		Logger: slog.New(slog.DiscardHandler)})
	<-began
	exec("BEGIN IMMEDIATE")
	time.Sleep(lease * 7 / 8)
	exec("ROLLBACK")
	check.Eventually(t, "the task is done", func() bool { return get(t, q, id).State == dbq.StateCompleted })
	if attempt := get(t, q, id).Attempt; attempt != 1 {
		t.Errorf("it took %d attempts", attempt)
	}
}

// Step ends all that it started, also what came in the place of a handler that ignores its context.
func TestStepLeavesNothingRunning(t *testing.T) { // not parallel: other tests' goroutines would count
	q := open(t)
	enqueue(t, q, 1, dbq.NewTask{})
	w := worker.Worker{Queue: q, Timeout: 10 * time.Millisecond, Tuning: worker.Tuning{Grace: 10 * time.Millisecond},
		Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			time.Sleep(200 * time.Millisecond)
			return errors.New("too late")
		})}
	if _, found, err := w.Step(t.Context()); err != nil || !found {
		t.Fatal(found, err)
	}
	check.Eventually(t, "no handler's goroutine is left", func() bool { return worker.Executors() == 0 })
}
