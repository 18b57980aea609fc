package cases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// auditCases are the promises about the record of operators' changes.
func auditCases() []Case {
	return inGroup("Audit",
		Case{Name: "OneEntryForEachChange", Once: true, run: auditVerbs,
			Law: "Each operator's call that changes something leaves one entry, with who it was, why, what and how many; a " +
				"refused call, a dry run and the work on tasks leave none."},
		Case{Name: "RecordedOrNotMade", Once: true, run: auditMissing,
			Law: "A change that cannot be recorded is not made."},
		Case{Name: "RolledBackWithTheChange", Once: true, run: auditRolledBack,
			Law: "An entry is part of the caller's transaction."},
		Case{Name: "OneEntryForManyTransactions", Once: true, run: auditMany,
			Law: "A call of many transactions is one entry, which counts all that it changed."},
		Case{Name: "ReadInOrder", Once: true, run: auditPages,
			Law: "The audit is read in pages, the newest or the oldest entries first, each entry once, by any filter."},
		Case{Name: "EntryAfterLostAnswer", Once: true, run: auditCut,
			Law: "If the connection is lost at any statement of an operator's call, a change that was made has one entry."},
	)
}

// auditVerb is an operator's call that changes something.
type auditVerb struct {
	action  string
	changed int64
	call    func() error
}

const auditSecret = "pl4nted-s3cret"

// auditVerbsOf returns a call of every kind. Each can be made after those before it.
func (t *test) auditVerbsOf(c *dbq.Client) []auditVerb {
	ops, q := admin.New(c), c.Queue("q")
	schedules, tokens := schedule.New(c), auth.NewTokens(c)
	task := t.enqueue(q, dbq.NewTask{Payload: []byte(auditSecret)})
	steps, err := workflow.Enqueue(t.ctx, c, stepsOf(c.Queue("w"), []string{"a"}, []string{"b", "a"}))
	t.must(err)
	_, err = access.Of(c).Control.Report(t.ctx, control.Worker{ID: "w1", Queue: "q"}, long)
	t.must(err)
	many := admin.Filter{Queue: "q", Limit: 10}
	by, why := admin.By("ann"), admin.Reason("b'cause")
	var token auth.Token
	verbs := []auditVerb{}
	add := func(action string, changed int64, call func() error) {
		verbs = append(verbs, auditVerb{action, changed, call})
	}
	add("reject", 1, func() error { return ops.Operate(t.ctx, admin.Reject, task, by, why) })
	add("quarantine", 1, func() error { return ops.Operate(t.ctx, admin.Quarantine, task, by, why) })
	add("restore", 1, func() error { return ops.Operate(t.ctx, admin.Restore, task, by, why) })
	add("reenqueue", 1, func() error { return ops.Operate(t.ctx, admin.Reenqueue, task, by, why) })
	add("cancel", 1, func() error { _, err := ops.OperateMany(t.ctx, admin.Cancel, many, by, why); return err })
	add("purge", 1, func() error { return ops.Operate(t.ctx, admin.Purge, task, by, why) })
	add("pause queue", 1, func() error { return ops.PauseQueue(t.ctx, "q", by, why) })
	add("resume queue", 1, func() error { return ops.ResumeQueue(t.ctx, "q", by, why) })
	add("configure queue", 1, func() error {
		return ops.ConfigureQueue(t.ctx, "q", func(s *admin.QueueSettings) { s.Batch = 7 }, by, why)
	})
	add("configure queue", 1, func() error {
		return ops.ConfigureQueue(t.ctx, "q", func(s *admin.QueueSettings) { s.Batch = 8 }, by, why)
	})
	limit := func(n int) func() error {
		return func() error {
			return ops.ConfigureLimits(t.ctx, "q", func(l *admin.QueueLimits) { l.Leased = n }, by, why)
		}
	}
	add("limit queue", 1, limit(5))
	add("limit queue", 1, limit(6))
	add("limit queue", 1, limit(0))
	add("stop worker", 1, func() error { return ops.CommandWorker(t.ctx, "w1", dbq.CommandStop, by, why) })
	ctx := admin.WithOrigin(t.ctx, admin.Origin{By: "ann"})
	add("put schedule", 1, func() error {
		return schedules.Put(ctx, schedule.Schedule{Name: "s", Queue: "q", Every: time.Hour,
			Task: dbq.NewTask{Payload: []byte(auditSecret), Headers: map[string]string{"k": auditSecret}}})
	})
	add("pause schedule", 1, func() error {
		return schedules.Pause(ctx, "s", schedule.By("ann"), schedule.Reason("b'cause"))
	})
	add("resume schedule", 1, func() error { return schedules.Resume(ctx, "s") })
	add("run schedule", 1, func() error { _, err := schedules.RunNow(ctx, "s"); return err })
	add("delete schedule", 1, func() error { return schedules.Delete(ctx, "s") })
	add("cancel", 2, func() error { _, err := workflow.Cancel(t.ctx, c, steps.ID, by, why); return err })
	add("reenqueue", 2, func() error { _, err := workflow.Retry(t.ctx, c, steps.ID, by, why); return err })
	add("create token", 1, func() (err error) {
		_, token, err = tokens.Create(ctx, auth.NewToken{Name: "t", Role: auth.Viewer})
		return err
	})
	add("revoke token", 1, func() error { return tokens.Revoke(ctx, token.ID) })
	add("clean queue", 1, func() error {
		id := t.enqueue(c.Queue("cleaned"), dbq.NewTask{})
		t.must(c.Queue("cleaned").Complete(t.ctx, t.take(c.Queue("cleaned"), long).Lease, nil))
		t.awaitAge(c, id, 2*time.Millisecond)
		_, err := ops.Clean(t.ctx, "cleaned", dbq.Retention{Completed: time.Millisecond}, by, why)
		return err
	})
	return verbs
}

func (t *test) audit(c *dbq.Client, f admin.AuditFilter) []admin.AuditEntry {
	entries, err := admin.New(c).Audit(t.ctx, f)
	t.must(err)
	return entries
}

func auditVerbs(t *test) {
	c := t.open()
	ops := admin.New(c)
	verbs := t.auditVerbsOf(c)
	if entries := t.audit(c, admin.AuditFilter{}); len(entries) != 0 {
		t.Errorf("enqueuing has left %+v", entries)
	}
	before := t.now(c)
	for i, v := range verbs {
		t.must(v.call())
		entries := t.audit(c, admin.AuditFilter{})
		if len(entries) != i+1 {
			t.Fatalf("after %s there are %d entries, want %d", v.action, len(entries), i+1)
		}
		e := entries[0]
		if e.Action != v.action || e.Changed != v.changed || e.By != "ann" || e.Program != "library" ||
			e.At.Before(before) || e.At.After(t.now(c)) {
			t.Errorf("%s of %d: got %+v", v.action, v.changed, e)
		}
		if e.Reason != "b'cause" && !strings.Contains(v.action, "schedule") && !strings.Contains(v.action, "token") {
			t.Errorf("%s has the reason %q", v.action, e.Reason)
		}
		if text := fmt.Sprintf("%s %s %s", e.Before, e.After, e.Filter); strings.Contains(text, auditSecret) ||
			strings.Contains(text, "payload\":\"") || strings.Contains(text, "hash") {
			t.Errorf("%s shows a secret: %s", v.action, text)
		}
	}
	for action, want := range map[string]string{
		"reject":      `{"state":"CREATED"} {"state":"ERROR"}`,
		"purge":       `{"state":"POISON"} `,
		"stop worker": " ", "resume queue": `{"reason":"b'cause","by":"ann"} `,
	} {
		e := t.audit(c, admin.AuditFilter{Action: action, By: "ann"})[0]
		if got := fmt.Sprintf("%s %s", e.Before, e.After); got != want {
			t.Errorf("%s went from and to %s, want %s", action, got, want)
		}
		if single := action == "reject" || action == "purge"; single != (e.Task != uuid.Nil) || single && e.Queue != "q" {
			t.Errorf("%s is of the task %s of queue %q", action, e.Task, e.Queue)
		}
	}
	limits := t.audit(c, admin.AuditFilter{Action: "limit queue"})
	if got := fmt.Sprintf("%s %s", limits[1].Before, limits[1].After); got != `{"leased":5} {"leased":6}` {
		t.Errorf("the limits went from and to %s", got)
	}

	n := len(t.audit(c, admin.AuditFilter{}))
	t.wantErr("a task that is gone", ops.Operate(t.ctx, admin.Reject, dbq.NewID()), dbq.ErrNotFound)
	_, err := ops.OperateMany(t.ctx, admin.Reject, admin.Filter{Limit: 10}, admin.DryRun())
	t.must(err)
	_, err = ops.OperateMany(t.ctx, admin.Restore, admin.Filter{Queue: "nothing", Limit: 10})
	t.must(err)
	t.must(ops.ResumeQueue(t.ctx, "nothing"))
	for _, queue := range []string{"nothing", "q"} {
		t.must(ops.ConfigureLimits(t.ctx, queue, func(*admin.QueueLimits) {}))
	}
	t.must(ops.ConfigureQueue(t.ctx, "q", func(*admin.QueueSettings) {}))
	t.must(c.Queue("q2").Complete(t.ctx, t.takeNew(c.Queue("q2"), dbq.NewTask{}, long).Lease, nil))
	if entries := t.audit(c, admin.AuditFilter{}); len(entries) != n {
		t.Errorf("calls that change nothing have left %+v", entries[:len(entries)-n])
	}
}

// auditMissing takes the audit's table away.
func auditMissing(t *test) {
	c := t.open()
	table := t.Prefix + "audit"
	rename := func(from, to string) {
		_, err := c.DB().ExecContext(t.ctx, "ALTER TABLE "+from+" RENAME TO "+to)
		t.must(err)
	}
	for i, v := range t.auditVerbsOf(c) {
		rename(table, table+"_away")
		err := v.call()
		rename(table+"_away", table)
		if err == nil {
			t.Errorf("%s was made without its entry", v.action)
		}
		// It changes what it would have, so it was not made before.
		t.must(v.call())
		if entries := t.audit(c, admin.AuditFilter{}); len(entries) != i+1 || entries[0].Changed < v.changed {
			t.Fatalf("after %s there are %d entries, want %d: %+v", v.action, len(entries), i+1, entries[0])
		}
	}
}

func auditRolledBack(t *test) {
	c, other := t.open(), t.open()
	ids := t.enqueueMany(c.Queue("q"), 2, nil)
	for i, commit := range []bool{false, true} {
		tx := t.beginTx(c)
		t.must(admin.New(c).OperateTx(t.ctx, tx, admin.Reject, ids[0]))
		t.must(admin.New(c).OperateTx(t.ctx, tx, admin.Purge, ids[0]))
		if commit {
			t.must(tx.Commit())
		} else {
			t.must(tx.Rollback())
		}
		if entries := t.audit(other, admin.AuditFilter{Task: ids[0]}); len(entries) != 2*i {
			t.Errorf("committed: %t: there are %d entries", commit, len(entries))
		}
	}
}

func auditMany(t *test) {
	c := t.open()
	ops := admin.New(c)
	n := min(2*access.Of(c).Store.OperateLimit(admin.Cancel)+1, 3000)
	t.enqueueMany(c.Queue("q"), n, nil)
	done, err := ops.OperateMany(t.ctx, admin.Cancel, admin.Filter{Queue: "q", Limit: dbq.MaxBulk}, admin.Reason("why"))
	t.must(err)
	since := t.now(c)
	t.eventually("all tasks are old enough", func() bool { return t.now(c).Sub(since) > 10*time.Millisecond })
	_, err = ops.Clean(t.ctx, "q", dbq.Retention{Poison: time.Millisecond, Attempts: time.Millisecond})
	t.must(err)
	entries := t.audit(c, admin.AuditFilter{Queue: "q", OldestFirst: true})
	if done.Changed != n || len(entries) != 2 || entries[0].Changed != int64(n) || entries[1].Changed < int64(n) {
		t.Errorf("%d of %d tasks were changed: got %+v", done.Changed, n, entries)
	}
	if e := entries[0]; string(e.Filter) != fmt.Sprintf(`{"queue":"q","limit":%d}`, dbq.MaxBulk) || e.Reason != "why" {
		t.Errorf("got %+v", e)
	}
}

func auditPages(t *test) {
	c := t.open()
	ops := admin.New(c)
	var ids []uuid.UUID
	for i := range 7 {
		ctx := admin.WithOrigin(t.ctx, admin.Origin{By: fmt.Sprintf("änn'%d", i%2), Program: "test", Address: "10.0.0.1",
			Request: fmt.Sprint(i)})
		t.must(ops.PauseQueue(ctx, fmt.Sprintf("q%d", i%3)))
	}
	for f := (admin.AuditFilter{Limit: 3}); ; {
		page := t.audit(c, f)
		for _, e := range page {
			if e.Request != fmt.Sprint(6-len(ids)) || e.Address != "10.0.0.1" || e.Program != "test" {
				t.Errorf("entry %d is %+v", len(ids), e)
			}
			ids = append(ids, e.ID)
		}
		if len(page) < f.Limit {
			break
		}
		f.Before = ids[len(ids)-1]
	}
	slices.Reverse(ids)
	all := t.audit(c, admin.AuditFilter{OldestFirst: true, After: ids[2]})
	if len(ids) != 7 || len(all) != 4 || all[0].ID != ids[3] {
		t.Errorf("read %d entries, and %d after the third", len(ids), len(all))
	}
	for want, f := range map[int]admin.AuditFilter{
		4: {By: "änn'0"}, 3: {Queue: "q0"}, 7: {Action: "pause queue", Since: all[0].At.Add(-time.Hour)},
		0: {Until: all[0].At.Add(-time.Hour)},
	} {
		if got := t.audit(c, f); len(got) != want {
			t.Errorf("%+v selects %d, want %d", f, len(got), want)
		}
	}
	none, err := ops.CleanAudit(t.ctx, time.Hour)
	t.must(err)
	newest := t.audit(c, admin.AuditFilter{})[0].At
	t.eventually("the entries are old enough", func() bool { return t.now(c).Sub(newest) > 5*time.Millisecond })
	removed, err := ops.CleanAudit(t.ctx, 5*time.Millisecond, admin.By("ann"))
	t.must(err)
	if left := t.audit(c, admin.AuditFilter{}); none != 0 || removed != 7 || len(left) != 1 ||
		left[0].Action != "clean audit" || left[0].Changed != 7 {
		t.Errorf("%d and %d were removed, and %+v is left", none, removed, left)
	}
	t.wantErr("a limit", func() error { _, err := ops.Audit(t.ctx, admin.AuditFilter{Limit: -1}); return err }(),
		dbq.ErrInvalid)
}

// auditCut cuts each request of some operators' calls in turn. The client connects again.
func auditCut(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.oneConnection(dsn)
	ops := admin.New(c)
	for _, call := range []struct {
		action string
		call   func(queue string, id uuid.UUID) error
	}{
		{"reject", func(_ string, id uuid.UUID) error { return ops.Operate(t.ctx, admin.Reject, id) }},
		{"limit queue", func(queue string, _ uuid.UUID) error {
			return ops.ConfigureLimits(t.ctx, queue, func(l *admin.QueueLimits) { l.Leased = 5 })
		}},
		{"pause queue", func(queue string, _ uuid.UUID) error { return ops.PauseQueue(t.ctx, queue) }},
	} {
		for _, answer := range []bool{false, true} {
			for k := 1; k <= maxRequests; k++ {
				queue := fmt.Sprintf("%s %v %d", call.action, answer, k)
				id := t.enqueue(direct.Queue(queue), dbq.NewTask{})
				p.Set(proxy.Rule{AtRequest: k, LoseAnswer: answer})
				err := call.call(queue, id)
				fired := p.Heal()
				if err != nil && !errors.Is(err, dbq.ErrMayHaveHappened) && !errors.Is(err, dbq.ErrUnavailable) {
					t.Errorf("%s: %v", queue, err)
				}
				if entries := t.audit(direct, admin.AuditFilter{Queue: queue}); err == nil && len(entries) != 1 {
					t.Errorf("after %s there are %d entries", queue, len(entries))
				}
				if !fired {
					break
				}
			}
		}
	}
}
