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
		Case{Name: "DrainIsBounded", run: workerDrain, once: true,
			Law: "A worker that is told to end returns within DrainTimeout and three seconds, also when the database is away or does not answer."},
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

func workerDrain(t *T) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	for _, away := range []struct {
		how  string
		goes func()
	}{{"away", p.leave}, {"silent", p.freeze}} {
		queue := "database " + away.how
		c := t.OpenDSN(dsn)
		t.enqueueMany(direct.Queue(queue), 50, nil)
		started, proceed := make(chan struct{}, 50), make(chan struct{})
		const drain, lease = 500 * time.Millisecond, 25 * time.Second
		stop := t.run(worker.Worker{Queue: c.Queue(queue), Concurrency: 2, Lease: lease, DrainTimeout: drain, Logger: quietLog,
			Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) {
				started <- struct{}{}
				<-proceed
				return nil, nil
			})})
		t.await("a handler starts", started)
		away.goes()
		close(proceed)
		began := time.Now()
		stop()
		// A machine may be so busy that everything takes longer, but it comes nowhere near the lease.
		if took := time.Since(began); took > lease/2 {
			t.Errorf("with the database %s, the worker returned after %v, want %v and 3 s at most", away.how, took, drain)
		}
		p.heal()
	}
}
