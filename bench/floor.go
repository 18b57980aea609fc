package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
)

// A floorPlace has dbq's table, and connects to it without dbq.
type floorPlace interface {
	place
	// connect opens a pool, which the caller closes.
	connect(ctx context.Context) (*sql.DB, error)
	floorSQL() floorSQL
}

// floorSQL are an engine's statements over dbq's table. In them {task} is the table, and {now} the time in
// microseconds.
type floorSQL struct {
	task, now string
	// insert returns a statement for n tasks. Its arguments are the first number and the one after the last; {state}
	// and {due} are SQL.
	insert               func(n int) string
	mark, finish, remove string
	tidy                 string // what the server does by itself some time after a large change; "" is nothing
}

// floorTasks moves rows of dbq's own table, with its indexes, by three statements: insert all, mark all, finish all.
type floorTasks struct {
	place   floorPlace
	deletes bool
	db      *sql.DB
}

// floorEntries are the floor of a group, for tasks that are kept and for tasks that are deleted.
func floorEntries(group string, p floorPlace) []*entry {
	return []*entry{
		{contender: &floorTasks{place: p}, group: group, name: onFloor, role: floor},
		{contender: &floorTasks{place: p, deletes: true}, group: group, name: onFloor + deleting, role: floor, deletes: true},
	}
}

// Prepare leaves dbq's empty tables.
func (f *floorTasks) Prepare(ctx context.Context) error {
	if err := f.Close(ctx); err != nil {
		return err
	}
	c, err := f.place.Open(ctx, dbq.WithMigrate())
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	if f.db, err = f.place.connect(ctx); err != nil {
		return err
	}
	return f.db.PingContext(ctx)
}

func (f *floorTasks) text(s string) string {
	engine := f.place.floorSQL()
	return strings.NewReplacer("{task}", engine.task, "{now}", engine.now).Replace(s)
}

func (f *floorTasks) Enqueue(ctx context.Context, from, to, _ int) error {
	return f.insert(ctx, from, to, "0", "{now}")
}

// insert adds tasks in a state; state and due are SQL.
func (f *floorTasks) insert(ctx context.Context, from, to int, state, due string) error {
	text := f.place.floorSQL().insert(to - from)
	text = strings.NewReplacer("{state}", state, "{due}", due).Replace(text)
	return f.all(ctx, text, to-from, from, to)
}

func (f *floorTasks) tidy(ctx context.Context) error {
	text := f.place.floorSQL().tidy
	if text == "" {
		return nil
	}
	_, err := f.db.ExecContext(ctx, f.text(text))
	return err
}

func (f *floorTasks) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	engine := f.place.floorSQL()
	last := engine.finish
	if f.deletes {
		last = engine.remove
	}
	start := time.Now()
	err := f.all(ctx, engine.mark, n)
	if err == nil {
		err = f.all(ctx, last, n)
	}
	done.enterAll()
	return time.Since(start), err
}

// all runs a statement that must touch n rows.
func (f *floorTasks) all(ctx context.Context, text string, n int, args ...any) error {
	result, err := f.db.ExecContext(ctx, f.text(text), args...)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || int(rows) != n {
		return fmt.Errorf("%d rows instead of %d: %s (%v)", rows, n, text, err)
	}
	return nil
}

func (f *floorTasks) Stored(ctx context.Context) (completed, others int, err error) {
	err = f.db.QueryRowContext(ctx, f.text(`
SELECT count(CASE WHEN state = 2 THEN 1 END),
       count(CASE WHEN state <> 2 THEN 1 END)
  FROM {task}`)).Scan(&completed, &others)
	return completed, others, err
}

func (f *floorTasks) Close(ctx context.Context) error {
	if err := closeDB(f.db); err != nil {
		return err
	}
	return f.place.Clear(ctx)
}

// closeDB closes a pool that may not have been opened yet, or is closed already.
func closeDB(db *sql.DB) error {
	if db == nil {
		return nil
	}
	return db.Close()
}
