package engines

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// TestRoleOfSchedules holds SECURITY.md against the engines: a producer that puts, reconciles and fires schedules needs
// each grant that it has for them, and more if they must not overlap.
func TestRoleOfSchedules(t *testing.T) {
	t.Parallel()
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "producer")
			ctx := t.Context()
			logged := make(errorLog, 100)
			c, err := u.open(dbq.WithLogger(slog.New(logged)))
			check.OK(t, err)
			grants := grantsOf(t, "scheduler", u.admin.Info().Dialect)
			for _, missing := range grants {
				for _, grant := range grants {
					if grant != missing {
						u.grant(grant)
					}
				}
				if err := editSchedules(ctx, c); !errors.Is(err, dbq.ErrDenied) {
					t.Errorf("without %s: got %v, want ErrDenied", missing, err)
				}
				for _, grant := range grants {
					if grant != missing {
						u.revoke(grant)
					}
				}
			}
			for _, grant := range grants {
				u.grant(grant)
			}
			check.OK(t, editSchedules(ctx, c))
			each := schedule.Schedule{Name: "each", Queue: "each", Every: time.Second}
			fired := func(i schedule.Info) bool { return !i.Last.IsZero() }
			if err := logged.run(ctx, c, each, fired); err != nil {
				t.Error(err)
			}
			each.NoOverlap = true
			skipped := func(i schedule.Info) bool { return i.Problem != "" }
			if err := logged.run(ctx, c, each, skipped); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("NoOverlap without the right to read its task: got %v, want ErrDenied", err)
			}
			u.grant("GRANT SELECT ON dbq_task")
			u.grant("GRANT SELECT ON dbq_lease")
			if err := logged.run(ctx, c, each, skipped); err != nil {
				t.Error(err)
			}
			if _, err := c.Queue("each").Checkout(ctx, 1, time.Minute); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("a checkout by the scheduler: got %v, want ErrDenied", err)
			}
		})
	}
}

// editSchedules makes every change that a program makes to its schedules.
func editSchedules(ctx context.Context, c *dbq.Client) error {
	s := schedule.New(c)
	daily := schedule.Schedule{Name: "daily", Queue: "q", Cron: "0 3 * * *"}
	return steps(
		func() error { return s.Put(ctx, daily) },
		func() error { daily.Cron = "0 4 * * *"; return s.Put(ctx, daily) },
		func() error { return s.Pause(ctx, "daily") },
		func() error { return s.Resume(ctx, "daily") },
		func() error { _, err := s.RunNow(ctx, "daily"); return err },
		func() error { _, err := s.List(ctx); return err },
		func() error { return s.Delete(ctx, "daily") },
		func() error { return s.Reconcile(ctx, "shop", daily) },
		func() error { daily.Cron = "0 5 * * *"; return s.Reconcile(ctx, "shop", daily) },
		func() error { return s.Reconcile(ctx, "shop") })
}

// errorLog is a log that receives the errors in its lines, except in lines for debugging: a notification that could not
// be sent, for example because the client was just told to end, is no failure.
type errorLog chan error

func (errorLog) Enabled(_ context.Context, level slog.Level) bool { return level > slog.LevelDebug }

func (l errorLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l errorLog) WithGroup(string) slog.Handler      { return l }

func (l errorLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			l <- err
		}
		return true
	})
	return nil
}

// run puts a schedule and fires until done is true of it, or until it logs an error.
func (l errorLog) run(ctx context.Context, c *dbq.Client, d schedule.Schedule, done func(schedule.Info) bool) error {
	s := schedule.New(c)
	if err := s.Put(ctx, d); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for {
		select {
		case err := <-l:
			return err
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if i, err := s.Get(ctx, d.Name); err != nil || done(i) {
			return err
		}
	}
}
