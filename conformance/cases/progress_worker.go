package cases

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// progressWorkerCases are about the progress of handlers.
func progressWorkerCases() []Case {
	return inGroup("Progress",
		Case{Name: "SurvivesFailedHandler", run: progressHandlers,
			Law: "The attempt after one whose handler fails, is released or panics has the last progress of the handler, " +
				"also of a TxHandler and of each task of a BatchHandler, however short the attempt was."},
		Case{Name: "CrashLosesAtMostOneHeartbeat", run: progressCrash,
			Law: "Progress is seen while the handler runs, and the attempt after a crash has what the last heartbeat brought."},
		Case{Name: "SurvivesShutdown", Once: true, run: progressShutdown,
			Law: "The attempt after one that a shutdown ended has the last progress of the handler."},
	)
}

// setProgress is worker.SetProgress in a handler.
func (t *test) setProgress(ctx context.Context, progress []byte) {
	if err := worker.SetProgress(ctx, progress); err != nil {
		t.Errorf("SetProgress: %v", err)
	}
}

// steps is work of several steps, each of which reports itself.
type steps struct {
	mu   sync.Mutex
	seen map[uuid.UUID][]string // what each attempt of a task resumes from
}

// resume reports the next step after the last one that is known.
func (s *steps) resume(t *test, ctx context.Context, id uuid.UUID) (last string) {
	last = string(worker.Progress(ctx))
	s.mu.Lock()
	s.seen[id] = append(s.seen[id], last)
	s.mu.Unlock()
	for _, next := range []string{last + "i", last + "I"} {
		t.setProgress(ctx, []byte(next))
		if got := string(worker.Progress(ctx)); got != next {
			t.Errorf("the handler's own progress is %q, want %q", got, next)
		}
	}
	return last
}

// end returns how the attempt ends that resumes from last.
func (*steps) end(last string) dbq.Outcome {
	switch last {
	case "":
		return dbq.RetryIn(0, errBoom)
	case "I":
		return dbq.Released(0)
	case "II":
		panic("boom")
	}
	return dbq.Completed(nil)
}

func progressHandlers(t *test) {
	c := t.open()
	want := []string{"", "I", "II", "III"}
	for name, of := range map[string]func(s *steps, w *worker.Worker){
		"Handler": func(s *steps, w *worker.Worker) {
			w.Handler = worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
				return s.end(s.resume(t, ctx, task.ID))
			})
		},
		"TxHandler": func(s *steps, w *worker.Worker) {
			w.Handler = worker.TxHandler{Func: func(ctx context.Context, _ *sql.Tx, task dbq.Task) dbq.Outcome {
				return s.end(s.resume(t, ctx, task.ID))
			}}
		},
		"BatchHandler": func(s *steps, w *worker.Worker) {
			w.BatchHandler = worker.BatchFunc(func(ctx context.Context, ts []dbq.Task) (out []dbq.Outcome) {
				t.wantErr("SetProgress without ForTask", worker.SetProgress(ctx, []byte("x")), worker.ErrConfig)
				var last []string
				for _, task := range ts {
					last = append(last, s.resume(t, worker.ForTask(ctx, task), task.ID))
				}
				for _, l := range last {
					out = append(out, s.end(l))
				}
				return out
			})
		},
	} {
		q := c.Queue(name)
		ids := t.enqueueMany(q, 3, nil)
		s := &steps{seen: map[uuid.UUID][]string{}}
		w := worker.Worker{Queue: q, UntilEmpty: true, Logger: quietLog,
			Backoff: func(int) time.Duration { return 0 }}
		of(s, &w)
		t.must(w.Run(t.ctx))
		for _, id := range ids {
			if !slices.Equal(s.seen[id], want) {
				t.Errorf("%s: the attempts of a task resumed from %q, want %q", name, s.seen[id], want)
			}
			t.wantState(c, id, dbq.StateCompleted)
		}
	}
	t.wantErr("SetProgress outside of a handler", worker.SetProgress(t.ctx, []byte("x")), worker.ErrConfig)
}

func progressCrash(t *test) {
	c, crashing := t.open(), t.open()
	id := t.enqueue(c.Queue("work"), dbq.NewTask{})
	first, crash := make(chan struct{}), make(chan struct{})
	w := worker.Worker{Queue: crashing.Queue("work"), Lease: time.Second, Grace: 10 * time.Millisecond, Logger: quietLog,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			t.setProgress(ctx, []byte("first"))
			close(first)
			select {
			case <-crash:
			case <-t.ctx.Done():
			}
			t.setProgress(ctx, []byte("never sent"))
			<-ctx.Done()
			return nil
		})}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx) }()
	t.await("the handler starts", first)
	t.eventually("the progress is seen", func() bool { return string(t.get(c, id).Progress) == "first" })
	crashing.Close() // nothing more of it reaches the database
	close(crash)
	cancel()
	t.await("the worker ends", ended)
	t.awaitExpiry(c, id)
	if task := t.takeOver(c.Queue("work"), id, long); string(task.Progress) != "first" {
		t.Errorf("after the crash the progress is %q, want that of the last heartbeat", task.Progress)
	}
}

func progressShutdown(t *test) {
	c := t.open()
	id := t.enqueue(c.Queue("work"), dbq.NewTask{})
	started := make(chan struct{})
	stop := t.runWorker(worker.Worker{Queue: c.Queue("work"), DrainTimeout: time.Millisecond, Logger: quietLog,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			t.setProgress(ctx, []byte("before"))
			close(started)
			<-ctx.Done()
			t.setProgress(ctx, []byte("the last"))
			return context.Cause(ctx)
		})})
	t.await("the handler starts", started)
	stop()
	t.wantState(c, id, dbq.StateCreated)
	t.wantResumed("after the shutdown", c.Queue("work"), "the last")
}
