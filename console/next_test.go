package console

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/schedule"
)

// TestNextTimesOfAnIntervalBeginWithItsNext shows an interval that is in use, and one that never fires again.
func TestNextTimesOfAnIntervalBeginWithItsNext(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := schedule.Info{
		Schedule: schedule.Schedule{Name: "s", Queue: "q", Every: 24 * time.Hour}, Next: now.Add(time.Minute),
	}
	times, err := nextTimes(s, now)
	if err != nil || len(times) != 10 {
		t.Fatalf("%v, %v", times, err)
	}
	for i, at := range times {
		if want := s.Next.Add(time.Duration(i) * s.Every); !at.Equal(want) {
			t.Errorf("time %d is %v, want %v", i+1, at, want)
		}
	}
}
