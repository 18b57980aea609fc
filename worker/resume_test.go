package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// The attempt after one that failed, was released or panicked has the last progress of its handler, of any kind.
func TestAttemptResumesFromTheLastProgress(t *testing.T) {
	t.Parallel()
	for kind, handle := range map[string]func(w *worker.Worker, step func(context.Context, dbq.Task) dbq.Outcome){
		"Handler": func(w *worker.Worker, step func(context.Context, dbq.Task) dbq.Outcome) {
			w.Handler = worker.HandlerFunc(step)
		},
		"TxHandler": func(w *worker.Worker, step func(context.Context, dbq.Task) dbq.Outcome) {
			w.Handler = worker.TxHandler{Func: func(ctx context.Context, _ *sql.Tx, task dbq.Task) dbq.Outcome {
				return step(ctx, task)
			}}
		},
		"BatchHandler": func(w *worker.Worker, step func(context.Context, dbq.Task) dbq.Outcome) {
			w.BatchHandler = worker.BatchFunc(func(ctx context.Context, tasks []dbq.Task) (out []dbq.Outcome) {
				if err := worker.SetProgress(ctx, nil); !errors.Is(err, worker.ErrConfig) {
					t.Errorf("SetProgress without ForTask: %v", err)
				}
				for _, task := range tasks {
					out = append(out, step(worker.ForTask(ctx, task), task))
				}
				return out
			})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			ids := enqueue(t, q, 3, dbq.NewTask{MaxAttempts: 9})
			var mu sync.Mutex
			seen := map[uuid.UUID][]string{}
			w := worker.Worker{Queue: q, UntilEmpty: true, Backoff: func(int) time.Duration { return 0 }}
			handle(&w, func(ctx context.Context, task dbq.Task) dbq.Outcome {
				last := string(worker.Progress(ctx))
				mu.Lock()
				seen[task.ID] = append(seen[task.ID], last)
				mu.Unlock()
				for _, next := range []string{last + "i", last + "I"} {
					if err := worker.SetProgress(ctx, []byte(next)); err != nil || string(worker.Progress(ctx)) != next {
						t.Errorf("SetProgress: %v; the handler reads %q, want %q", err, worker.Progress(ctx), next)
					}
				}
				switch last {
				case "":
					return dbq.RetryIn(0, errors.New("once more"))
				case "I":
					return dbq.Released(0)
				case "II":
					panic("no")
				}
				return dbq.Completed(nil)
			})
			check.OK(t, w.Run(t.Context()))
			for _, id := range ids {
				if want := []string{"", "I", "II", "III"}; !slices.Equal(seen[id], want) {
					t.Errorf("the attempts resumed from %q, want %q", seen[id], want)
				}
			}
		})
	}
}

// The attempt after one that a shutdown ended has the last progress of its handler.
func TestProgressSurvivesShutdown(t *testing.T) {
	t.Parallel()
	q := open(t)
	id := enqueue(t, q, 1, dbq.NewTask{})[0]
	started := make(chan struct{})
	stop := start(t, worker.Worker{Queue: q, DrainTimeout: time.Millisecond,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			close(started)
			<-ctx.Done()
			return errors.Join(worker.SetProgress(ctx, []byte("the last")), context.Cause(ctx))
		})})
	<-started
	check.OK(t, stop())
	if task := get(t, q, id); task.State != dbq.StateCreated || string(task.Progress) != "the last" {
		t.Errorf("the task is %v with the progress %q", task.State, task.Progress)
	}
}
