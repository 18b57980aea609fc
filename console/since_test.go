package console

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// TestTimesAsPeopleTypeThem reads times at ten past nine on a Sunday in Berlin, the day of a change of the clocks.
func TestTimesAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	check.OK(t, err)
	now := time.Date(2026, 3, 29, 9, 10, 0, 0, berlin)
	for text, want := range map[string]time.Time{
		"9:00":                      time.Date(2026, 3, 29, 9, 0, 0, 0, berlin),
		"09:10:00":                  now,
		"14:00":                     time.Date(2026, 3, 28, 14, 0, 0, 0, berlin), // today's has not come yet
		"2h":                        now.Add(-2 * time.Hour),
		"1d":                        now.Add(-24 * time.Hour),
		"0":                         now,
		"today":                     time.Date(2026, 3, 29, 0, 0, 0, 0, berlin),
		"Today 7:30":                time.Date(2026, 3, 29, 7, 30, 0, 0, berlin),
		"yesterday":                 time.Date(2026, 3, 28, 0, 0, 0, 0, berlin),
		"yesterday 9:00":            time.Date(2026, 3, 28, 9, 0, 0, 0, berlin),
		" Yesterday,  9:00:30 ":     time.Date(2026, 3, 28, 9, 0, 30, 0, berlin),
		"2026-03-01":                time.Date(2026, 3, 1, 0, 0, 0, 0, berlin),
		"2026-03-01 16:30":          time.Date(2026, 3, 1, 16, 30, 0, 0, berlin),
		"2026-03-01T16:30":          time.Date(2026, 3, 1, 16, 30, 0, 0, berlin),
		"2026-03-01T16:30:00Z":      time.Date(2026, 3, 1, 16, 30, 0, 0, time.UTC),
		"2026-03-01T16:30:00+05:30": time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC),
		"1 Mar":                     time.Date(2026, 3, 1, 0, 0, 0, 0, berlin),
		"1 Mar, 16:30":              time.Date(2026, 3, 1, 16, 30, 0, 0, berlin),
		"1 Dec 16:30:05":            time.Date(2025, 12, 1, 16, 30, 5, 0, berlin), // of last year
		"1 Dec 2024, 16:30":         time.Date(2024, 12, 1, 16, 30, 0, 0, berlin),
	} {
		got, ok := timeBefore(text, now, berlin)
		if !ok || !got.Equal(want) {
			t.Errorf("%q is %v, %t; want %v", text, got, ok, want)
		}
		if again, ok := timeBefore(typedTime(got), now.Add(time.Hour), time.UTC); !ok || !again.Equal(got) {
			t.Errorf("%q, typed as %s later, is %v", text, typedTime(got), again)
		}
	}
	for _, text := range []string{"soon", "25:00", "yesterday 25:00", "yesterday soon", "-2h", "2026-13-01", "9",
		"now 9:00", "2026-03-01 16:30 x", "\x00", "1 Foo"} {
		if got, ok := timeBefore(text, now, berlin); ok {
			t.Errorf("%q is %v, want none", text, got)
		}
	}
	if typedTime(time.Time{}) != "" {
		t.Error("no time is typed as one")
	}
}
