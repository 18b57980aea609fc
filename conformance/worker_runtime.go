package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// runtimeCases are what a worker promises about itself on an engine: when it ends, and what it does about rows that it cannot have.
func runtimeCases() []Case {
	return inGroup("Worker",
		Case{Name: "UntilEmptyWaitsForLockedTasks", run: workerUntilEmpty,
			Law: "A worker that runs until its queue is empty does not return while another transaction has a due task locked."},
	)
}

func workerUntilEmpty(t *T) {
	c := t.Open()
	q := c.Queue("work")
	ids := t.enqueueMany(q, 3, func(i int, nt *dbq.NewTask) { nt.Reference = fmt.Sprint(i) })
	tx := t.lockRows("1")
	unlock := time.AfterFunc(500*time.Millisecond, func() { _ = tx.Rollback() })
	defer unlock.Stop()
	w := worker.Worker{Queue: q, UntilEmpty: true, Logger: quietLog,
		Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil })}
	t.Must(w.Run(t.ctx))
	for _, id := range ids {
		t.wantState(c, id, dbq.StateCompleted)
	}
}
