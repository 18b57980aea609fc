package cases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// lostCases are about what a worker reports of leases that it lost.
func lostCases() []Case {
	return inGroup("Worker",
		Case{Name: "LostLeaseNamesTheCause", Once: true, run: workerLostWhy,
			Law: "The cause of a handler's context says how its lease was lost: taken over, revoked or cancelled, by whom and " +
				"why, whichever query finds out first; and what an operator did is no warning in the log."},
		Case{Name: "HandlerGoesOnAfterCompleteTx", Once: true, run: workerGoesOn,
			Law: "A handler that has completed its task in a transaction of its own may go on: its context does not end."},
	)
}

func workerLostWhy(t *test) {
	c := t.open()
	q := c.Queue("q")
	operator := admin.New(t.otherProcess(c))
	withdraw := func(event func(ctx context.Context, id uuid.UUID) error) func(uuid.UUID) {
		return func(id uuid.UUID) { t.must(event(t.ctx, id)) }
	}
	ways := []struct {
		want error
		text string
		do   func(id uuid.UUID)
	}{
		{worker.ErrCancelled, "cancelled by ops: enough", withdraw(func(ctx context.Context, id uuid.UUID) error {
			return operator.Operate(ctx, admin.Cancel, id, admin.By("ops"), admin.Reason("enough"))
		})},
		{worker.ErrRevoked, "revoked by ops: enough", withdraw(func(ctx context.Context, id uuid.UUID) error {
			return operator.Operate(ctx, admin.Revoke, id, admin.By("ops"), admin.Reason("enough"))
		})},
		{worker.ErrTakenOver, "another worker", func(id uuid.UUID) { // as a checkout does after a lease has expired
			_, err := c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET fence = fence + 1 WHERE reference = '%s'",
				t.Prefix, t.get(c, id).Reference))
			t.must(err)
		}},
	}
	const each = 6
	ids := t.enqueueMany(q, each*len(ways), func(i int, nt *dbq.NewTask) { nt.Reference = fmt.Sprint(i) })
	type end struct {
		id    uuid.UUID
		cause error
	}
	started, ended := make(chan struct{}, len(ids)), make(chan end, len(ids))
	var log logRecorder
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: len(ids), Lease: 4 * time.Second, Logger: slog.New(&log),
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			started <- struct{}{}
			<-ctx.Done()
			ended <- end{task.ID, context.Cause(ctx)}
			return ctx.Err()
		})})
	for range ids {
		<-started
	}
	want := map[uuid.UUID]int{}
	for i, id := range ids {
		want[id] = i % len(ways)
		ways[want[id]].do(id)
		time.Sleep(20 * time.Millisecond) // so that different queries find out
	}
	for range ids {
		select {
		case e := <-ended:
			if w := ways[want[e.id]]; !errors.Is(e.cause, w.want) || !errors.Is(e.cause, dbq.ErrLeaseLost) ||
				!strings.Contains(e.cause.Error(), w.text) {
				t.Errorf("the cause is %v, want %v with %q", e.cause, w.want, w.text)
			}
		case <-time.After(t.Patience):
			t.Fatalf("a handler's context did not end")
		}
	}
	stop()
	for text, n := range map[string]int{"leases lost": each, "withdrawn by operators": 2 * each} {
		if _, tasks := log.count(text); tasks != n {
			t.Errorf("lines with %q count %d tasks, want %d", text, tasks, n)
		}
	}
}

func workerGoesOn(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	const lease = 1500 * time.Millisecond // long enough that it does not expire on a busy machine
	cause := make(chan error, 1)
	var log logRecorder
	stop := t.runWorker(worker.Worker{Queue: q, Lease: lease, Logger: slog.New(&log),
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			tx, err := c.DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := errors.Join(q.CompleteTx(ctx, tx, task.Lease, []byte("done")), tx.Commit()); err != nil {
				return err
			}
			_ = sleep(ctx, lease) // past two heartbeats
			cause <- context.Cause(ctx)
			return nil
		})})
	select {
	case err := <-cause:
		if err != nil {
			t.Errorf("the context of a handler that had completed its task ended by %v", err)
		}
	case <-time.After(t.Patience):
		t.Fatalf("the handler did not return")
	}
	stop()
	if task := t.wantState(c, id, dbq.StateCompleted); string(task.Result) != "done" {
		t.Errorf("the result is %q", task.Result)
	}
	if lines, _ := log.count("leases lost"); lines > 0 {
		t.Errorf("the log has %d lines about lost leases, want none", lines)
	}
}
