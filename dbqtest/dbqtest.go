// Package dbqtest helps to test programs that use dbq. Each test gets its own database, a SQLite file in a temporary
// directory. The test runs workers step by step, advances the database's clock instead of waiting, and reads the
// enqueued tasks.
//
//	db := dbqtest.New(t)
//	signUp(ctx, db.Client, "ann@example.com")                    // the code under test enqueues
//	mail := dbqtest.Only(db, SendMail)                           // the value of the one waiting task
//	db.Run(worker.Worker{Queue: db.Queue("mail"), Handler: mux}) // works until nothing is due
//	db.Advance(time.Hour)                                        // its retry is due
//
// Except for the clock, the code is the same as in production on SQLite. The conformance suite checks that the other
// engines behave the same.
package dbqtest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
)

// DB is a database with dbq's tables for one test. A failure of the database ends the test.
type DB struct {
	*dbq.Client
	t testing.TB
}

// New returns a database that is removed when the test ends. The options are those of dbq.Open.
func New(t testing.TB, opts ...dbq.Option) *DB {
	t.Helper()
	dsn := scheme + ":" + filepath.Join(t.TempDir(), "queue.db") + "?synchronous=normal"
	c, err := dbq.Open(t.Context(), dsn, append(opts, dbq.WithMigrate())...)
	if err != nil {
		t.Fatalf("dbqtest: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return &DB{Client: c, t: t}
}

// Advance moves the database's clock forward: delayed tasks and retries become due, and leases expire. Step and Run
// see the change immediately, a worker in the background at its next poll. A worker's deadlines by its own clock do
// not change.
func (d *DB) Advance(by time.Duration) {
	d.t.Helper()
	if by < 0 {
		d.t.Fatalf("dbqtest: the clock cannot go back by %v", -by)
	}
	_, err := d.DB().ExecContext(d.context(), "UPDATE dbqtest_clock SET micros = micros + ?", by.Microseconds())
	if err != nil {
		d.t.Fatalf("dbqtest: advancing the clock: %v", err)
	}
}

// Step makes the worker handle one due task and returns the task in its new state, or in its last state if it was
// removed. If nothing is due, found is false.
func (d *DB) Step(w worker.Worker) (t dbq.Task, found bool) {
	d.t.Helper()
	t, found, err := w.Step(d.context())
	if err != nil {
		d.t.Fatalf("dbqtest: step: %v", err)
	}
	if !found {
		return t, false
	}
	if after, err := d.Get(d.context(), t.ID); err == nil {
		t = after
	}
	return t, true
}

// maxSteps limits Run: with a task that is always due again, Run would not end.
const maxSteps = 10_000

// Run steps the worker until nothing is due, and returns the tasks that it handled, in order, each as Step returns
// it. It does not run retries that are due later: call Advance, and Run again.
func (d *DB) Run(w worker.Worker) []dbq.Task {
	d.t.Helper()
	var done []dbq.Task
	for range maxSteps {
		t, found := d.Step(w)
		if !found {
			return done
		}
		done = append(done, t)
	}
	d.t.Fatalf("dbqtest: something was still due after %d steps", maxSteps)
	return nil
}

// Tasks returns a queue's tasks in the given states, or in all states if none is given, with their payloads and in the
// order in which they were enqueued.
func (d *DB) Tasks(queue string, states ...dbq.State) []dbq.Task {
	d.t.Helper()
	var tasks []dbq.Task
	must := func(err error) {
		if err != nil {
			d.t.Helper()
			d.t.Fatalf("dbqtest: %v", err)
		}
	}
	for f := (admin.Filter{Queue: queue, States: states, Limit: maxSteps}); ; {
		page, err := admin.New(d.Client).List(d.context(), f)
		must(err)
		for _, listed := range page.Tasks {
			task, err := d.Get(d.context(), listed.ID)
			must(err)
			tasks = append(tasks, task)
		}
		if !page.More {
			return tasks
		}
		f = f.From(page.Next)
	}
}

// WantTasks fails the test unless exactly n tasks of a queue are in state s.
func (d *DB) WantTasks(queue string, s dbq.State, n int) {
	d.t.Helper()
	if got := len(d.Tasks(queue, s)); got != n {
		d.t.Errorf("queue %q has %d tasks in %v, want %d", queue, got, s, n)
	}
}

// Waiting returns the values of a kind's tasks that are in its queue in state CREATED, due or not, in the order of
// their enqueues.
func Waiting[T any](d *DB, k dbq.Kind[T]) []T {
	d.t.Helper()
	var out []T
	for _, t := range d.Tasks(k.Queue, dbq.StateCreated) {
		if t.Kind != k.Name {
			continue
		}
		v, err := k.Decode(t)
		if err != nil {
			d.t.Fatalf("dbqtest: %v", err)
		}
		out = append(out, v)
	}
	return out
}

// Only returns the value of the one task of a kind that waits in the kind's queue. It fails the test unless there is
// exactly one.
func Only[T any](d *DB, k dbq.Kind[T]) T {
	d.t.Helper()
	values := Waiting(d, k)
	if len(values) != 1 {
		d.t.Fatalf("queue %q has %d tasks of kind %q waiting, want 1", k.Queue, len(values), k.Name)
	}
	return values[0]
}

// context is not canceled when the test ends, because cleanups can also call the database.
func (d *DB) context() context.Context { return context.WithoutCancel(d.t.Context()) }
