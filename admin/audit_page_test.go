package admin_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/google/uuid"
)

// TestPagesOfTheAuditHaveEachMatchOnce compares the pages of AuditPage with Audit, in both orders, where few entries
// match and one page does not look at all of them.
func TestPagesOfTheAuditHaveEachMatchOnce(t *testing.T) {
	t.Parallel()
	c := dbqtest.New(t).Client
	ops := admin.New(c)
	for i := range 2600 {
		queue := "mail"
		if i%1200 == 7 {
			queue = "rare"
		}
		limit := func(l *admin.QueueLimits) { l.Leased = i + 1 }
		if err := ops.ConfigureLimits(t.Context(), queue, limit, admin.By(fmt.Sprint("op", i%3))); err != nil {
			t.Fatal(err)
		}
	}
	task, err := c.Queue("mail").Enqueue(t.Context(), dbq.NewTask{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ops.Operate(t.Context(), admin.Cancel, task); err != nil {
		t.Fatal(err)
	}
	stops := 0
	for name, f := range map[string]admin.AuditFilter{
		"all": {Limit: 1000}, "rare": {Queue: "rare", Limit: 50}, "operator": {By: "op1", Limit: 70},
		"none": {Action: "none", Limit: 50}, "task": {Task: task, Limit: 50},
	} {
		for _, f.OldestFirst = range []bool{false, true} {
			var want, got []uuid.UUID
			every := f
			every.Limit = dbq.MaxCheckout
			for {
				entries, err := ops.Audit(t.Context(), every)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					want, every.After, every.Before = append(want, e.ID), e.ID, e.ID
				}
				if len(entries) < every.Limit {
					break
				}
				if every.OldestFirst {
					every.Before = uuid.Nil
				} else {
					every.After = uuid.Nil
				}
			}
			for pages := 0; ; pages++ {
				page, err := ops.AuditPage(t.Context(), f)
				if err != nil || len(page.Entries) > f.Limit || pages > 100 {
					t.Fatalf("%s: page %d has %d entries: %v", name, pages, len(page.Entries), err)
				}
				for _, e := range page.Entries {
					got = append(got, e.ID)
				}
				if !page.More {
					break
				}
				if page.Stopped {
					stops++
				}
				if f.OldestFirst {
					f.After = page.Next
				} else {
					f.Before = page.Next
				}
			}
			f.After, f.Before = uuid.Nil, uuid.Nil
			if !slices.Equal(got, want) {
				t.Errorf("%s, oldest first %v: the pages have %d entries, want the %d of Audit", name, f.OldestFirst,
					len(got), len(want))
			}
		}
	}
	if stops == 0 {
		t.Error("no page stopped because it had looked at enough entries")
	}
}
