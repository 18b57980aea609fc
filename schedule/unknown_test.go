package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// putUnknown stores a schedule that is due, of a zone that is unknown here.
func putUnknown(t *testing.T, s *Schedules, name string) {
	t.Helper()
	v := valueOf(Schedule{Cron: "@hourly", Zone: "Mars/Olympus", Queue: "q"})
	v.Start, v.Next = time.Now(), time.Now()
	text, _, _ := v.encode(time.Now())
	check.OK(t, s.store.PutKV(t.Context(), namespace, name, text, time.Second))
}

// TestUnknownZoneIsAnErrorAndChangesNothing: another process may know the zone of a schedule; this one reports that it
// cannot fire it, and leaves its record alone.
func TestUnknownZoneIsAnErrorAndChangesNothing(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	putUnknown(t, s, "unknown")
	db.Advance(2 * time.Hour)
	before, _, err := s.store.GetKV(ctx, namespace, "unknown")
	check.OK(t, err)
	err = s.Fire(ctx)
	after, _, _ := s.store.GetKV(ctx, namespace, "unknown")
	if err == nil || after.Version != before.Version {
		t.Errorf("error %v, version %d, before %d, value %s", err, after.Version, before.Version, after.Value)
	}
}

// TestScheduleOfANewerVersionIsLeftAlone: a schedule with a kind of times that this version does not know, here rrule,
// is not stored without it.
func TestScheduleOfANewerVersionIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	const newer = `{"rrule":"DAILY","queue":"q","task":{},"start":"2026-01-01T00:00:00Z","next":"2026-01-02T00:00:00Z"}`
	check.OK(t, s.store.PutKV(ctx, namespace, "newer", newer, time.Second))
	db.Advance(2 * time.Second)
	err := s.Fire(ctx)
	r, _, _ := s.store.GetKV(ctx, namespace, "newer")
	if err == nil || r.Value != newer {
		t.Errorf("error %v; the record is now %s", err, r.Value)
	}
}

// TestManyUnknownSchedulesAreNoHotLoop: after an error of a thousand schedules, Run pauses.
func TestManyUnknownSchedulesAreNoHotLoop(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := New(db.Client)
	for i := range oneRound {
		putUnknown(t, s, fmt.Sprint("unknown", i))
	}
	db.Advance(time.Hour)
	for range 3 {
		if pause, err := s.fireDue(t.Context()); err == nil || pause <= busyPause {
			t.Errorf("pause %v, error %v", pause, err)
		}
	}
}
