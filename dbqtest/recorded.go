package dbqtest

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// Recorded is a task that was enqueued through the client of a DB, as it was given to the call.
type Recorded[T any] struct {
	dbq.NewTask
	Queue string
	Value T
}

type recorded struct {
	queue string
	task  dbq.NewTask
}

// record is a hook that keeps each new task.
func (d *DB) record(_ context.Context, queue string, t *dbq.NewTask) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks = append(d.tasks, recorded{queue, *t})
	return nil
}

// Enqueued returns the tasks of a kind that were passed to the client since the test began, in any queue: also by
// handlers, also in transactions that are open or were rolled back, and also duplicates. For what is stored, use
// Waiting.
func Enqueued[T any](d *DB, k dbq.Kind[T]) []Recorded[T] {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Recorded[T]
	for _, r := range d.tasks {
		if r.task.Kind != k.Name {
			continue
		}
		v, err := k.Decode(dbq.Task{Kind: r.task.Kind, Payload: r.task.Payload})
		if err != nil {
			d.t.Fatalf("dbqtest: %v", err)
		}
		out = append(out, Recorded[T]{r.task, r.queue, v})
	}
	return out
}

// WantNothingEnqueued fails the test if a task was passed to the client since the test began; see Enqueued.
func (d *DB) WantNothingEnqueued() {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.tasks {
		d.t.Errorf("a task of kind %q was enqueued to queue %q, want none", r.task.Kind, r.queue)
	}
}

// Perform enqueues a task of a kind, lets a worker handle it once, and returns the task in its new state and the
// handler's outcome. The task has a queue of its own, so that no other task is handled. What a handler finds in its
// context, such as worker.Client and worker.Do, is as in production.
func Perform[T any](d *DB, h worker.Handler, k dbq.Kind[T], v T, opts ...func(*dbq.NewTask)) (dbq.Task, dbq.Outcome) {
	d.t.Helper()
	var outcome dbq.Outcome
	q := d.Queue("dbqtest " + dbq.NewID().String())
	w := worker.Worker{Queue: q, Handler: h, Middleware: []worker.Middleware{func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
			outcome = next.HandleTask(ctx, t)
			return outcome
		})
	}}}
	t, err := k.Task(v, opts...)
	if err == nil {
		t.Delay, t.RunAt = 0, time.Time{}
		_, err = q.Enqueue(d.context(), t)
	}
	if err != nil {
		d.t.Fatalf("dbqtest: perform: %v", err)
	}
	task, found := d.Step(w)
	if !found {
		d.t.Fatalf("dbqtest: perform: the task of kind %q is not due", k.Name)
	}
	return task, outcome
}

// Inline makes the workers handle what is due whenever the code under test has enqueued, before its call returns: also
// what their own handlers enqueue. Tasks of a transaction are handled after the first call that follows its commit.
func (d *DB) Inline(workers ...worker.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inline = workers
}

// runInline runs the workers of Inline after a call that enqueued.
func (d *DB) runInline(c dbq.Call) {
	d.mu.Lock()
	workers := d.inline
	if c.Err != nil || c.Op != "enqueue" && c.Op != "enqueue workflow" || d.running || len(workers) == 0 {
		d.mu.Unlock()
		return
	}
	d.running = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.running = false
		d.mu.Unlock()
	}()
	for again := true; again; {
		again = false
		for _, w := range workers {
			again = len(d.Run(w)) > 0 || again
		}
	}
}
