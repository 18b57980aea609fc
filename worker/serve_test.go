package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// Serve works on every queue of the Mux's kinds, and stores what handlers return.
func TestServeWorksOnTheQueuesOfAllKinds(t *testing.T) {
	t.Parallel()
	c := open(t).Client()
	kinds, ids := map[string]dbq.Kind[int]{}, map[string]uuid.UUID{}
	mux := worker.NewMux()
	for _, queue := range []string{"a", "b", "c"} {
		k := dbq.Kind[int]{Name: "kind of " + queue, Queue: queue}
		kinds[queue] = k
		worker.HandleTxResult(mux, k, func(_ context.Context, _ *sql.Tx, _ dbq.Task, n int) (int, error) {
			return n + 1, nil
		})
	}
	quiet := func(g *worker.Group) {
		for i := range g.Workers {
			g.Workers[i].UntilEmpty, g.Workers[i].Logger = true, slog.New(slog.DiscardHandler)
		}
	}
	for queue, k := range kinds {
		id, err := k.Enqueue(t.Context(), c, 41)
		check.OK(t, err)
		ids[queue] = id
	}
	check.OK(t, worker.Serve(t.Context(), c, mux, quiet))
	for queue, id := range ids {
		if task := get(t, c.Queue(queue), id); task.State != dbq.StateCompleted || string(task.Result) != "42" {
			t.Errorf("queue %s: the task is %v with %q, want it completed with 42", queue, task.State, task.Result)
		}
	}
	plain := worker.NewMux()
	plain.Handle("untyped", worker.Func(func(context.Context, dbq.Task) error { return nil }))
	if err := worker.Serve(t.Context(), c, plain, quiet); !errors.Is(err, worker.ErrConfig) {
		t.Errorf("a Mux without a queue: %v, want ErrConfig", err)
	}
}
