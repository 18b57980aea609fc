package schedule_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// TestChangesKeepTheirReason checks that the audit has the reason, the operator, and the queue of each change.
func TestChangesKeepTheirReason(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), dbqtest.New(t).Client
	s := schedule.New(c)
	changes := map[string]func(...schedule.Option) error{
		"pause schedule":  func(o ...schedule.Option) error { return s.Pause(ctx, "s", o...) },
		"resume schedule": func(o ...schedule.Option) error { return s.Resume(ctx, "s", o...) },
		"run schedule":    func(o ...schedule.Option) error { _, err := s.RunNow(ctx, "s", o...); return err },
		"delete schedule": func(o ...schedule.Option) error { return s.Delete(ctx, "s", o...) },
	}
	check.OK(t, s.Put(ctx, schedule.Schedule{Name: "s", Queue: "old", Cron: "@daily"}))
	if err := s.Put(ctx, schedule.Schedule{Name: "s", Queue: "mail", Cron: "@daily"}); err != nil { // it moves
		t.Fatal(err)
	}
	for _, change := range changes {
		for _, o := range []schedule.Option{
			schedule.Reason(strings.Repeat("r", schedule.MaxReason+1)), schedule.By(""),
		} {
			if err := change(o); !errors.Is(err, dbq.ErrOption) {
				t.Errorf("an invalid option: %v", err)
			}
		}
	}
	for _, action := range []string{"pause schedule", "resume schedule", "run schedule", "delete schedule"} {
		check.OK(t, changes[action](schedule.By("ann"), schedule.Reason("why "+action)))
		audit, err := admin.New(c).Audit(ctx, admin.AuditFilter{Queue: "mail", Action: action})
		check.OK(t, err)
		if e := audit.Entries; len(e) != 1 || e[0].Reason != "why "+action || e[0].By != "ann" || e[0].Subject != "s" {
			t.Errorf("%s: the audit of the queue has %+v", action, audit.Entries)
		}
	}
}
