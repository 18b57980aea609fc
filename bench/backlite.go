package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mikestefanello/backlite"
)

// Chosen by trying 10 to 1000 workers on 1, 4 and 16 connections: it claims as many tasks at once as workers wait,
// and sleeps 100 ms when none does; a second connection only waits for the first one's lock.
const (
	backliteWorkers = 1000
	backliteConns   = 1
)

// backliteTasks is backlite on the driver and with the pragmas that dbq uses.
type backliteTasks struct {
	place   *sqlitePlace
	deletes bool
	db      *sql.DB
}

// kept and removed are the same task for a queue that keeps completed tasks and for one that does not.
type (
	kept    struct{ payload }
	removed struct{ payload }
)

func (kept) Config() backlite.QueueConfig {
	keep := &backlite.Retention{Data: &backlite.RetainData{}}
	return backlite.QueueConfig{Name: "kept", MaxAttempts: 10, Retention: keep}
}

func (removed) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "removed", MaxAttempts: 10}
}

func (b *backliteTasks) client(log backlite.Logger) (*backlite.Client, error) {
	return backlite.NewClient(backlite.ClientConfig{
		DB: b.db, Logger: log, NumWorkers: backliteWorkers, ReleaseAfter: time.Hour,
	})
}

func (b *backliteTasks) Prepare(ctx context.Context) (err error) {
	if err := b.Close(ctx); err != nil {
		return err
	}
	if b.db, err = b.place.db(backliteConns); err != nil {
		return err
	}
	c, err := b.client(nil)
	if err != nil {
		return err
	}
	return c.Install()
}

func (b *backliteTasks) Enqueue(ctx context.Context, from, to, batch int) error {
	c, err := b.client(nil)
	if err != nil {
		return err
	}
	return ranges(from, to, batch, func(from, to int) error {
		tasks := make([]backlite.Task, to-from)
		for i := range tasks {
			if b.deletes {
				tasks[i] = removed{newPayload(from + i)}
			} else {
				tasks[i] = kept{newPayload(from + i)}
			}
		}
		_, err := c.Add(tasks...).Ctx(ctx).Save()
		return err
	})
}

func (b *backliteTasks) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	log := &completions{}
	c, err := b.client(log)
	if err != nil {
		return 0, err
	}
	finished := make(chan struct{})
	handle := func(p payload) error {
		if done.enter(p.Number) == n {
			close(finished)
		}
		return nil
	}
	c.Register(backlite.NewQueue(func(_ context.Context, t kept) error { return handle(t.payload) }))
	c.Register(backlite.NewQueue(func(_ context.Context, t removed) error { return handle(t.payload) }))
	start := time.Now()
	c.Start(ctx)
	select {
	case <-finished:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if !c.Stop(ctx) { // waits for the workers, which store completions
		return 0, ctx.Err()
	}
	took := time.Since(start)
	if failed := log.errors.Load(); failed > 0 {
		return 0, fmt.Errorf("backlite reported %d errors", failed)
	}
	return took, nil
}

// completions counts the errors that backlite logs and does not return.
type completions struct{ errors atomic.Int64 }

func (*completions) Info(string, ...any) {}

func (c *completions) Error(message string, params ...any) {
	c.errors.Add(1)
	slog.Error("backlite: "+message, params...)
}

func (b *backliteTasks) Stored(ctx context.Context) (completed, others int, err error) {
	err = b.db.QueryRowContext(ctx, `
SELECT (SELECT count(*) FROM backlite_tasks_completed WHERE succeeded),
       (SELECT count(*) FROM backlite_tasks)`).Scan(&completed, &others)
	return completed, others, err
}

func (b *backliteTasks) Close(ctx context.Context) error {
	if err := closeDB(b.db); err != nil {
		return err
	}
	return b.place.Clear(ctx)
}
