package schedule_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// TestTimesOfAStoredSchedule reads the next times of an interval that is in use, of one that is paused, of a cron
// expression, and of a time that has passed.
func TestTimesOfAStoredSchedule(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s, ctx := schedule.New(db.Client), t.Context()
	put := func(d schedule.Schedule) {
		t.Helper()
		d.Queue = "q"
		check.OK(t, s.Put(ctx, d))
	}
	times := func(name string, n int) []time.Time {
		t.Helper()
		i, err := s.Get(ctx, name)
		check.OK(t, err)
		now, err := db.Client.Now(ctx)
		check.OK(t, err)
		out, err := i.Times(now, n)
		check.OK(t, err)
		return out
	}
	put(schedule.Schedule{Name: "every", Every: 24 * time.Hour})
	stored, err := s.Get(ctx, "every")
	check.OK(t, err)
	for paused := range 2 { // a pause does not change from when the interval counts
		got := times("every", 10)
		if len(got) != 10 {
			t.Fatalf("%d times, want 10", len(got))
		}
		for i, at := range got {
			if want := stored.Next.Add(time.Duration(i) * stored.Every); !at.Equal(want) {
				t.Errorf("paused %d: time %d is %v, want %v", paused, i+1, at, want)
			}
		}
		check.OK(t, s.Pause(ctx, "every"))
		db.Advance(time.Hour)
	}
	put(schedule.Schedule{Name: "cron", Cron: "@hourly"})
	if got := times("cron", 3); len(got) != 3 || got[2].Sub(got[0]) != 2*time.Hour {
		t.Errorf("cron: %v", got)
	}
	now, err := db.Client.Now(ctx)
	check.OK(t, err)
	put(schedule.Schedule{Name: "at", At: now.Add(time.Minute)})
	if got := times("at", 3); len(got) != 1 {
		t.Errorf("at: %v", got)
	}
	db.Advance(time.Hour)
	check.OK(t, s.Fire(ctx))
	if got := times("at", 3); len(got) != 0 {
		t.Errorf("at, which has passed: %v", got)
	}
}

// A preview never goes back in time, whatever its length, and its number of times is bounded.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, d := range []schedule.Schedule{
		{Every: time.Second}, {Every: 99 * 365 * 24 * time.Hour}, {Every: 30 * 365 * 24 * time.Hour},
		{Cron: "0 0 29 2 *"}, {Cron: "* * * * *"}, {At: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
	} {
		times, err := schedule.Preview(d, from, 1000)
		if err != nil || len(times) == 0 {
			t.Errorf("%+v: %v, %v", d, times, err)
		}
		last := from
		for _, at := range times {
			if _, err := at.MarshalJSON(); err != nil || !at.After(last) {
				t.Fatalf("%+v: %v follows %v: %v", d, at, last, err)
			}
			last = at
		}
		for _, n := range []int{-1, schedule.MaxTimes + 1, 2_000_000_000} {
			if _, err := schedule.Preview(d, from, n); !errors.Is(err, dbq.ErrOption) {
				t.Errorf("%d times: %v, want ErrOption", n, err)
			}
		}
	}
}

// TestReferencesOfPastTimes: they are those of the tasks that a schedule has enqueued, however irregularly it fires,
// and that of its last task after a change of its times.
func TestReferencesOfPastTimes(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	before := func(ago ...time.Duration) (out []string) {
		for _, d := range ago {
			out = append(out, "schedule:s:"+monday.Add(-d).Format(time.RFC3339Nano))
		}
		return out
	}
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		of   schedule.Schedule
		want []string
	}{
		"every":       {schedule.Schedule{Every: day}, before(0, day, 2*day)},
		"rarely":      {schedule.Schedule{Every: 500 * day}, before(0)},
		"cron":        {schedule.Schedule{Cron: "0 9 * * *"}, before(0, day, 2*day)},
		"weekdays":    {schedule.Schedule{Cron: "0 9 * * 1-5"}, before(0, 3*day, 4*day)},
		"dense":       {schedule.Schedule{Cron: "58,59 8 * * *"}, before(0, time.Minute, 2*time.Minute)},
		"was changed": {schedule.Schedule{Cron: "0 8 * * *"}, before(0, time.Hour, 25*time.Hour)},
		"at":          {schedule.Schedule{At: monday}, before(0)},
	} {
		c.of.Name, c.of.Queue = "s", "q"
		got, err := schedule.Info{Schedule: c.of, Last: monday}.References(3)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q: %v", name, got, c.want, err)
		}
	}
	if got, err := (schedule.Info{}).References(3); len(got) > 0 || err != nil {
		t.Errorf("a schedule that never fired has %q: %v", got, err)
	}
	for _, n := range []int{0, schedule.MaxTimes + 1} {
		if _, err := (schedule.Info{}).References(n); !errors.Is(err, dbq.ErrOption) {
			t.Errorf("%d references: %v", n, err)
		}
	}
}
