package schedule_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// TestJitterIsFixed: the delay depends on the schedule's name and the time alone, in every process and every version: a
// process of an older version must not give a task another delay.
func TestJitterIsFixed(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, text)
		check.OK(t, err)
		return at
	}
	for _, c := range []struct {
		name, at, jitter, want string
	}{
		{"s", "2030-01-01T00:00:00Z", "10m", "1m37.835538s"},
		{"s", "2030-01-01T01:00:00Z", "10m", "6m12.312636s"},
		{"s", "2030-01-01T02:00:00+01:00", "10m", "6m12.312636s"}, // the same time in another zone
		{"s", "2030-01-01T02:00:00Z", "10m", "21.263676s"},
		{"s", "2030-01-01T00:00:00.123456Z", "24h", "14h32m23.282257s"},
		{"nightly-report", "2030-01-01T00:00:00Z", "10m", "6m35.44044s"},
		{"nightly-report", "2030-01-01T01:00:00Z", "10m", "8m45.662241s"},
		{"nightly-report", "2030-01-01T01:00:00Z", "1ns", "0s"},
		{"nightly-report", "2030-01-01T01:00:00Z", "0s", "0s"},
	} {
		jitter, err := time.ParseDuration(c.jitter)
		check.OK(t, err)
		d := schedule.Schedule{Name: c.name, Jitter: jitter}
		if got := d.DelayAt(at(c.at)).String(); got != c.want {
			t.Errorf("the delay of %q at %s below %s is %s, want %s", c.name, c.at, c.jitter, got, c.want)
		}
	}
}

// TestJitterIsTheSameInTwoDatabases: two clients, which know nothing of each other, delay the tasks of the same times
// alike, and the tasks of different times differently.
func TestJitterIsTheSameInTwoDatabases(t *testing.T) {
	const times, jitter = 50, 10 * time.Minute
	f := newFixture(t)
	delays := func(f fixture) map[time.Time]time.Duration {
		f.put(schedule.Schedule{Name: "s", Cron: "@hourly", Jitter: jitter, CatchUp: times})
		f.after((times + 1) * time.Hour)
		out, at := map[time.Time]time.Duration{}, f.times()
		for i, task := range f.tasks() {
			out[at[i]] = task.Due.Sub(task.Created)
		}
		return out
	}
	other := dbqtest.New(t)
	first, second := delays(f), delays(fixture{t, other, schedule.New(other.Client)})
	both, different := 0, map[time.Duration]bool{}
	for at, delay := range first {
		different[delay.Round(time.Second)] = true
		if delay < 0 || delay > jitter {
			t.Errorf("the delay of %s is %s", at, delay)
		}
		again, ok := second[at]
		if !ok {
			continue // the hour began in between
		}
		if both++; (delay - again).Abs() > time.Second {
			t.Errorf("the delay of %s is %s in one database and %s in the other", at, delay, again)
		}
	}
	if both < times-2 || len(different) < times/2 {
		t.Errorf("%d times are in both databases, with %d different delays", both, len(different))
	}
}
