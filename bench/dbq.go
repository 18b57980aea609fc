package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

const (
	loopGoroutines = 4                    // of the bare loop
	ourBatch       = 500                  // tasks in one checkout of the loop; the worker has its default, 1000
	loopPause      = 5 * time.Millisecond // after a checkout that found nothing
	handlers       = 100                  // of the worker
	lease          = 5 * time.Minute
)

// A place is where a contender's tables are.
type place interface {
	// Clear removes everything that an earlier round left.
	Clear(ctx context.Context) error
	// Open opens a dbq client there.
	Open(ctx context.Context, opts ...dbq.Option) (*dbq.Client, error)
}

// dbqTasks is dbq: Checkout and Settle in a bare loop, or package worker.
type dbqTasks struct {
	place    place
	strategy dialect.Strategy // "" is the engine's default
	worker   bool
	history  dbq.History // of the worker
	deletes  bool
	batch    int // 0 is ourBatch, or the worker's default
	key      func(i int) string
	limits   admin.QueueLimits
	hot      int // tasks of one key that are enqueued before the measured ones, and not counted
	c        *dbq.Client
	q        *dbq.Queue
}

// ourEntries returns dbq's entries in a group: a bare loop and a worker for each strategy. Without strategies the
// engine has only one. The default strategy is also measured with deletion and with less history.
func ourEntries(group string, p place, strategies ...dialect.Strategy) []*entry {
	var all []*entry
	add := func(e entry, d *dbqTasks) {
		d.place, d.deletes = p, e.deletes
		if e.deletes {
			e.name += deleting
		}
		e.group, e.role, e.contender = group, ours, d
		all = append(all, &e)
	}
	if len(strategies) == 0 {
		strategies = []dialect.Strategy{""}
	}
	for i, s := range strategies {
		label := ""
		if s != "" {
			label = " " + string(s)
		}
		first := i == 0 // enqueues are the same under each strategy
		add(entry{name: "dbq" + label + ", loop", singles: first, meanwhile: first}, &dbqTasks{strategy: s})
		add(entry{name: "dbq" + label + ", worker", meanwhile: first}, &dbqTasks{strategy: s, worker: true})
	}
	add(entry{name: "dbq, worker, history of failures"}, &dbqTasks{worker: true, history: dbq.HistoryFailures})
	add(entry{name: noHistory}, &dbqTasks{worker: true, history: dbq.HistoryNone})
	add(entry{name: "dbq, loop", deletes: true}, &dbqTasks{})
	add(entry{name: "dbq, worker", deletes: true}, &dbqTasks{worker: true})
	add(entry{name: noHistory, deletes: true}, &dbqTasks{worker: true, history: dbq.HistoryNone})
	return all
}

func (d *dbqTasks) Prepare(ctx context.Context) error {
	if err := d.Close(ctx); err != nil {
		return err
	}
	if err := d.open(ctx, dbq.WithMigrate()); err != nil || d.limits == (admin.QueueLimits{}) {
		return err
	}
	if err := d.enqueueHot(ctx); err != nil {
		return err
	}
	return admin.New(d.c).ConfigureLimits(ctx, "bench", func(l *admin.QueueLimits) { *l = d.limits })
}

func (d *dbqTasks) enqueueHot(ctx context.Context) error {
	tasks := make([]dbq.NewTask, d.hot)
	for i := range tasks {
		tasks[i] = dbq.NewTask{Payload: newPayload(uncounted).encode(), Key: "hot"}
	}
	for part := range slices.Chunk(tasks, bulkBatch) {
		if _, err := d.q.EnqueueMany(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (d *dbqTasks) open(ctx context.Context, opts ...dbq.Option) (err error) {
	opts = append(
		opts,
		dbq.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	)
	if d.strategy != "" {
		opts = append(opts, dbq.WithStrategy(d.strategy))
	}
	d.c, err = d.place.Open(ctx, opts...)
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
			if d.key != nil {
				tasks[i].Key = d.key(from + i)
			}
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
	return drainAll(ctx, d, n, done)
}

func (d *dbqTasks) Work(ctx context.Context, stop <-chan struct{}, handled func(int)) (time.Time, error) {
	if d.worker {
		return d.runWorker(ctx, stop, handled)
	}
	return loops(ctx, loopGoroutines, stop, func(ctx context.Context, _ int) (bool, error) {
		return d.takeAndSettle(ctx, handled)
	})
}

// takeAndSettle handles the tasks of one checkout.
func (d *dbqTasks) takeAndSettle(ctx context.Context, handled func(int)) (found bool, err error) {
	tasks, err := d.q.Checkout(ctx, cmp.Or(d.batch, ourBatch), lease)
	if err != nil || len(tasks) == 0 {
		return false, err
	}
	outcome := dbq.Completed(nil)
	if d.deletes {
		outcome = dbq.Deleted()
	}
	ends := make([]dbq.Settlement, len(tasks))
	for i, t := range tasks {
		number, err := numberOf(t.Payload)
		if err != nil {
			return false, err
		}
		if number != uncounted {
			handled(number)
		}
		ends[i] = dbq.Settlement{Lease: t.Lease, Outcome: outcome}
	}
	for len(ends) > 0 {
		out, err := d.q.SettleMany(ctx, ends)
		if err != nil {
			return false, err
		}
		var locked []dbq.Settlement // by a checkout of another loop, for a moment
		for i, o := range out {
			if errors.Is(o.Err, dbq.ErrLocked) {
				locked = append(locked, ends[i])
			} else if o.Err != nil {
				return false, o.Err
			}
		}
		ends = locked
	}
	return true, nil
}

func (d *dbqTasks) runWorker(ctx context.Context, stop <-chan struct{}, handled func(int)) (time.Time, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel() // Run then waits for the handlers and settles all
		case <-ctx.Done():
		}
	}()
	w := worker.Worker{
		Queue: d.q, Concurrency: handlers, Lease: lease, History: d.history, MaxCheckout: d.batch,
		Handler: worker.Func(func(_ context.Context, t dbq.Task) error {
			number, err := numberOf(t.Payload)
			if err != nil {
				return err
			}
			if number != uncounted {
				handled(number)
			}
			if d.deletes {
				return dbq.Deleted()
			}
			return nil
		}),
	}
	err := w.Run(ctx)
	return time.Now(), err
}

func (d *dbqTasks) Stored(ctx context.Context) (completed, others int, err error) {
	stats, err := admin.New(d.c).Stats(ctx, admin.CountAll())
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
	if c := d.c; c != nil {
		d.c = nil
		if err := c.Close(); err != nil {
			return fmt.Errorf("closing the client: %w", err)
		}
	}
	return d.place.Clear(ctx)
}
