package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// TestChosenTasksAreChangedAndAudited changes two tasks of three, one of which is named twice, and one that its state
// keeps.
func TestChosenTasksAreChangedAndAudited(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ops, q := admin.New(db.Client), db.Queue("mail")
	done, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 4))
	check.OK(t, err)
	if leased, err := q.Checkout(t.Context(), 1, time.Hour); err != nil || leased[0].ID != done[0].ID {
		t.Fatal(leased, err)
	}
	f := admin.Filter{Queue: "mail", States: []dbq.State{dbq.StateCreated}}
	changed, err := ops.OperateChosen(t.Context(), admin.Reject,
		[]uuid.UUID{done[2].ID, done[1].ID, done[2].ID, done[0].ID}, f, admin.By("ann"), admin.Reason("bad addresses"))
	if err != nil || changed != 2 {
		t.Errorf("%d tasks were changed, want 2: %v", changed, err)
	}
	db.WantTasks("mail", dbq.StateError, 2)
	db.WantTasks("mail", dbq.StateProcessing, 1)
	entries, err := ops.Audit(t.Context(), admin.AuditFilter{Action: "reject"})
	check.OK(t, err)
	if e := entries.Entries; len(e) != 1 || e[0].Changed != 2 || e[0].By != "ann" || e[0].Reason != "bad addresses" ||
		!strings.Contains(string(e[0].Filter), `"chosen":3`) {
		t.Errorf("the audit has %+v, want one entry about 2 of 3 chosen tasks", e)
	}
	if _, err := ops.OperateChosen(t.Context(), admin.Reject, nil, f); !errors.Is(err, dbq.ErrInvalid) {
		t.Errorf("no task: %v, want ErrInvalid", err)
	}
	if _, err := ops.OperateChosen(t.Context(), "complete", []uuid.UUID{done[3].ID}, f); !errors.Is(err, dbq.ErrEvent) {
		t.Errorf("an event of a worker: %v, want ErrEvent", err)
	}
	if _, err := ops.OperateChosen(t.Context(), admin.Reject, []uuid.UUID{done[3].ID}, f, admin.DryRun()); err == nil {
		t.Error("a dry run was accepted")
	}
}

// TestTasksSinceATime lists, counts and changes those that came into their state at a time or later.
func TestTasksSinceATime(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ops, q := admin.New(db.Client), db.Queue("mail")
	_, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 2))
	check.OK(t, err)
	db.Advance(time.Hour)
	late, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 3))
	check.OK(t, err)
	first, err := db.Get(t.Context(), late[0].ID)
	check.OK(t, err)
	for _, queue := range []string{"mail", ""} {
		f := admin.Filter{Queue: queue, EnteredSince: first.Updated, Limit: 10}
		page, err := ops.List(t.Context(), f)
		if err != nil || len(page.Tasks) != 3 {
			t.Errorf("queue %q: %d tasks are listed since %v, want 3: %v", queue, len(page.Tasks), first.Updated, err)
		}
		f.States = []dbq.State{dbq.StateCreated}
		if page, err = ops.List(t.Context(), f); err != nil || len(page.Tasks) != 3 {
			t.Errorf("queue %q: %d tasks in CREATED are listed, want 3: %v", queue, len(page.Tasks), err)
		}
		if n, _, err := ops.CountMovable(t.Context(), admin.Cancel, f); err != nil || n != 3 {
			t.Errorf("queue %q: %d tasks are counted, want 3: %v", queue, n, err)
		}
	}
	f := admin.Filter{Queue: "mail", EnteredSince: first.Updated.Add(time.Microsecond), Limit: 10}
	if page, err := ops.List(t.Context(), f); err != nil || len(page.Tasks) > 2 {
		t.Errorf("%d tasks are listed after the first, want fewer than 3: %v", len(page.Tasks), err)
	}
	f.EnteredSince = first.Updated
	if done, err := ops.OperateMany(t.Context(), admin.Cancel, f); err != nil || done.Changed != 3 {
		t.Errorf("%d tasks were cancelled, want 3: %v", done.Changed, err)
	}
	f.EnteredSince = time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := ops.List(t.Context(), f); !errors.Is(err, dbq.ErrFilter) {
		t.Errorf("a time in the year 20000: %v, want ErrFilter", err)
	}
}
