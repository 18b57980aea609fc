package sample

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
)

const (
	// pause is the time between two new tasks.
	pause = 300 * time.Millisecond
	// most is the number of waiting tasks of a queue at which no more are added.
	most       = 300
	checkEvery = 5 * time.Second
)

// Run adds tasks and works on them until ctx ends: some fail and are retried, a few go to POISON, and one partner's
// server is often away. It returns the errors of the workers.
func Run(ctx context.Context, c *dbq.Client) error {
	keep := dbq.Retention{Completed: 30 * time.Minute, Poison: 2 * time.Hour, Parked: 2 * time.Hour,
		Attempts: 2 * time.Hour}
	var all sync.WaitGroup
	errs := make(chan error, len(handlers))
	for queue, h := range handlers {
		w := worker.Worker{
			Queue: c.Queue(queue), Handler: h.handler, Concurrency: h.concurrency, DrainTimeout: time.Second,
			ID: fmt.Sprintf("shop-%d/%s", os.Getpid(), queue), Retention: keep,
			Tuning:  worker.Tuning{ReportInterval: 5 * time.Second},
			Backoff: dbq.Exponential(2*time.Second, time.Minute), Logger: slog.New(slog.DiscardHandler),
		}
		all.Go(func() { errs <- w.Run(ctx) })
	}
	produce(ctx, c)
	all.Wait()
	close(errs)
	var out error
	for err := range errs {
		out = errors.Join(out, err)
	}
	return out
}

// Await waits until the workers of Run have reported, or ctx ends: before that, the shop's queues seem to have none.
func Await(ctx context.Context, c *dbq.Client) {
	for ops := admin.New(c); sleep(ctx, 20*time.Millisecond); {
		working := map[string]bool{}
		workers, _ := ops.Workers(ctx) // or again
		for _, w := range workers {
			working[w.Queue] = working[w.Queue] || !w.Dead
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(handlers)), func(queue string) bool { return !working[queue] }) {
			return
		}
	}
}

var handlers = map[string]struct {
	handler     worker.Handler
	concurrency int
}{
	mail:     {worker.Func(send), 4},
	orders:   {worker.Func(fulfill), 4},
	images:   {worker.HandlerFunc(resize), 3},
	webhooks: {worker.HandlerFunc(notify), 4},
}

// produce adds tasks until ctx ends, and pauses while too many wait.
func produce(ctx context.Context, c *dbq.Client) {
	ops, full, checked := admin.New(c), map[string]bool{}, time.Time{}
	for sleep(ctx, pause) {
		if time.Since(checked) > checkEvery {
			checked = time.Now()
			for queue := range handlers {
				s, err := ops.StatsOf(ctx, queue, admin.CountUpTo(most))
				full[queue] = err != nil || s.Count[dbq.StateCreated]+s.Count[dbq.StateError] >= most
			}
		}
		// Whether a task could be added does not matter: the next one follows.
		switch n := rand.IntN(100); {
		case n < 12 && !full[orders]:
			_ = order(ctx, c)
		case n < 20 && !full[images]:
			_, _ = c.Queue(images).Enqueue(ctx, imageTask(0))
		case n < 45 && !full[webhooks]:
			_, _ = c.Queue(webhooks).Enqueue(ctx, webhookTask(0))
		case n >= 45 && !full[mail]:
			_, _ = c.Queue(mail).Enqueue(ctx, mailTask(0))
		}
	}
}

var (
	charge = dbq.Kind[int]{Name: "charge", Queue: orders}
	pack   = dbq.Kind[int]{Name: "pack", Queue: orders}
	ship   = dbq.Kind[int]{Name: "ship", Queue: orders}
	tell   = dbq.Kind[int]{Name: "order-event", Queue: webhooks}
)

// order enqueues a workflow.
func order(ctx context.Context, c *dbq.Client) error {
	id := rand.IntN(90_000)
	_, err := workflow.Enqueue(ctx, c, []workflow.Step{
		workflow.NewStep("charge", charge, id), workflow.NewStep("pack", pack, id),
		workflow.NewStep("ship", ship, id, "charge", "pack"), workflow.NewStep("tell the partner", tell, id, "ship"),
	})
	return err
}

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// work takes about the usual time of a queue's tasks.
func work(ctx context.Context, usual time.Duration) error {
	if !sleep(ctx, min(around(usual), 4*usual)) {
		return context.Cause(ctx)
	}
	return nil
}

func send(ctx context.Context, _ dbq.Task) error {
	if err := work(ctx, 140*time.Millisecond); err != nil {
		return err
	}
	switch n := rand.IntN(300); {
	case n == 0:
		return dbq.Poisoned(errNoMailbox)
	case n < 12:
		return errGreylisted
	}
	return nil
}

func fulfill(ctx context.Context, t dbq.Task) error {
	if err := work(ctx, 700*time.Millisecond); err != nil {
		return err
	}
	if t.Kind == charge.Name && rand.IntN(60) == 0 {
		return dbq.Poisoned(errDeclined)
	}
	return nil
}

// resize reports its progress.
func resize(ctx context.Context, t dbq.Task) dbq.Outcome {
	for percent := 0; percent < 100; percent += 10 {
		if err := worker.SetProgress(ctx, fmt.Appendf(nil, `{"percent":%d}`, percent)); err != nil {
			return dbq.Failed(err)
		}
		if err := work(ctx, 500*time.Millisecond); err != nil {
			return dbq.Failed(err)
		}
	}
	switch rand.IntN(40) {
	case 0:
		return dbq.Poisoned(errFormat)
	case 1:
		var sizes []int
		return dbq.Completed(fmt.Append(nil, sizes[t.Attempt])) // panics: the page of the task shows the stack
	}
	return dbq.Completed([]byte(`{"sizes":[320,800,1600]}`))
}

// notify fails while the partner's server is away: 10 seconds of each three minutes.
func notify(ctx context.Context, _ dbq.Task) dbq.Outcome {
	if err := work(ctx, 220*time.Millisecond); err != nil {
		return dbq.Failed(err)
	}
	switch {
	case time.Now().Unix()%180 < 10:
		return dbq.Failed(errOutage)
	case rand.IntN(200) == 0:
		return dbq.Parked(errRefused)
	}
	return dbq.Completed([]byte("200 OK"))
}
