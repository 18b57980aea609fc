package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/telemetry/prom"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// enqueue adds tasks as a user who may, in a queue that is empty.
func (u *roleUser) enqueue(n int) []dbq.Task {
	u.t.Helper()
	ctx := u.t.Context()
	q := u.admin.Queue("q")
	if _, err := u.admin.DB().ExecContext(ctx, "DELETE FROM "+u.tables+"task"); err != nil {
		u.t.Fatal(err)
	}
	tasks := make([]dbq.Task, n)
	for i := range tasks {
		id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("secret")})
		if err != nil {
			u.t.Fatal(err)
		}
		tasks[i].ID = id
	}
	return tasks
}

func enqueueOne(ctx context.Context, c *dbq.Client, _ dbq.Task) error {
	_, err := c.Queue("q").Enqueue(ctx, dbq.NewTask{})
	return err
}

func getOne(ctx context.Context, c *dbq.Client, task dbq.Task) error {
	_, err := c.Get(ctx, task.ID)
	return err
}

func checkoutOne(ctx context.Context, c *dbq.Client, _ dbq.Task) error {
	_, err := c.Queue("q").Checkout(ctx, 1, time.Minute)
	return err
}

func pauseOne(ctx context.Context, c *dbq.Client, _ dbq.Task) error {
	return admin.New(c).PauseQueue(ctx, "q")
}

func rejectOne(ctx context.Context, c *dbq.Client, task dbq.Task) error {
	return admin.New(c).Operate(ctx, admin.Reject, task.ID)
}

// steps calls each until one fails.
func steps(each ...func() error) error {
	for i, step := range each {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// workAsWorker makes the calls of a worker one by one, so that a refusal is seen, and then runs a worker.
func workAsWorker(ctx context.Context, u *roleUser, c *dbq.Client) error {
	u.enqueue(6)
	q := access.ForWorker(c.Queue("q"), "w")
	ts, err := q.Checkout(ctx, 6, time.Minute)
	if err != nil || len(ts) != 6 {
		return fmt.Errorf("checkout of %d: %w", len(ts), err)
	}
	info := control.Worker{ID: "w", Queue: "q"}
	var crashed []dbq.Task
	failed := errors.New("no luck")
	attempts := []sqlrun.AttemptRow{
		{Task: ts[0].ID, Attempt: 1, Fence: ts[0].Fence, Outcome: string(dbq.AttemptCompleted), Worker: "w"},
		{Task: ts[1].ID, Attempt: 1, Fence: ts[1].Fence, Outcome: "failed", Worker: "w", Error: []byte("no")},
	}
	err = steps(
		func() (err error) { ts[0].Lease, err = q.Extend(ctx, ts[0].Lease, time.Minute); return err },
		func() (err error) { ts[0].Lease, err = q.Extend(ctx, ts[0].Lease, time.Minute); return err },
		func() error { _, err := access.StillHeld(ctx, q, []dbq.Lease{ts[0].Lease}); return err },
		func() error { _, err := access.Lost(ctx, q, []dbq.Lease{ts[0].Lease}); return err },
		func() error { return q.Complete(ctx, ts[0].Lease, []byte("done")) },
		func() error { return q.Settle(ctx, ts[1].Lease, dbq.Parked(failed)) },
		func() error { return q.Settle(ctx, ts[2].Lease, dbq.Poisoned(failed)) },
		func() error { return q.Settle(ctx, ts[3].Lease, dbq.Deleted()) },
		func() error { return completeInTx(ctx, q, ts[4].Lease) },
		func() (err error) { _, err = q.Extend(ctx, ts[5].Lease, dbq.MinLease); return err },
		func() error { _, _, err := access.Of(c).Wake.Next(ctx, q.Name()); return err },
		func() error {
			return access.Of(c).Wrap("record", q.Name(), uuid.Nil, access.Of(c).Store.Record(ctx, q.Name(), attempts))
		},
		func() error { _, err := access.Of(c).Control.Settings(ctx, "q"); return err },
		func() error { _, err := access.Of(c).Control.Report(ctx, info, time.Minute); return err },
		func() error { _, err := access.Of(c).Control.Report(ctx, info, time.Minute); return err },
		func() error { _, err := access.Of(c).Control.TryLead(ctx, "clean", "w", time.Minute); return err },
		func() error { _, err := access.Of(c).Control.Deregister(ctx, "w"); return err },
		func() error { return reportAndRollUp(ctx, c) },
		func() (err error) { crashed, err = u.takeOver(ctx, q); return err },
		func() error { return q.Settle(ctx, crashed[0].Lease, dbq.Released(0)) },
		func() error {
			const soon = time.Microsecond
			keep := store.Retention{Completed: soon, Poison: soon, Parked: soon, Attempts: soon, Archive: true}
			_, err := access.Of(c).Store.Clean(ctx, q.Name(), keep, "")
			return access.Of(c).Wrap("clean", q.Name(), uuid.Nil, err)
		})
	if err != nil {
		return err
	}
	if err := u.startWithinLimits(ctx, c); err != nil {
		return err
	}
	return runAsWorker(ctx, q)
}

// startWithinLimits starts two tasks of a key, in a queue with a rate per key.
func (u *roleUser) startWithinLimits(ctx context.Context, c *dbq.Client) error {
	const queue = "limited"
	rate := admin.Rate{Starts: 1000, Per: time.Second, Burst: 9}
	err := admin.New(u.admin).ConfigureLimits(ctx, queue, func(l *admin.QueueLimits) { l.KeyRate = rate })
	for range 2 {
		if err == nil {
			_, err = u.admin.Queue(queue).Enqueue(ctx, dbq.NewTask{Key: "a"})
		}
		if err == nil {
			_, err = u.takeOver(ctx, c.Queue(queue))
		}
	}
	return err
}

// reportAndRollUp writes and removes statistics.
func reportAndRollUp(ctx context.Context, c *dbq.Client) error {
	st := access.Of(c).Store
	const since, later = 1_600_000_020_000_000, 1_700_000_000_000_000
	err := steps(
		func() error { return st.AddReport(ctx, "w", series.Period{Queue: "q", Since: since}) },
		func() error { return st.Sample(ctx, since, func(string) bool { return false }) },
		func() error { return st.RollUp(ctx, later) })
	return access.Of(c).Wrap("statistics", "q", uuid.Nil, err)
}

func (u *roleUser) takeOver(ctx context.Context, q *dbq.Queue) (ts []dbq.Task, err error) {
	end := time.Now().Add(30 * time.Second)
	for ; len(ts) == 0 && err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		ts, err = q.Checkout(ctx, 1, time.Minute)
	}
	if err == nil && len(ts) == 0 {
		err = errors.New("nothing to take over")
	}
	return ts, err
}

func completeInTx(ctx context.Context, q *dbq.Queue, l dbq.Lease) error {
	tx, err := q.Client().DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := q.CompleteTx(ctx, tx, l, nil); err != nil {
		return err
	}
	return tx.Commit()
}

// runAsWorker fails when a worker's log has a warning.
func runAsWorker(ctx context.Context, q *dbq.Queue) error {
	var log bytes.Buffer
	w := worker.Worker{Queue: q, UntilEmpty: true, Tuning: worker.Tuning{ReportInterval: 10 * time.Millisecond},
		Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Handler: worker.HandlerFunc(func(context.Context, dbq.Task) dbq.Outcome { return dbq.Completed([]byte("done")) })}
	if err := w.Run(ctx); err != nil {
		return err
	}
	if log.Len() > 0 {
		return fmt.Errorf("the worker logged: %s", log.String())
	}
	return nil
}

// workAsMonitor reads all that can be read without payloads.
func workAsMonitor(ctx context.Context, u *roleUser, c *dbq.Client) error {
	task := u.enqueue(3)[0]
	if _, err := u.admin.Queue("q").Checkout(ctx, 1, time.Minute); err != nil {
		return err
	}
	registry := prometheus.NewPedanticRegistry()
	filtered := admin.Filter{InStateFor: time.Second, Kind: "k", Reference: "r"}
	return steps(
		func() error { _, err := admin.New(c).Stats(ctx); return err },
		func() error { _, err := admin.New(c).Stats(ctx, admin.CountAll()); return err },
		func() error { _, err := admin.New(c).List(ctx, admin.Filter{Queue: "q"}); return err },
		func() error {
			_, err := admin.New(c).
				List(ctx, admin.Filter{Queue: "q", States: []state.State{state.Processing}, NewestFirst: true})
			return err
		},
		func() error {
			_, err := admin.New(c).List(ctx, filtered)
			return err
		},
		func() error { _, err := admin.New(c).Attempts(ctx, task.ID); return err },
		func() error { _, err := admin.New(c).Archived(ctx, admin.Filter{}); return err },
		func() error { _, err := admin.New(c).Workers(ctx); return err },
		func() error {
			_, err := admin.New(c).SeriesOf(ctx, nil, time.Now().Add(-time.Hour), time.Now(), time.Minute)
			return err
		},
		func() error { _, err := admin.New(c).Queues(ctx); return err },
		func() error {
			m, err := prom.New(registry)
			if err == nil {
				err = m.Watch(c)
			}
			if err == nil {
				_, err = registry.Gather()
			}
			return err
		})
}

func readAudit(ctx context.Context, c *dbq.Client, _ dbq.Task) error {
	_, err := admin.New(c).Audit(ctx, admin.AuditFilter{Queue: "q", By: "ann", Action: "purge", TaskID: dbq.NewID()})
	return err
}

func cleanAudit(ctx context.Context, c *dbq.Client, _ dbq.Task) error {
	_, err := admin.New(c).CleanAudit(ctx, time.Microsecond)
	return err
}

// workAsAuditor reads the audit.
func workAsAuditor(ctx context.Context, u *roleUser, c *dbq.Client) error {
	if err := admin.New(u.admin).PauseQueue(ctx, "q"); err != nil {
		return err
	}
	page, err := admin.New(c).Audit(ctx, admin.AuditFilter{})
	if err == nil && len(page.Entries) == 0 {
		err = errors.New("the audit is empty")
	}
	return err
}

// workAsOperator reads, and does all that operators do.
func workAsOperator(ctx context.Context, u *roleUser, c *dbq.Client) error {
	if err := workAsMonitor(ctx, u, c); err != nil {
		return err
	}
	ts := u.enqueue(4)
	if got, err := u.admin.Queue("q").Checkout(ctx, 1, time.Minute); err != nil || len(got) != 1 {
		return fmt.Errorf("checkout of %d: %w", len(got), err)
	}
	if _, err := access.Of(u.admin).Control.Report(ctx, control.Worker{ID: "w", Queue: "q"}, time.Minute); err != nil {
		return err
	}
	ops := admin.New(c)
	one := admin.Filter{Queue: "q", Limit: 10}
	return steps(
		func() error { _, err := ops.OperateMany(ctx, admin.Revoke, one); return err },
		func() error { return ops.Operate(ctx, admin.Reject, ts[1].ID) },
		func() error { return ops.Operate(ctx, admin.Quarantine, ts[1].ID) },
		func() error { return ops.Operate(ctx, admin.Restore, ts[1].ID) },
		func() error { return ops.Operate(ctx, admin.Reenqueue, ts[1].ID) },
		func() error { return ops.Operate(ctx, admin.Cancel, ts[2].ID) },
		func() error { _, err := ops.OperateMany(ctx, admin.Reject, one); return err },
		func() error { _, err := ops.OperateMany(ctx, admin.Purge, one); return err },
		func() error { return ops.PauseQueue(ctx, "q", admin.Reason("why")) },
		func() error { return ops.PauseQueue(ctx, "q", admin.Reason("why else")) },
		func() error { return ops.ResumeQueue(ctx, "q") },
		func() error { return ops.ConfigureQueue(ctx, "q", func(s *admin.QueueSettings) { s.MaxCheckout = 7 }) },
		func() error { return ops.ConfigureQueue(ctx, "q", func(s *admin.QueueSettings) { s.MaxCheckout = 8 }) },
		func() error {
			rate := admin.Rate{Starts: 1, Per: time.Hour, Burst: 1}
			return ops.ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { l.Concurrency, l.KeyRate = 8, rate })
		},
		func() error {
			return ops.ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { l.KeyRate.Per = time.Second })
		},
		func() error {
			return ops.ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { *l = admin.QueueLimits{} })
		},
		func() error { return ops.CommandWorker(ctx, "w", dbq.CommandPause) })
}
