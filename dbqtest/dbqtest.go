// Package dbqtest helps to test programs that use dbq. Each test gets tables of its own: New makes them in a SQLite
// file, and Open in a database of the engine that the program uses. The test runs workers step by step, advances the
// database's clock instead of waiting, and reads what was enqueued.
//
//	db := dbqtest.New(t)
//	signUp(ctx, db.Client, "ann@example.com")                    // the code under test enqueues
//	mail := dbqtest.Only(db, SendMail)                           // the value of the one waiting task
//	db.Run(worker.Worker{Queue: db.Queue("mail"), Handler: mux}) // works until nothing is due
//	db.Advance(time.Hour)                                        // its retry is due
//
// Except for the clock, the code is the same as in production. docs/testing.md shows what else a test can do.
package dbqtest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite" // New uses it
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/worker"
)

// DB is a client with dbq's tables for one test. A failure of the database ends the test.
type DB struct {
	*dbq.Client
	t     testing.TB
	clock clock

	mu      sync.Mutex
	tasks   []recorded
	inline  []worker.Worker
	running bool // Inline's workers run,
	again   bool // and something was enqueued meanwhile
}

// New returns a database that is removed when the test ends. The options are those of dbq.Open. The client and its
// workers log to t, unless the options have a logger.
func New(t testing.TB, opts ...dbq.Option) *DB {
	t.Helper()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "queue.db") + "?synchronous=normal"
	return open(t, dsn, "dbq_", opts, func() {}) // the file goes with the directory
}

// Open is New in a database of any engine whose dialect the test imports. The tables of each test have a prefix of
// their own, so that tests can run at the same time, and are dropped when the test ends. The user of the DSN must be
// allowed to create tables. opts must not have WithPrefix or WithSchema.
func Open(t testing.TB, dsn string, opts ...dbq.Option) *DB {
	t.Helper()
	prefix := "t" + dbq.NewID().String()[24:] + "_"
	return open(t, dsn, prefix, opts, func() {
		if err := drop(context.WithoutCancel(t.Context()), dsn, prefix, opts); err != nil {
			t.Errorf("dbqtest: dropping the tables with the prefix %s: %v", prefix, err)
		}
	})
}

func drop(ctx context.Context, dsn, prefix string, opts []dbq.Option) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := dbq.Open(ctx, dsn, with(opts, dbq.WithPrefix(prefix))...)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.DB().ExecContext(ctx, "DROP TABLE "+clockTable(prefix))
	return errors.Join(err, access.Of(c).Store.DropTables(ctx))
}

func with(opts []dbq.Option, more ...dbq.Option) []dbq.Option { return slices.Concat(opts, more) }

// open makes the tables, and the clock that the statements of the returned client read. cleanup is called after that
// client is closed.
func open(t testing.TB, dsn, prefix string, opts []dbq.Option, cleanup func()) *DB {
	t.Helper()
	log := &logWriter{t: t}
	t.Cleanup(log.end)
	d := &DB{t: t, clock: clock{clockTable(prefix)}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("dbqtest: %v", err)
		}
	}
	opts = with(opts, dbq.WithPrefix(prefix), access.ForTest(nil, log.logger()))
	first, err := dbq.Open(t.Context(), dsn, with(opts, dbq.WithMigrate())...)
	must(err)
	t.Cleanup(cleanup)
	err = d.clock.create(t.Context(), first)
	first.Close()
	must(err)
	d.Client, err = dbq.Open(t.Context(), dsn, with(opts, dbq.WithEnqueueHook(d.record), dbq.WithObserver(d.runInline),
		access.ForTest(d.clock.move, log.logger()))...)
	must(err)
	t.Cleanup(func() { d.Client.Close() })
	return d
}

// Advance moves the database's clock forward: delayed tasks and retries become due, and leases expire. Step and Run
// see the change immediately, a worker in the background at its next poll. A worker's deadlines by its own clock do
// not change, and neither does the clock of the view dbq_enqueue.
func (d *DB) Advance(by time.Duration) {
	d.t.Helper()
	if by < 0 {
		d.t.Fatalf("dbqtest: the clock cannot go back by %v", -by)
	}
	if err := d.clock.advance(d.context(), d.DB(), by); err != nil {
		d.t.Fatalf("dbqtest: advancing the clock: %v", err)
	}
}

// Fire enqueues the tasks of the schedules that are due; advance the clock first. schedules is schedule.New(db.Client).
func (d *DB) Fire(schedules interface {
	Fire(ctx context.Context) error
}) {
	d.t.Helper()
	if err := schedules.Fire(d.context()); err != nil {
		d.t.Fatalf("dbqtest: %v", err)
	}
	d.handleInline()
}

// Step makes the worker handle one due task and returns the task in its new state, or in its last state if it was
// removed. If nothing is due, found is false.
func (d *DB) Step(w worker.Worker) (t dbq.Task, found bool) {
	d.t.Helper()
	t, found, err := d.step(w)
	if err != nil {
		d.t.Fatalf("dbqtest: step: %v", err)
	}
	return t, found
}

func (d *DB) step(w worker.Worker) (t dbq.Task, found bool, err error) {
	t, found, err = w.Step(d.context())
	if !found || err != nil {
		return t, false, err
	}
	if after, err := d.Get(d.context(), t.ID); err == nil {
		t = after
	}
	return t, true, nil
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
