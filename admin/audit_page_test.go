package admin_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// TestPagesOfTheAuditHaveEachMatchOnce compares the pages of a filter with the entries of the whole audit that match,
// in both orders, where few entries match and one page does not look at all of them.
func TestPagesOfTheAuditHaveEachMatchOnce(t *testing.T) {
	t.Parallel()
	c := dbqtest.New(t).Client
	ops := admin.New(c)
	for i := range 2600 {
		queue := "mail"
		if i%1200 == 7 {
			queue = "rare"
		}
		limit := func(l *admin.QueueLimits) { l.Concurrency = i + 1 }
		check.OK(t, ops.ConfigureLimits(t.Context(), queue, limit, admin.By(fmt.Sprint("op", i%3))))
	}
	task, err := c.Queue("mail").Enqueue(t.Context(), dbq.NewTask{})
	check.OK(t, err)
	check.OK(t, ops.Operate(t.Context(), admin.Cancel, task))
	stops := 0
	// pages reads all pages of a filter.
	pages := func(name string, f admin.AuditFilter) (all []admin.AuditEntry) {
		for n := 0; ; n++ {
			page, err := ops.Audit(t.Context(), f)
			if err != nil || len(page.Entries) > f.Limit || n > 100 {
				t.Fatalf("%s: page %d has %d entries: %v", name, n, len(page.Entries), err)
			}
			if all = append(all, page.Entries...); !page.More {
				return all
			}
			if page.Stopped {
				stops++
			}
			f = f.From(page.Next)
		}
	}
	all := pages("all", admin.AuditFilter{Limit: 1000})
	if len(all) != 2601 || stops > 0 {
		t.Fatalf("the audit has %d entries, want 2601", len(all))
	}
	for name, tt := range map[string]struct {
		f       admin.AuditFilter
		matches func(e admin.AuditEntry) bool
	}{
		"all":      {admin.AuditFilter{Limit: 70}, func(admin.AuditEntry) bool { return true }},
		"rare":     {admin.AuditFilter{Queue: "rare", Limit: 50}, func(e admin.AuditEntry) bool { return e.Queue == "rare" }},
		"operator": {admin.AuditFilter{By: "op1", Limit: 70}, func(e admin.AuditEntry) bool { return e.By == "op1" }},
		"none":     {admin.AuditFilter{Action: "none", Limit: 50}, func(admin.AuditEntry) bool { return false }},
		"task":     {admin.AuditFilter{TaskID: task, Limit: 50}, func(e admin.AuditEntry) bool { return e.TaskID == task }},
	} {
		for _, tt.f.OldestFirst = range []bool{false, true} {
			var want []uuid.UUID
			for _, e := range all {
				if tt.matches(e) {
					want = append(want, e.ID)
				}
			}
			if tt.f.OldestFirst {
				slices.Reverse(want)
			}
			got := pages(name, tt.f)
			if !slices.EqualFunc(got, want, func(e admin.AuditEntry, id uuid.UUID) bool { return e.ID == id }) {
				t.Errorf("%s, oldest first %v: the pages have %d entries, want %d", name, tt.f.OldestFirst, len(got), len(want))
			}
		}
	}
	if stops == 0 {
		t.Error("no page stopped because it had looked at enough entries")
	}
}
