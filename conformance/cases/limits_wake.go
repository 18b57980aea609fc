package cases

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
)

// limitWakes uses a worker that polls once an hour.
func limitWakes(t *test) {
	c, q := t.limited(admin.QueueLimits{Leased: 1})
	t.enqueueMany(q, 5, nil)
	held := t.takeEventually(q, 1, long)[0]
	started, end := make(chan dbq.Task, 10), make(chan struct{})
	t.runWorker(worker.Worker{
		Queue: q, PollMin: time.Hour, PollMax: time.Hour, Logger: quietLog, Concurrency: 5,
		Handler: worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
			started <- task
			select {
			case <-ctx.Done(): // it is cancelled
			case <-end:
			}
			return dbq.Completed(nil)
		}),
	})
	defer close(end)
	next := func(after string) (task dbq.Task) {
		select {
		case task = <-started:
		case <-time.After(t.Patience):
			t.Fatalf("no task started after %s", after)
		}
		return task
	}
	_ = sleep(t.ctx, 100*time.Millisecond) // the worker finds no slot and waits
	t.must(q.Complete(t.ctx, held.Lease, nil))
	task := next("a settlement")
	t.must(admin.New(c).Operate(t.ctx, admin.Cancel, task.ID))
	task = next("a cancellation")
	tx := t.beginTx(c)
	t.must(admin.New(c).OperateTx(t.ctx, tx, admin.Cancel, task.ID))
	t.must(tx.Commit())
	task = next("a cancellation in a transaction")
	t.must(admin.New(c).Operate(t.ctx, admin.Cancel, task.ID))
	next("a cancellation")
}
