package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// refuse makes the database refuse updates of the tasks of the kind "refused", but for checkouts and what else allows.
func refuse(t *testing.T, q *dbq.Queue, allows string) {
	t.Helper()
	_, err := q.Client().DB().ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE UPDATE ON dbq_task
WHEN new.kind = 'refused' AND new.state <> 1 AND NOT (`+allows+`) BEGIN SELECT RAISE(ABORT, 'not this one'); END`)
	check.OK(t, err)
}

// drainRefused runs a worker on 200 tasks of which one is refused, and returns that one and the log. The others are
// completed in one attempt each.
func drainRefused(t *testing.T, allows string) (dbq.Task, string) {
	t.Helper()
	q := open(t)
	refuse(t, q, allows)
	ids := enqueue(t, q, 199, dbq.NewTask{})
	refused := enqueue(t, q, 1, dbq.NewTask{Kind: "refused"})[0]
	var mu sync.Mutex
	runs := map[uuid.UUID]int{}
	var log lockedBuffer
	stop := start(t, worker.Worker{Queue: q, Lease: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			mu.Lock()
			defer mu.Unlock()
			runs[task.ID]++
			return dbq.Completed([]byte("done"))
		})})
	eventually(t, "the others are completed", func() bool {
		stats, err := admin.New(q.Client()).Stats(t.Context())
		return err == nil && len(stats) == 1 && stats[0].Count[dbq.StateCompleted] == 199
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, id := range append(ids, refused) {
		if n := runs[id]; n != 1 {
			t.Errorf("a task ran %d times, want once", n)
		}
	}
	return get(t, q, refused), log.String()
}

func TestRefusedSettlementIsPoisonWithTheDatabasesMessage(t *testing.T) {
	t.Parallel()
	task, _ := drainRefused(t, "new.state = 4")
	if task.State != dbq.StatePoison || !strings.Contains(string(task.Result), "not this one") {
		t.Errorf("got %v with %q, want POISON with the database's message", task.State, task.Result)
	}
}

func TestSettlementThatCannotPoisonParks(t *testing.T) {
	t.Parallel()
	task, _ := drainRefused(t, "new.state = 3")
	if !task.Parked() || !strings.Contains(string(task.Result), "not this one") {
		t.Errorf("got %v with %q, want it parked with the database's message", task.State, task.Result)
	}
}

func TestTaskThatCannotBeSettledIsLeftToExpire(t *testing.T) {
	t.Parallel()
	task, log := drainRefused(t, "false")
	if task.State != dbq.StateProcessing {
		t.Errorf("got %v, want PROCESSING until its lease expires", task.State)
	}
	if n := strings.Count(log, "gave up settling"); n != 1 {
		t.Errorf("the log says %d times that it gave up, want once:\n%s", n, log)
	}
}
