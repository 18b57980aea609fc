package schedule

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/dbq-go/dbq/internal/check"
)

// TestCronTimes: each case names the times that follow, as a person would write them down.
func TestCronTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expression, zone, after string
		want                          []string
	}{
		{"daily", "30 2 * * *", "Europe/Berlin", "2026-01-10T12:00:00+01:00",
			[]string{"2026-01-11T02:30:00+01:00", "2026-01-12T02:30:00+01:00"}},
		{"strictly after", "0 12 * * *", "UTC", "2026-01-10T12:00:00Z", []string{"2026-01-11T12:00:00Z"}},
		{"02:30 in the spring gap fires at its end, once", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"many times in the gap are one", "*/10 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"01:30 in New York's fold fires the first time only", "30 1 * * *", "America/New_York",
			"2026-10-31T12:00:00-04:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"02:30 in Berlin's fold fires the first time only", "30 2 * * *", "Europe/Berlin",
			"2026-10-25T00:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"hourly through the fold", "0 * * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"hourly through the gap", "0 * * * *", "Europe/Berlin", "2026-03-29T00:30:00+01:00",
			[]string{"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"}},
		{"every quarter through the fold", "*/15 * * * *", "America/New_York", "2026-11-01T01:40:00-04:00",
			[]string{"2026-11-01T01:45:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:15:00-05:00"}},
		{"00:15 in São Paulo's midnight gap", "15 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:15:00-02:00"}},
		{"hourly through a midnight gap", "0 * * * *", "America/Sao_Paulo", "2018-11-03T22:30:00-03:00",
			[]string{"2018-11-03T23:00:00-03:00", "2018-11-04T01:00:00-02:00"}},
		{"half an hour's change", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"Samoa had no 30 December 2011", "0 12 * * *", "Pacific/Apia", "2011-12-29T13:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"}},
		{"the 13th or a Friday", "0 0 13 * 5", "UTC", "2026-02-01T00:00:00Z",
			[]string{"2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z",
				"2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"}},
		{"monthly, late on the first of a month", "@monthly", "UTC", "2026-05-01T15:00:00Z",
			[]string{"2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"}},
		{"on the 15th, late on a 15th", "30 1 15 * *", "Europe/Berlin", "2026-05-15T23:00:00+02:00",
			[]string{"2026-06-15T01:30:00+02:00"}},
		{"yearly, late on 1 January", "@yearly", "UTC", "2026-01-01T04:00:00Z",
			[]string{"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"}},
		{"29 February", "0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"Sunday is 7", "0 9 * * 7", "UTC", "2026-11-23T00:00:00Z", []string{"2026-11-29T09:00:00Z"}},
		{"Friday to Sunday", "0 9 * * 5-7", "UTC", "2026-11-23T00:00:00Z",
			[]string{"2026-11-27T09:00:00Z", "2026-11-28T09:00:00Z", "2026-11-29T09:00:00Z", "2026-12-04T09:00:00Z"}},
		{"every second day to Sunday", "0 9 * * 1-7/2", "UTC", "2026-11-23T12:00:00Z",
			[]string{"2026-11-25T09:00:00Z", "2026-11-27T09:00:00Z", "2026-11-29T09:00:00Z", "2026-11-30T09:00:00Z"}},
		{"every second day or Monday", "0 9 */2 * 1", "UTC", "2026-11-26T12:00:00Z",
			[]string{"2026-11-27T09:00:00Z", "2026-11-29T09:00:00Z", "2026-11-30T09:00:00Z", "2026-12-01T09:00:00Z"}},
		{"a month and a day whose names have an L or a W", "0 9 * jul wed", "UTC", "2026-07-02T00:00:00Z",
			[]string{"2026-07-08T09:00:00Z"}},
		{"names", "0 9 * jan mon", "UTC", "2026-11-23T00:00:00Z", []string{"2027-01-04T09:00:00Z"}},
		{"@daily", "@daily", "UTC", "2026-11-23T00:00:00Z", []string{"2026-11-24T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			check.OK(t, err)
			parsed, err := parseCron(c.expression, zone)
			check.OK(t, err)
			at, err := time.Parse(time.RFC3339, c.after)
			check.OK(t, err)
			for i, want := range c.want {
				at = parsed.next(at)
				if got := at.Format(time.RFC3339); got != want {
					t.Fatalf("time %d is %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

func TestCronRefuses(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"", "* * * *", "* * * * * *", "60 * * * *", "0 0 31 2 *", "0 0 30,31 2 *", "@every 1h", "TZ=UTC 0 0 * * *",
		"CRON_TZ=UTC", "@never", "a b c d e", "0 0 * * 8", "*/0 * * * *", "0 0 0 * *",
		", 0 1 1 0", "0 , * * *", "0 0 , * *", "0 0 * , *", "0 0 * * ,",
	} {
		if c, err := parseCron(expression, time.UTC); err == nil {
			t.Errorf("%q is accepted, next at %s", expression, c.next(time.Now()))
		}
	}
}

func TestExtensionsOfOtherCronsAreNamed(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"0 0 L * *", "0 0 L-3 * *", "0 0 LW * *", "0 0 15W * *", "0 0 1,l * *", "0 0 * * 5L", "0 0 * * friL",
		"0 0 * * 5#2", "0 0 * * fri#2",
	} {
		if _, err := parseCron(expression, time.UTC); err == nil || !strings.Contains(err.Error(), "L, W and #") {
			t.Errorf("%q: got %v, want an error that names them", expression, err)
		}
	}
}

// maxSteps bounds the work of one search: each day once, and the minutes of the day itself, of the day that matches and
// of one that a gap removes, with up to 25 hours each.
const maxSteps = searchDays + 3*25*60

// TestSearchIsBounded: the search for a time that is years ahead, or that never comes, looks at each day once, and at
// the minutes of the days that match alone.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Pacific/Apia")
	check.OK(t, err)
	for _, c := range []struct {
		expression string
		most       int
	}{
		{"* * * * *", 4},
		{"59 * * * *", 64},
		{"0 0 * * *", 24*60 + 3},
		{"0 0 29 2 *", 8*366 + 2*24*60},
		{"* * 29 2 *", 8*366 + 2*24*60},
		{"59 23 29 2 1", 2*24*60 + 40}, // or a Monday
		{"0 0 31 2 *", searchDays},
		{"* * 31 2 *", searchDays},
		{"* * 30 2 *", searchDays},
	} {
		parsed, err := parseFields(c.expression, zone)
		check.OK(t, err)
		for _, after := range []time.Time{
			time.Date(2011, 12, 29, 13, 0, 0, 0, zone), time.Date(2096, 2, 29, 23, 59, 59, 999, zone),
		} {
			if at, steps := parsed.search(after); steps > c.most {
				t.Errorf("%q after %s: %d steps to find %s, want at most %d", c.expression, after, steps, at, c.most)
			}
		}
	}
}

// TestSearchAgreesWithEachMinute: in UTC, the next time is the first minute whose fields all match.
func TestSearchAgreesWithEachMinute(t *testing.T) {
	t.Parallel()
	expressions := []string{"* * * * *", "7 * * * *", "0 0 1 * *", "59 23 31 * *", "30 4 29 * 1", "*/20 22 1-3 */2 *",
		"0 0 * * 0", "15 3 28-31 1,3,12 *", "0 12 15 6 *"}
	for _, expression := range expressions {
		c, err := parseCron(expression, time.UTC)
		check.OK(t, err)
		for range 20 {
			after := time.Date(2026, 1, 1, 0, rand.IntN(2*366*24*60), rand.IntN(60), 0, time.UTC)
			want := after.Truncate(time.Minute).Add(time.Minute)
			for !c.matches(day{want.Year(), want.Month(), want.Day()}) || c.hour&(1<<want.Hour()) == 0 ||
				c.minute&(1<<want.Minute()) == 0 {
				want = want.Add(time.Minute)
			}
			if got := c.next(after); !got.Equal(want) {
				t.Errorf("%q after %s: got %s, want %s", expression, after, got, want)
			}
		}
	}
}

// FuzzCron: whatever the expression, the parser does not panic, a search has at most maxSteps, and the times rise.
func FuzzCron(f *testing.F) {
	zone, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		f.Fatal(err)
	}
	for _, expression := range []string{
		"*/7 2-4 * * 1", "TZ=", "0 0 31 2 *", "* * 30 2 *", "0 0 29 2 *", "59 23 29 2 *", "59 23 31 12 *", "* * * * *",
		"15 0 4 11 *", "0 0 1 1 7", ", 0 1 1 0", "0 , * * *",
	} {
		f.Add(expression)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		c, err := parseFields(expression, zone)
		if err != nil {
			return
		}
		at := time.Date(2018, 11, 3, 0, 0, 0, 0, zone)
		for range 5 {
			next, steps := c.search(at)
			if steps > maxSteps {
				t.Fatalf("%q: %d steps to the time after %s, want at most %d", expression, steps, at, maxSteps)
			}
			if next.IsZero() {
				if _, err := parseCron(expression, zone); err == nil {
					t.Fatalf("%q is accepted, and has no time after %s", expression, at)
				}
				return
			}
			if !next.After(at) {
				t.Fatalf("%q: %s follows %s", expression, next, at)
			}
			at = next
		}
	})
}
