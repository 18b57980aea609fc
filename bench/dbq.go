package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

const (
	loopGoroutines = 4   // of the bare loop
	loopBatch      = 500 // tasks in one checkout
	handlers       = 100 // of the worker
	lease          = 5 * time.Minute
)

// place is where a contender's tables are.
type place interface {
	// Clear leaves nothing of an earlier round.
	Clear(ctx context.Context) error
	// Open opens a dbq client there, migrated.
	Open(ctx context.Context, opts ...dbq.Option) (*dbq.Client, error)
}

// mode is how dbq drains.
type mode int

const (
	loop         mode = iota // Checkout and CompleteMany in a bare loop
	loopDelete               // the same, with CompletedAndDeleted
	inWorker                 // package worker
	workerDelete             // the same, with worker.Delete
)

type dbqTasks struct {
	place place
	mode  mode
	opts  []dbq.Option
	c     *dbq.Client
	q     *dbq.Queue
}

func (d *dbqTasks) Prepare(ctx context.Context) (err error) {
	if err := d.Close(ctx); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d.c, err = d.place.Open(ctx, append(d.opts, dbq.WithMigrate(), dbq.WithLogger(logger))...)
	if err == nil {
		d.q = d.c.Queue("bench")
	}
	return err
}

func (d *dbqTasks) Enqueue(ctx context.Context, from, to, batch int) error {
	return ranges(from, to, batch, func(from, to int) error {
		tasks := make([]dbq.NewTask, to-from)
		for i := range tasks {
			tasks[i].Payload = newPayload(from + i).encode()
		}
		if len(tasks) == 1 {
			_, err := d.q.Enqueue(ctx, tasks[0])
			return err
		}
		_, err := d.q.EnqueueMany(ctx, tasks)
		return err
	})
}

func (d *dbqTasks) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	if d.mode == inWorker || d.mode == workerDelete {
		return d.runWorker(ctx, n, done)
	}
	start := time.Now()
	errs := make(chan error, loopGoroutines)
	var group sync.WaitGroup
	for range loopGoroutines {
		group.Go(func() { errs <- d.loop(ctx, done) })
	}
	group.Wait()
	took := time.Since(start)
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}

func (d *dbqTasks) loop(ctx context.Context, done *ledger) error {
	for {
		tasks, err := d.q.Checkout(ctx, loopBatch, lease)
		if err != nil || len(tasks) == 0 {
			return err
		}
		ends := make([]dbq.Settlement, len(tasks))
		for i, t := range tasks {
			if _, err := done.enterJSON(t.Payload); err != nil {
				return err
			}
			if d.mode == loopDelete {
				ends[i] = dbq.CompletedAndDeleted(t.Lease)
			} else {
				ends[i] = dbq.Completed(t.Lease, nil)
			}
		}
		out, err := d.q.Settle(ctx, ends)
		if err != nil {
			return err
		}
		for _, o := range out {
			if o.Err != nil {
				return o.Err
			}
		}
	}
}

func (d *dbqTasks) runWorker(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := worker.Worker{
		Queue: d.q, Concurrency: handlers, Lease: lease,
		Handler: worker.HandlerFunc(func(_ context.Context, t dbq.Task) ([]byte, error) {
			total, err := done.enterJSON(t.Payload)
			if total == n {
				stop() // Run then waits for the handlers and settles all
			}
			if err == nil && d.mode == workerDelete {
				err = worker.Delete
			}
			return nil, err
		}),
	}
	start := time.Now()
	err := w.Run(ctx)
	return time.Since(start), err
}

func (d *dbqTasks) Stored(ctx context.Context) (completed, others int, err error) {
	stats, err := d.c.Stats(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, q := range stats {
		for state, n := range q.Count {
			if state == dbq.StateCompleted {
				completed += int(n)
			} else {
				others += int(n)
			}
		}
	}
	return completed, others, nil
}

func (d *dbqTasks) Close(ctx context.Context) error {
	if d.c != nil {
		if err := d.c.Close(); err != nil {
			return fmt.Errorf("closing the client: %w", err)
		}
		d.c = nil
	}
	return d.place.Clear(ctx)
}
