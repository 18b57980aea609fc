package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

// A handler that settled its task itself returns nil, like any that succeeded: nothing is logged, and the attempt is
// in the history.
func TestHandlerThatSettledItsTaskReturnsNil(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settle  func(ctx context.Context, q *dbq.Queue, task dbq.Task) error
		then    dbq.State
		outcome dbq.AttemptOutcome
	}{
		"completed in a transaction": {func(ctx context.Context, q *dbq.Queue, task dbq.Task) error {
			tx, err := q.Client().DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := q.CompleteTx(ctx, tx, task.Lease, []byte("42")); err != nil {
				return err
			}
			return tx.Commit()
		}, dbq.StateCompleted, dbq.AttemptCompleted},
		"completed and deleted": {func(ctx context.Context, q *dbq.Queue, task dbq.Task) error {
			return q.Settle(ctx, task.Lease, dbq.Deleted())
		}, state.None, ""},
		"parked": {func(ctx context.Context, q *dbq.Queue, task dbq.Task) error {
			return q.Settle(ctx, task.Lease, dbq.Parked(nil))
		}, dbq.StateError, dbq.AttemptFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			id := enqueue(t, q, 1, dbq.NewTask{})[0]
			var log check.Log
			ended := make(chan error, 1)
			// The leases are renewed while the handler continues after it has settled.
			stop := start(t, worker.Worker{Queue: q, Lease: 2 * time.Second,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
					err := c.settle(ctx, q, task)
					select { // a heartbeat finds that the task is not leased any more
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
					ended <- err
					return nil
				})})
			check.OK(t, <-ended)
			check.Eventually(t, "the attempt is recorded", func() bool {
				as, err := admin.New(q.Client()).Attempts(t.Context(), id)
				if c.outcome == "" {
					return err == nil && len(as) == 0
				}
				return err == nil && len(as) == 1 && as[0].Outcome == c.outcome
			})
			check.OK(t, stop())
			for line := range strings.Lines(log.String()) {
				// On a busy machine a renewal can be late; that is not what this test is about.
				if !strings.Contains(line, "the database does not answer") {
					t.Errorf("it logged %s", line)
				}
			}
			if task, err := q.Client().Get(t.Context(), id); (err != nil) != (c.then == state.None) ||
				err == nil && task.State != c.then {
				t.Errorf("the task is %v, %v, want %v", task.State, err, c.then)
			}
		})
	}
}
