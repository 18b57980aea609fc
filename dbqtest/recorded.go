package dbqtest

import (
	"bytes"
	"context"
	"maps"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/invoke"
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
	kept := *t
	kept.Payload, kept.Headers = bytes.Clone(t.Payload), maps.Clone(t.Headers) // the caller may use them again
	d.tasks = append(d.tasks, recorded{queue, kept})
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
			outcome = invoke.Call(ctx, next, t)
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
// what their own handlers enqueue, and what Fire does. Tasks of a transaction are handled after the first call that
// follows its commit. If several goroutines enqueue at the same time, one of them handles the tasks of all.
func (d *DB) Inline(workers ...worker.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inline = workers
}

// runInline runs the workers of Inline after a call that has enqueued, and committed.
func (d *DB) runInline(c dbq.Call) {
	if c.Err == nil && !c.Tx && (c.Op == "enqueue" || c.Op == "enqueue workflow") {
		d.handleInline()
	}
}

// handleInline makes the workers of Inline handle what is due. If they are at work already, as for a call of a handler,
// they continue with what is new.
func (d *DB) handleInline() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again = true
	for !d.running && d.again {
		d.running, d.again = true, false
		workers := d.inline
		d.mu.Unlock()
		worked := false
		for _, w := range workers {
			_, found, err := d.step(w)
			for n := 0; found && err == nil && n < maxSteps; n++ {
				worked = true
				_, found, err = d.step(w)
			}
			if err != nil {
				d.t.Errorf("dbqtest: inline: %v", err) // it may be in any goroutine
			}
		}
		d.mu.Lock()
		d.running, d.again = false, d.again || worked
	}
}
