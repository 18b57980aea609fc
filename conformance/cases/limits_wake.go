package cases

import (
	"context"
	"fmt"
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
		case <-time.After(patience):
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

func limitKilled(t *test) {
	const most, perKey, tasks = 4, 1, 40
	c := t.open()
	q := c.Queue("q")
	t.limit(c, "q", admin.QueueLimits{Leased: most, KeyLeased: perKey})
	t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = fmt.Sprint(i%6), 1000 })
	leased := func() (n int) {
		keys := map[string]int{}
		for _, task := range t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateProcessing}}) {
			n++
			if keys[task.Key]++; n > most || keys[task.Key] > perKey {
				t.Fatalf("%d tasks are leased, %d of key %s; the limits are %d and %d", n, keys[task.Key], task.Key, most, perKey)
			}
		}
		return n
	}
	for i := range 2 {
		p := t.start(childSpec{Do: "drain", Name: fmt.Sprint("killed ", i), Queue: "q", Batch: []int{3},
			Lease: 600 * time.Millisecond, Pause: 150 * time.Millisecond}) // it holds tasks nearly all the time
		t.eventually("a process has leased tasks", func() bool { return leased() > 0 && len(p.records()) > 0 })
		p.kill()
	}
	t.eventually("the rest is done", func() bool {
		leased()
		for _, task := range t.checkout(q, 3, long) {
			leased()
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
		return t.idle(t.ctx, c)
	})
}
