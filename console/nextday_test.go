package console

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/schedule"
)

// The drawing of the next day has a lane for each schedule that fires in it, the next one first, and tells times apart
// as long as it can.
func TestNextDayDrawsWhatFires(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 21, 30, 0, 0, time.UTC)
	in := func(name string, next time.Duration, s schedule.Schedule) schedule.Info {
		s.Name, s.Queue = name, "mail"
		return schedule.Info{Schedule: s, Next: now.Add(next)}
	}
	paused := in("paused", time.Hour, schedule.Schedule{Every: time.Hour})
	paused.Paused = true
	day := nextDayOf([]schedule.Info{
		in("once", 12*time.Hour, schedule.Schedule{At: now.Add(12 * time.Hour)}),
		in("monthly", 40*time.Hour, schedule.Schedule{Cron: "0 6 1 * *"}),
		in("minutes", time.Minute, schedule.Schedule{Every: time.Minute}),
		in("nightly", 5*time.Hour, schedule.Schedule{Cron: "30 2,3 * * *"}),
		paused,
		in("elsewhere", time.Hour, schedule.Schedule{Cron: "0 6 * * *", Zone: "Mars/Base"}),
	}, clock{now: now, zone: time.UTC})
	if len(day.Lanes) != 3 || day.More != 1 {
		t.Fatalf("%d lanes and %d more, want 3 and the one in an unknown zone: %+v", len(day.Lanes), day.More, day.Lanes)
	}
	minutes, nightly, once := day.Lanes[0], day.Lanes[1], day.Lanes[2]
	if minutes.Name != "minutes" || !minutes.Often || len(minutes.Dots) != 0 || minutes.Times != "more than 72 times" {
		t.Errorf("each minute: %+v", minutes)
	}
	if want := round(180 + 5./24*800); len(nightly.Dots) != 2 || nightly.Dots[0] != want || nightly.Times != "2 times" {
		t.Errorf("each night: %+v, want 2 dots, the first at %v", nightly, want)
	}
	if len(once.Dots) != 1 || once.Dots[0] != 580 || once.Times != "once" {
		t.Errorf("once, in the middle: %+v", once)
	}
	if len(day.Hours) != 8 || day.Hours[0].Text != "00:00" || day.Hours[0].X != round(180+2.5/24*800) {
		t.Errorf("hours: %+v", day.Hours)
	}
}

// A page does not grow with the number of schedules.
func TestNextDayIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 21, 30, 0, 0, time.UTC)
	var all []schedule.Info
	for range 500 {
		all = append(all, schedule.Info{Schedule: schedule.Schedule{Every: time.Second}, Next: now})
	}
	day := nextDayOf(all, clock{now: now, zone: time.UTC})
	if len(day.Lanes) != maxLanes || day.More != 500-maxLanes {
		t.Errorf("%d lanes, %d more", len(day.Lanes), day.More)
	}
}
