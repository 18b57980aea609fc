package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

const planted = "pl4nted-s3cret"

// An audited call changes something, and leaves one entry.
type audited struct {
	action  string
	changed int64
	call    func() error
}

// auditedCalls are calls of every kind, whose operator and reason come from options or the context. Each can be made
// after those before it.
func auditedCalls(t *testing.T, db *dbqtest.DB) []audited {
	ctx, ops := admin.WithOrigin(t.Context(), admin.Origin{By: "bob", Reason: "another"}), admin.New(db.Client)
	schedules, tokens := schedule.New(db.Client), auth.NewTokens(db.Client)
	task, err := db.Queue("q").Enqueue(ctx, dbq.NewTask{Payload: []byte(planted)})
	check.OK(t, err)
	steps, err := workflow.Enqueue(ctx, db.Client, []workflow.Step{{Name: "a", Queue: "w"},
		{Name: "b", Queue: "w", Needs: []string{"a"}}})
	check.OK(t, err)
	if _, err := access.Of(db.Client).Control.Report(ctx, control.Worker{ID: "w1", Queue: "q"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	by, why := admin.By("ann"), admin.Reason("b'cause")
	operate := func(e state.Event) func() error { return func() error { return ops.Operate(ctx, e, task, by, why) } }
	set := func(n int) func() error {
		return func() error {
			return ops.ConfigureQueue(ctx, "q", func(s *admin.QueueSettings) { s.MaxCheckout = n }, by, why)
		}
	}
	limit := func(n int) func() error {
		return func() error {
			return ops.ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { l.Concurrency = n }, by, why)
		}
	}
	ann := admin.WithOrigin(ctx, admin.Origin{By: "ann", Reason: "b'cause"})
	daily := schedule.Schedule{Name: "s", Queue: "q", Every: 24 * time.Hour,
		Task: dbq.NewTask{Payload: []byte(planted), Headers: map[string]string{"k": planted}}}
	var token auth.Token
	return []audited{
		{"reject", 1, operate(admin.Reject)},
		{"quarantine", 1, operate(admin.Quarantine)},
		{"restore", 1, operate(admin.Restore)},
		{"reenqueue", 1, operate(admin.Reenqueue)},
		{"cancel", 1, func() error {
			return second(ops.OperateMany(ctx, admin.Cancel, admin.Filter{Queue: "q", Limit: 10}, by, why))
		}},
		{"purge", 1, operate(admin.Purge)},
		{"pause queue", 1, func() error { return ops.PauseQueue(ctx, "q", by, why) }},
		{"resume queue", 1, func() error { return ops.ResumeQueue(ctx, "q", by, why) }},
		{"configure queue", 1, set(7)}, {"configure queue", 1, set(8)},
		{"limit queue", 1, limit(5)}, {"limit queue", 1, limit(6)}, {"limit queue", 1, limit(0)},
		{"stop worker", 1, func() error { return ops.CommandWorker(ctx, "w1", dbq.CommandStop, by, why) }},
		{"put schedule", 1, func() error { return schedules.Put(ann, daily) }},
		{"pause schedule", 1, func() error {
			return schedules.Pause(ann, "s", schedule.By("ann"), schedule.Reason("b'cause"))
		}},
		{"resume schedule", 1, func() error { return schedules.Resume(ann, "s") }},
		{"run schedule", 1, func() error { return second(schedules.RunNow(ann, "s")) }},
		{"delete schedule", 1, func() error { return schedules.Delete(ann, "s") }},
		{"cancel", 2, func() error { return second(workflow.Cancel(ctx, db.Client, steps.ID, by, why)) }},
		{"reenqueue", 2, func() error { return second(workflow.Retry(ctx, db.Client, steps.ID, by, why)) }},
		{"create token", 1, func() (err error) {
			_, token, err = tokens.Create(ann, auth.NewToken{Name: "t", Role: auth.Viewer})
			return err
		}},
		{"revoke token", 1, func() error { return tokens.Revoke(ann, token.ID) }},
		{"clean queue", 1, func() error {
			if _, err := db.Queue("cleaned").Enqueue(ctx, dbq.NewTask{}); err != nil {
				return err
			}
			tasks, err := db.Queue("cleaned").Checkout(ctx, 1, time.Minute)
			if err == nil {
				err = db.Queue("cleaned").Complete(ctx, tasks[0].Lease, nil)
			}
			db.Advance(time.Hour)
			if err == nil {
				_, err = ops.Clean(ctx, "cleaned", dbq.Retention{Completed: time.Minute}, by, why)
			}
			return err
		}},
	}
}

func entries(t *testing.T, db *dbqtest.DB, f admin.AuditFilter) []admin.AuditEntry {
	t.Helper()
	got, err := admin.New(db.Client).Audit(t.Context(), f)
	check.OK(t, err)
	return got.Entries
}

// Each operator's call that changes something leaves one entry, with who it was, why, what and how many, and without a
// secret. A refused call, a dry run and the work on tasks leave none.
func TestEachChangeHasOneEntry(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ops, n := admin.New(db.Client), 0
	for _, c := range auditedCalls(t, db) {
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.action, err)
		}
		got := entries(t, db, admin.AuditFilter{})
		if n++; len(got) != n {
			t.Fatalf("after %s there are %d entries, want %d", c.action, len(got), n)
		}
		e := got[0]
		if e.Action != c.action || e.Changed != c.changed || e.By != "ann" || e.Program != "library" || e.At.IsZero() {
			t.Errorf("%s of %d: got %+v", c.action, c.changed, e)
		}
		if e.Reason != "b'cause" {
			t.Errorf("%s has the reason %q", c.action, e.Reason)
		}
		if text := fmt.Sprintf("%s %s %s", e.Before, e.After, e.Filter); strings.Contains(text, planted) ||
			strings.Contains(text, "payload\":\"") || strings.Contains(text, "hash") {
			t.Errorf("%s shows a secret: %s", c.action, text)
		}
	}
	for action, want := range map[string]string{
		"reject": `{"state":"CREATED"} {"state":"ERROR"}`, "purge": `{"state":"POISON"} `, "stop worker": " ",
		"resume queue": `{"reason":"b'cause","by":"ann"} `, "limit queue": `{"concurrency":6} `,
	} {
		e := entries(t, db, admin.AuditFilter{Action: action, By: "ann"})[0]
		if got := fmt.Sprintf("%s %s", e.Before, e.After); got != want {
			t.Errorf("%s went from and to %s, want %s", action, got, want)
		}
		if one := action == "reject" || action == "purge"; one != (e.TaskID != uuid.Nil) || one && e.Queue != "q" {
			t.Errorf("%s is of the task %s of queue %q", action, e.TaskID, e.Queue)
		}
	}
	before, ctx := len(entries(t, db, admin.AuditFilter{})), t.Context()
	for call, err := range map[string]error{
		"refused":    ops.Operate(ctx, admin.Reject, dbq.NewID()),
		"dry run":    second(ops.OperateMany(ctx, admin.Reject, admin.Filter{Limit: 10}, admin.DryRun())),
		"no task":    second(ops.OperateMany(ctx, admin.Restore, admin.Filter{Queue: "none", Limit: 10})),
		"not paused": ops.ResumeQueue(ctx, "none"),
		"limits":     ops.ConfigureLimits(ctx, "q", func(*admin.QueueLimits) {}),
		"settings":   ops.ConfigureQueue(ctx, "q", func(*admin.QueueSettings) {}),
	} {
		if (err != nil) != (call == "refused") {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got := entries(t, db, admin.AuditFilter{}); len(got) != before {
		t.Errorf("calls that change nothing have left %+v", got[:len(got)-before])
	}
}

// A change that cannot be recorded is not made: made again, it changes what it would have.
func TestChangeThatCannotBeRecordedIsNotMade(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	rename := func(from, to string) {
		if _, err := db.DB().ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range auditedCalls(t, db) {
		rename("dbq_audit", "dbq_away")
		err := c.call()
		rename("dbq_away", "dbq_audit")
		if err == nil {
			t.Errorf("%s was made without its entry", c.action)
		}
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.action, err)
		}
		if e := entries(t, db, admin.AuditFilter{})[0]; e.Action != c.action || e.Changed < c.changed {
			t.Errorf("%s: got %+v", c.action, e)
		}
	}
}

// A call of many transactions is one entry, which counts all that it changed.
func TestCallOfManyTransactionsHasOneEntry(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	n := 2*access.Of(db.Client).Store.OperateLimit(admin.Cancel) + 1
	if _, err := db.Queue("q").EnqueueMany(t.Context(), make([]dbq.NewTask, n)); err != nil {
		t.Fatal(err)
	}
	f := admin.Filter{Queue: "q", Limit: dbq.MaxBulk}
	done, err := admin.New(db.Client).OperateMany(t.Context(), admin.Cancel, f, admin.Reason("why"))
	got := entries(t, db, admin.AuditFilter{})
	if err != nil || done.Changed != n || len(got) != 1 || got[0].Changed != int64(n) || got[0].Reason != "why" ||
		string(got[0].Filter) != fmt.Sprintf(`{"queue":"q","limit":%d}`, dbq.MaxBulk) {
		t.Errorf("%d of %d tasks were changed, %v: got %+v", done.Changed, n, err, got)
	}
}
