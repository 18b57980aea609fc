package cases

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/worker"
)

// strandedCases are about connections that die without being closed, as those to a host without power, or those that
// a router has forgotten, while new connections work; and about slow ones, which must not look like them.
func strandedCases() []Case {
	return []Case{
		{Name: "WorkersOutliveDeadConnections", Once: true, run: workersOutliveDeadConnections,
			Law: "When all connections of a client die without being closed, and new ones work, its workers go on within two " +
				"leases: idle ones, busy ones, and those whose handlers work in transactions."},
		{Name: "CallsOutliveDeadConnections", Once: true, run: callsOutliveDeadConnections,
			Law: "When all connections of a client die without being closed, and new ones work, an enqueue without a deadline " +
				"returns within half a minute and reports what is true, and the next calls succeed at once."},
		{Name: "SlowLink", Once: true, Slow: true, run: slowLink,
			Law: "A payload that takes longer to arrive than a call waits for a silent server is checked out and read."},
	}
}

// warm opens n connections of each pool of a client.
func (t *test) warm(c *dbq.Client, n int) {
	t.concurrently(n, func(ctx context.Context, _ int) {
		_, err := c.Now(ctx)
		t.must(err)
		tx, err := c.DB().BeginTx(ctx, nil)
		t.must(err)
		time.Sleep(20 * time.Millisecond)
		t.must(tx.Rollback())
	})
}

func workersOutliveDeadConnections(t *test) {
	const lease = 6 * time.Second
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	t.warm(c, 8)
	var idle, busy, inTx atomic.Int64
	count := func(n *atomic.Int64, takes time.Duration) worker.Handler {
		return worker.Func(func(ctx context.Context, _ dbq.Task) error {
			n.Add(1)
			return sleep(ctx, takes)
		})
	}
	for queue, h := range map[string]worker.Handler{
		"idle": count(&idle, 0), "busy": count(&busy, 50*time.Millisecond),
		"tx": worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error { inTx.Add(1); return nil }),
	} {
		defer t.runWorker(worker.Worker{Queue: c.Queue(queue), Concurrency: 2, Lease: lease, Logger: quietLog, Handler: h})()
	}
	stop := make(chan struct{})
	var producing sync.WaitGroup
	defer producing.Wait()
	defer close(stop)
	producing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				t.enqueue(direct.Queue("busy"), dbq.NewTask{})
			}
		}
	})
	t.eventually("the busy worker works", func() bool { return busy.Load() > 3 })
	time.Sleep(1200 * time.Millisecond) // some drivers examine a connection that has been idle for a second
	p.Strand()
	began := time.Now()
	t.enqueue(direct.Queue("idle"), dbq.NewTask{})
	t.enqueue(direct.Queue("tx"), dbq.NewTask{})
	time.Sleep(200 * time.Millisecond) // what had been handed to the executors of the busy one
	before := busy.Load()
	for name, works := range map[string]func() bool{
		"idle": func() bool { return idle.Load() > 0 },
		"busy": func() bool { return busy.Load() > before+4 }, // more than it had leased ahead
		"tx":   func() bool { return inTx.Load() > 0 },
	} {
		for !works() && time.Since(began) < t.Patience {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*lease {
			t.Errorf("the worker %q went on after %v, want at most %v", name, took, 2*lease)
		} else {
			t.Logf("%s: %v", name, took)
		}
	}
}

// noDeadline is the documented bound of a call without a deadline.
const noDeadline = 30 * time.Second

func callsOutliveDeadConnections(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	t.warm(c, 8)
	p.Strand()
	f := faultCallNamed("Enqueue")
	s, began := t.newFaultRun(direct, f), time.Now()
	s.err = f.call(t.ctx, c.Queue(s.queue), s)
	if took := time.Since(began); took > noDeadline {
		t.Errorf("the enqueue returned after %v, want at most %v: %v", took, noDeadline, s.err)
	}
	t.checkCall("with dead connections", direct, f, s)
	began = time.Now()
	for range 8 {
		_, err := c.Get(t.ctx, dbq.NewID())
		t.wantErr("get", err, dbq.ErrNotFound)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the calls after it took %v", took)
	}
}

func slowLink(t *test) {
	const size, rate = 1 << 20, 256 << 10 // four seconds, in which the server is never silent
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	id := t.enqueue(direct.Queue("q"), dbq.NewTask{Payload: make([]byte, size)})
	p.Slow(rate)
	ctx := sqlrun.WithPatience(t.ctx, func() time.Duration { return 0 }) // the minimum of two seconds
	tasks, err := c.Queue("q").Checkout(ctx, 1, long)
	if err != nil || len(tasks) != 1 || len(tasks[0].Payload) != size {
		t.Errorf("a checkout over a slow link returned %d tasks, and %v", len(tasks), err)
	}
	if task, err := c.Get(ctx, id); err != nil || len(task.Payload) != size {
		t.Errorf("reading the task over a slow link returned %d bytes, and %v", len(task.Payload), err)
	}
}
