package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// riverJobs is River with the settings of its own benchmark (cmd/river/riverbench), which are much better by its
// comments than the defaults: 2,000 workers and a fetch at most every 2 ms. The time ends when River's completer has
// stored the last job. River's driver for SQLite is not measured: the module proxy does not have this version of it.
type riverJobs struct {
	place *pgPlace
	pool  *pgxpool.Pool // a new one for new tables, whose types have new numbers
}

func (payload) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[payload]
	handled func(number int)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[payload]) error {
	w.handled(job.Args.Number)
	return nil
}

func (r *riverJobs) client(handled func(int)) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handled: handled})
	return river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2_000}},
		Workers:           workers,
		Schema:            r.place.schema,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
}

func (r *riverJobs) Prepare(ctx context.Context) error {
	err := r.Close(ctx)
	if err == nil {
		r.pool, err = r.place.newPool(ctx)
	}
	if err == nil {
		_, err = r.pool.Exec(ctx, "CREATE SCHEMA "+r.place.schema)
	}
	if err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{
		Schema: r.place.schema,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// Enqueue adds a single job by Insert, and several by InsertManyFast, which uses COPY.
func (r *riverJobs) Enqueue(ctx context.Context, from, to, batch int) error {
	c, err := r.client(nil)
	if err != nil {
		return err
	}
	return ranges(from, to, batch, func(from, to int) error {
		if to-from == 1 {
			_, err := c.Insert(ctx, newPayload(from), nil)
			return err
		}
		jobs := make([]river.InsertManyParams, to-from)
		for i := range jobs {
			jobs[i].Args = newPayload(from + i)
		}
		_, err := c.InsertManyFast(ctx, jobs)
		return err
	})
}

func (r *riverJobs) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	return drainAll(ctx, r, n, done)
}

// riverEvents is how many completions may wait to be counted.
const riverEvents = 1 << 20

func (r *riverJobs) Work(ctx context.Context, stop <-chan struct{}, handled func(int)) (end time.Time, err error) {
	var begun atomic.Int64
	c, err := r.client(func(number int) {
		begun.Add(1)
		handled(number)
	})
	if err != nil {
		return end, err
	}
	events, unsubscribe := c.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: riverEvents,
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobCancelled, river.EventKindJobFailed},
	})
	defer unsubscribe()
	if err := c.Start(ctx); err != nil {
		return end, err
	}
	end = time.Now()
	for completed := int64(0); !closed(stop) || completed < begun.Load(); {
		stopped := stop
		if closed(stop) {
			stopped = nil // it waits for the completions that are left
		}
		select {
		case e := <-events:
			if e.Job.State != rivertype.JobStateCompleted {
				return end, fmt.Errorf("job %d is %s", e.Job.ID, e.Job.State)
			}
			completed++
			end = time.Now()
		case <-stopped:
		case <-ctx.Done():
			return end, ctx.Err()
		}
	}
	return end, c.Stop(ctx)
}

func (r *riverJobs) Stored(ctx context.Context) (completed, others int, err error) {
	err = r.place.pool.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE state = 'completed'),
       count(*) FILTER (WHERE state <> 'completed')
  FROM `+r.place.schema+".river_job").Scan(&completed, &others)
	return completed, others, err
}

func (r *riverJobs) Close(ctx context.Context) error {
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
	return r.place.Clear(ctx)
}
