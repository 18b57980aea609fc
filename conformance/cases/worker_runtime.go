package cases

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// runtimeCases are a worker's promises about its own end, and about rows that it cannot lock or write.
func runtimeCases() []Case {
	return inGroup("Worker",
		Case{Name: "UntilEmptyWaitsForLockedTasks", run: workerUntilEmpty,
			Law: "A worker that runs until its queue is empty does not return while another transaction has a due task " +
				"locked."},
		Case{Name: "DrainIsBounded", Slow: true, Once: true, run: workerDrain,
			Law: "A worker whose context ends returns within DrainTimeout and three seconds, even when the database is " +
				"down or does not answer."},
		Case{Name: "RefusedSettlement", Once: true, run: workerRefused,
			Law: "A task whose settlement the database refuses goes to POISON with the database's message, without any " +
				"effect on the other tasks of its batch."},
		Case{Name: "HandlersInTransactions", Slow: true, Once: true, run: workerTransactions,
			Law: "Handlers whose transactions from Client.DB stay open for longer than the lease, more of them than the pool " +
				"has connections, lose no lease: each task runs once."},
		Case{Name: "TransactionsOnAnotherPool", Slow: true, Once: true, run: workerTxDB,
			Law: "20 handlers whose transactions from the pool of WithTxDB stay open for longer than the lease lose no lease " +
				"on the 4 connections given to New: each task runs once."},
	)
}

func workerUntilEmpty(t *test) {
	c := t.open()
	q := c.Queue("work")
	ids := t.enqueueMany(q, 3, func(i int, nt *dbq.NewTask) { nt.Reference = fmt.Sprint(i) })
	tx := t.lockRows("1")
	unlock := time.AfterFunc(500*time.Millisecond, func() { _ = tx.Rollback() })
	defer unlock.Stop()
	w := worker.Worker{Queue: q, UntilEmpty: true, Logger: quietLog,
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
	t.must(w.Run(t.ctx))
	for _, id := range ids {
		t.wantState(c, id, dbq.StateCompleted)
	}
}

func workerDrain(t *test) {
	direct := t.open()
	away := []struct {
		how  string
		goes func(p *proxy.Proxy)
	}{{"away", (*proxy.Proxy).GoDown}, {"silent", (*proxy.Proxy).Stall}}
	t.concurrently(len(away), func(_ context.Context, i int) {
		p, dsn := t.throughProxy()
		queue := "database " + away[i].how
		c := t.openDSN(dsn)
		t.enqueueMany(direct.Queue(queue), 50, nil)
		started, proceed := make(chan struct{}, 50), make(chan struct{})
		const drain, lease = 500 * time.Millisecond, 25 * time.Second
		stop := t.runWorker(worker.Worker{Queue: c.Queue(queue), Concurrency: 2, Lease: lease, DrainTimeout: drain,
			Logger: quietLog,
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				started <- struct{}{}
				<-proceed
				return nil
			})})
		t.await("a handler starts", started)
		away[i].goes(p)
		close(proceed)
		began := time.Now()
		stop()
		// A machine may be so busy that everything takes longer, but it comes nowhere near the lease.
		if took := time.Since(began); took > lease/2 {
			t.Errorf("with the database %s, the worker returned after %v, want %v and 3 s at most", away[i].how, took, drain)
		}
		p.Heal()
	})
}

// refuse makes the database refuse to complete tasks of a kind, as an application's constraint or trigger would.
func (t *test) refuse(c *dbq.Client, kind string) {
	refused := fmt.Sprintf("state = %d AND kind = '%s'", dbq.StateCompleted, kind)
	constraint := fmt.Sprintf("ALTER TABLE %stask ADD CONSTRAINT %sno_way CHECK (NOT (%s))", t.Prefix, t.Prefix, refused)
	_, err := c.DB().ExecContext(t.ctx, constraint)
	if err == nil {
		return
	}
	trigger := fmt.Sprintf("CREATE TRIGGER %sno_way BEFORE UPDATE ON %stask WHEN new.%s BEGIN SELECT RAISE(ABORT, "+
		"'%sno_way'); END",
		t.Prefix, t.Prefix, strings.ReplaceAll(refused, "kind", "new.kind"), t.Prefix)
	if _, err2 := c.DB().ExecContext(t.ctx, trigger); err2 != nil {
		t.Skipf("no constraint and no trigger can be made here: %v, %v", err, err2)
	}
}

func workerRefused(t *test) {
	c := t.open()
	q := c.Queue("work")
	t.refuse(c, "refused")
	const n, bad = 200, 77
	ids := t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) {
		if i == bad {
			nt.Kind = "refused"
		}
	})
	var mu sync.Mutex
	runs := map[uuid.UUID]int{}
	t.must((&worker.Worker{Queue: q, UntilEmpty: true, Logger: quietLog,
		Handler: worker.Func(func(_ context.Context, task dbq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			runs[task.ID]++
			return nil
		})}).Run(t.ctx))
	for i, id := range ids {
		want := dbq.StateCompleted
		if i == bad {
			want = dbq.StatePoison
		}
		task := t.wantState(c, id, want)
		if runs[id] != 1 {
			t.Errorf("task %d ran %d times, want once", i, runs[id])
		}
		if i == bad && !strings.Contains(string(task.Result), "no_way") {
			t.Errorf("the result is %q, want the database's message", task.Result)
		}
	}
}
