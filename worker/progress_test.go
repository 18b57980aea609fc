package worker

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// What a handler reports while a renewal is under way is stored by the next one, and what is stored is not sent again.
func TestProgressIsSentUntilItIsStored(t *testing.T) {
	t.Parallel()
	s := newLeases(&env{})
	defer s.close()
	lease := dbq.Lease{TaskID: uuid.New(), Fence: 1, Until: time.Now().Add(time.Hour)}
	l := &s.add([]dbq.Task{{ID: lease.TaskID, Lease: lease}})[0]
	f, _ := s.begin(t.Context(), 0, []*leased{l}, 0)
	sent := func() (progress string) {
		ls, _ := s.toRenew(time.Hour)
		for _, l := range ls {
			progress += string(l.Progress)
		}
		return progress
	}
	report := func(ctx context.Context, progress string) {
		buffer := []byte(progress)
		check.OK(t, SetProgress(ctx, buffer))
		clear(buffer) // a handler may use it again
	}
	if got := sent(); got != "" {
		t.Errorf("%q is sent before a report", got)
	}
	report(f.ctx, "one")
	ls, byKey := s.toRenew(time.Hour)
	if len(ls) != 1 || string(ls[0].Progress) != "one" {
		t.Fatalf("%+v is sent, want the report", ls)
	}
	report(f.ctx, "two")
	s.renewed(byKey[key(ls[0])], ls[0])
	if got := sent(); got != "two" {
		t.Errorf("%q is sent after a report during the renewal, want it", got)
	}
	if got := sent(); got != "two" {
		t.Errorf("%q is sent after a renewal that failed, want the report again", got)
	}
	ls, byKey = s.toRenew(time.Hour)
	s.renewed(l, ls[0])
	if got := sent(); got != "" {
		t.Errorf("%q is sent again", got)
	}
	s.unanswered(ls, byKey)
	if ls, _ = s.selected(func(*leased) bool { return true }); string(ls[0].Progress) != "two" {
		t.Errorf("%q is sent after a renewal that the database may execute later, want the last report each time",
			ls[0].Progress)
	}
	if got := string(Progress(f.ctx)); got != "two" {
		t.Errorf("the progress is %q, want the last report", got)
	}
}
