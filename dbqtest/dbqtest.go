// Package dbqtest helps to test programs that use dbq: a queue of its own for each test, on SQLite in a temporary folder, a worker that is
// stepped by hand, a clock that is moved instead of waited for, and looks at what was enqueued.
//
//	db := dbqtest.New(t)
//	signUp(ctx, db.Client, "ann@example.com")                    // the code under test enqueues
//	mail := dbqtest.Only(db, "mail", SendMail)                   // one task waits, and this is its value
//	db.Run(worker.Worker{Queue: db.Queue("mail"), Handler: mux}) // works until nothing is due
//	db.Advance(time.Hour)                                        // its retry is due
//
// Everything but the clock is what runs in production on SQLite; that the other engines behave alike is for the conformance suite.
package dbqtest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// DB is a database with dbq's tables for one test. What fails ends the test.
type DB struct {
	*dbq.Client
	t testing.TB
}

// New makes a database that is removed when the test ends. Options are those of dbq.Open.
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

// Advance moves the database's clock forward: delayed tasks and retries become due, and leases run out. A worker that runs in the background
// finds out when it polls next; Step and Run do at once. Deadlines that a worker keeps by its own clock are not moved.
func (d *DB) Advance(by time.Duration) {
	d.t.Helper()
	if by < 0 {
		d.t.Fatalf("dbqtest: the clock cannot go back by %v", -by)
	}
	if _, err := d.DB().ExecContext(d.context(), "UPDATE dbqtest_clock SET micros = micros + ?", by.Microseconds()); err != nil {
		d.t.Fatalf("dbqtest: advancing the clock: %v", err)
	}
}

// Step lets the worker handle one due task, and returns it as it is afterwards; a task that was removed, as it was. found is false when
// nothing is due.
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

// maxSteps bounds Run: a task that is always due again would keep it for ever.
const maxSteps = 10_000

// Run steps the worker until nothing is due, and returns the tasks it handled, in order, each as it was after its step. Retries that are
// due later are left; Advance, and Run again.
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

// Tasks are a queue's tasks in the given states, or in any without one, with their payloads, in the order in which they were enqueued.
func (d *DB) Tasks(queue string, states ...dbq.State) []dbq.Task {
	d.t.Helper()
	page, err := d.List(d.context(), dbq.Filter{Queue: queue, States: states, Limit: maxSteps})
	if err != nil {
		d.t.Fatalf("dbqtest: %v", err)
	}
	for i := range page {
		if page[i], err = d.Get(d.context(), page[i].ID); err != nil {
			d.t.Fatalf("dbqtest: %v", err)
		}
	}
	return page
}

// WantTasks fails the test unless so many tasks of a queue are in a state.
func (d *DB) WantTasks(queue string, s dbq.State, n int) {
	d.t.Helper()
	if got := len(d.Tasks(queue, s)); got != n {
		d.t.Errorf("queue %q has %d tasks in %v, want %d", queue, got, s, n)
	}
}

// Waiting are the values of a queue's tasks of one kind that wait to be handled for the first time, due or not, in the order in which they
// were enqueued.
func Waiting[T any](d *DB, queue string, k dbq.Kind[T]) []T {
	d.t.Helper()
	var out []T
	for _, t := range d.Tasks(queue, dbq.StateCreated) {
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

// Only is the value of the one task of a kind that waits in a queue. None, or more than one, fails the test.
func Only[T any](d *DB, queue string, k dbq.Kind[T]) T {
	d.t.Helper()
	values := Waiting(d, queue, k)
	if len(values) != 1 {
		d.t.Fatalf("queue %q has %d tasks of kind %q waiting, want 1", queue, len(values), k.Name)
	}
	return values[0]
}

// context is for calls that a test's cleanup may make, too.
func (d *DB) context() context.Context { return context.WithoutCancel(d.t.Context()) }
