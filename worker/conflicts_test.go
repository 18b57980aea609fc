package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// Conflicts do not spend attempts, but are not repeated for ever.
func TestConflictsCountOnlyAboveALimit(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{MaxAttempts: 1})[0]
	var calls atomic.Int64
	start(t, worker.Worker{Queue: q,
		Tuning: worker.Tuning{PollMax: 20 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			calls.Add(1)
			return errors.Join(errors.New("commit"), dbq.ErrConflict)
		})})
	check.Eventually(t, "the task is given up", func() bool {
		exec(t, q, "UPDATE dbq_task SET due = created WHERE due > created") // instead of waiting for the pauses to end
		return get(t, q, id).State == dbq.StatePoison
	})
	if n := calls.Load(); n != 21 || get(t, q, id).Attempt != 1 {
		t.Errorf("%d calls, of which %d count, want 21 and 1", n, get(t, q, id).Attempt)
	}
}
