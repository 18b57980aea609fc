package cases

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/google/uuid"
)

// auditCases are the promises about the record of operators' changes.
func auditCases() []Case {
	return inGroup("Audit",
		Case{Name: "RolledBackWithTheChange", Once: true, run: auditRolledBack,
			Law: "An entry is part of the caller's transaction."},
		Case{Name: "ReadInOrder", Once: true, run: auditPages,
			Law: "The audit is read in pages, the newest or the oldest entries first, each entry once, by any filter."},
		Case{Name: "EntryAfterLostAnswer", Once: true, run: auditCut,
			Law: "If the connection is lost at any statement of an operator's call, a change that was made has one entry."},
	)
}

func (t *test) audit(c *dbq.Client, f admin.AuditFilter) []admin.AuditEntry {
	return must(admin.New(c).Audit(t.ctx, f)).Entries
}

func auditRolledBack(t *test) {
	c, other := t.open(), t.open()
	ids := t.enqueueMany(c.Queue("q"), 2, nil)
	for i, commit := range []bool{false, true} {
		tx := t.beginTx(c)
		t.must(admin.New(c).OperateTx(t.ctx, tx, admin.Reject, ids[0]))
		t.must(admin.New(c).OperateTx(t.ctx, tx, admin.Purge, ids[0]))
		t.end(tx, commit)
		if entries := t.audit(other, admin.AuditFilter{TaskID: ids[0]}); len(entries) != 2*i {
			t.Errorf("committed: %t: there are %d entries", commit, len(entries))
		}
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
			t.failIf(e.Request != fmt.Sprint(6-len(ids)) || e.Address != "10.0.0.1" || e.Program != "test",
				"entry %d is %+v", len(ids), e)
			ids = append(ids, e.ID)
		}
		if len(page) < f.Limit {
			break
		}
		f.Before = ids[len(ids)-1]
	}
	slices.Reverse(ids)
	all := t.audit(c, admin.AuditFilter{OldestFirst: true, After: ids[2]})
	t.failIf(len(ids) != 7 || len(all) != 4 || all[0].ID != ids[3],
		"read %d entries, and %d after the third", len(ids), len(all))
	for want, f := range map[int]admin.AuditFilter{
		4: {By: "änn'0"}, 3: {Queue: "q0"}, 7: {Action: "pause queue", Since: all[0].At.Add(-time.Hour)},
		0: {Until: all[0].At.Add(-time.Hour)},
	} {
		if got := t.audit(c, f); len(got) != want {
			t.Errorf("%+v selects %d, want %d", f, len(got), want)
		}
	}
	none := must(ops.CleanAudit(t.ctx, time.Hour))
	newest := t.audit(c, admin.AuditFilter{})[0].At
	t.eventually("the entries are old enough", func() bool { return t.now(c).Sub(newest) > 5*time.Millisecond })
	removed := must(ops.CleanAudit(t.ctx, 5*time.Millisecond, admin.By("ann")))
	if left := t.audit(c, admin.AuditFilter{}); none != 0 || removed != 7 || len(left) != 1 ||
		left[0].Action != "clean audit" || left[0].Changed != 7 {
		t.Errorf("%d and %d were removed, and %+v is left", none, removed, left)
	}
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
			return ops.ConfigureLimits(t.ctx, queue, func(l *admin.QueueLimits) { l.Concurrency = 5 })
		}},
		{"pause queue", func(queue string, _ uuid.UUID) error { return ops.PauseQueue(t.ctx, queue) }},
	} {
		t.eachRequestAndAnswer(call.action, proxy.Rule{}, func(r proxy.Rule) bool {
			q := ownQueue(direct)
			id := t.enqueue(q, dbq.NewTask{})
			p.Set(r)
			err := call.call(q.Name(), id)
			fired := p.Heal()
			t.failIf(err != nil && !errors.Is(err, dbq.ErrMayHaveHappened) && !errors.Is(err, dbq.ErrUnavailable),
				"%s, cut at %v: %v", call.action, r, err)
			if entries := t.audit(direct, admin.AuditFilter{Queue: q.Name()}); err == nil && len(entries) != 1 {
				t.Errorf("after %s, cut at %v, there are %d entries", call.action, r, len(entries))
			}
			return fired
		})
	}
}
