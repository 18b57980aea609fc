package console

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

func TestTimesAreWrittenAsChosen(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	check.OK(t, err)
	now := time.Date(2026, 11, 27, 13, 14, 31, 204e6, time.UTC)
	relative := clock{now: now, style: "relative", zone: berlin, local: true}
	local, utc := relative, clock{now: now, style: "utc", zone: time.UTC}
	local.style = "local"
	for _, c := range []struct {
		clock clock
		ago   time.Duration
		want  string
	}{
		{relative, 0, "now"}, {relative, 999 * time.Millisecond, "now"}, {relative, 46 * time.Second, "46 s ago"},
		{relative, -46 * time.Second, "in 46 s"}, {relative, 12 * time.Minute, "12 min ago"},
		{relative, 125 * time.Minute, "2 h 5 min ago"}, {relative, -2 * time.Hour, "in 2 h"},
		{relative, 25 * time.Hour, "26 Nov, 13:14"}, {relative, 400 * 24 * time.Hour, "23 Oct 2025, 15:14"},
		{local, 46 * time.Second, "27 Nov, 14:13:45"}, {utc, 46 * time.Second, "27 Nov, 13:13:45 UTC"},
	} {
		at := now.Add(-c.ago)
		text := string(c.clock.Time(at))
		if want := ">" + c.want + "</time>"; len(text) < len(want) || text[len(text)-len(want):] != want {
			t.Errorf("%v ago, %s: %s, want %s", c.ago, c.clock.style, text, c.want)
		}
	}
	want := `<time datetime="2026-11-27T13:02:31.204Z" title="27 Nov 2026, 14:02:31.204 local, ` +
		`27 Nov 2026, 13:02:31.204 UTC" data-relative>12 min ago</time>`
	if got := string(relative.Time(now.Add(-12 * time.Minute))); got != want {
		t.Errorf("a time is %s, want %s", got, want)
	}
	for _, got := range []any{relative.Time(time.Time{}), utc.Stamp(time.Time{}), local.Day(time.Time{})} {
		if got != relative.Time(time.Time{}) || relative.Time(time.Time{}) != "" {
			t.Errorf("a time that does not exist is %v, want nothing", got)
		}
	}
	if got := string(local.Stamp(now)); got[len(got)-len(">14:14:31.204</time>"):] != ">14:14:31.204</time>" {
		t.Errorf("a time of today with its milliseconds is %s", got)
	}
}

func TestAgesHaveTheirLargestUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 20 * time.Millisecond: "20 ms", 1250 * time.Millisecond: "1.2 s", 90 * time.Second: "90 s",
		12 * time.Minute: "12 min", 2 * time.Hour: "2 h", 125 * time.Minute: "2 h 5 min", 76 * time.Hour: "3 d 4 h",
	} {
		if got := age(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 ms", 2100 * time.Microsecond: "2.10 ms", 412 * time.Millisecond: "412 ms", 1800 * time.Millisecond: "1.80 s",
		12 * time.Minute: "12 min",
	} {
		if got := took(d); got != want {
			t.Errorf("%v took %q, want %q", d, got, want)
		}
	}
}

func TestCronIsWrittenInWords(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]string{
		"* * * * *": "Every minute", "*/15 * * * *": "Every 15 minutes", "*/7 * * * *": "",
		"0 * * * *": "Every hour, on the hour", "@hourly": "Every hour, on the hour",
		"5 * * * *": "Every hour, at minute 5", "0 */6 * * *": "Every 6 hours",
		"30 2 * * *": "Every day at 02:30", "@daily": "Every day at 00:00", "0 9 * * 1": "Mondays at 09:00",
		"0 9 * * MON": "Mondays at 09:00", "0 9 * * 7": "Sundays at 09:00", "0 9 * * 1-5": "Monday to Friday at 09:00",
		"0 6 1 * *": "On day 1 of each month at 06:00", "@monthly": "On day 1 of each month at 00:00",
		"0 6 1 * 1": "", "0 6 1 1 *": "", "0,30 6 * * *": "", "0 0 29 2 *": "", "@yearly": "", "": "",
	} {
		if got := cronWords(cron); got != want {
			t.Errorf("%q is %q, want %q", cron, got, want)
		}
	}
}

func TestDifferencesHaveOnlyTheFieldsThatChanged(t *testing.T) {
	t.Parallel()
	got := differences([]byte(`{"rate":{"starts":120,"burst":5},"concurrency":7,"order":"skip"}`),
		[]byte(`{"rate":{"starts":12345678901234567890,"burst":5},"order":"skip","per_key":true}`))
	want := []difference{{"concurrency", "7", ""}, {"per_key", "", "true"}, {"rate.starts", "120", "12345678901234567890"}}
	if len(got) != len(want) {
		t.Fatalf("the differences are %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("difference %d is %q, want %q", i, got[i], want[i])
		}
	}
	if got := differences(nil, []byte(`"x"`)); len(got) != 1 || got[0].After != "x" {
		t.Errorf("a text that is no object differs by %q", got)
	}
}
