package cases

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
)

// workflowKilled kills a process between the end of a step and what follows from it. On an engine that locks rows, a
// transaction keeps the workflow from being advanced until then.
func workflowKilled(t *test) {
	c := t.open()
	queues := []string{"unlisted", "listed"}
	ws := make([]workflow.Enqueued, len(queues))
	for i, queue := range queues {
		ws[i] = t.enqueueSteps(c, stepsOf(c.Queue(queue), []string{"a"}, []string{"b", "a"}, []string{"c", "b"}))
	}
	var lock *sql.Tx
	if !c.Info().Server.OneWriter {
		lock = t.beginTx(t.open())
		_, err := lock.ExecContext(t.ctx, "UPDATE "+t.Prefix+"step SET needs = needs")
		t.must(err)
	}
	var ps []*process
	for _, queue := range queues {
		ps = append(ps, t.start(childSpec{Do: "drain", Name: queue, Queue: queue, Batch: []int{1}, Lease: time.Second,
			Pause: 100 * time.Millisecond}))
	}
	for i := range queues {
		t.eventually("the first step has ended", func() bool {
			info, err := workflow.Get(t.ctx, c, ws[i].ID, 0)
			if lock == nil && errors.Is(err, dbq.ErrNotFound) {
				return true // nothing holds the process up: it may have removed all three before it is killed
			}
			t.must(err)
			s := info.Steps[0].State
			return len(info.Steps) < 3 || s == dbq.StateCompleted || s == state.None
		})
		ps[i].kill()
	}
	if lock != nil {
		t.must(lock.Rollback())
		t.wantWaiting("after the kill", c, ws[0].Tasks[1], ws[1].Tasks[1])
	}
	killed := t.now(c)
	t.eventually("the process is gone for a second", func() bool {
		return t.now(c).After(killed.Add(1100 * time.Millisecond))
	})
	for i, queue := range queues {
		stop := t.runWorker(worker.Worker{Queue: c.Queue(queue), Unlisted: queue == "unlisted", Logger: quietLog,
			Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
		t.eventually("the last step is completed by a worker that is "+queue, func() bool {
			last, err := c.Get(t.ctx, ws[i].Tasks[2])
			return last.State == dbq.StateCompleted || errors.Is(err, dbq.ErrNotFound) // the process may have removed it
		})
		stop()
	}
}
