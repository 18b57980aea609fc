package console

import (
	"strings"
	"time"

	"github.com/dbq-go/dbq/internal/duration"
)

// zone returns the time zone in which the visitor types times: that in which the pages show them.
func (v *visit) zone() *time.Location { return v.clock().zone }

// since reads a time that has passed, by the database's clock; empty is zero.
func (v *visit) since(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	now, err := v.db.client.Now(v.ctx())
	if err != nil {
		return now, err
	}
	t, ok := timeBefore(text, now, v.zone())
	switch {
	case !ok:
		return t, fieldError{field, formError(label(field) + ": write a time such as 14:00, yesterday 9:00 or 2026-01-31, " +
			"or for how long, such as 2h")}
	case t.After(now):
		return t, fieldError{field, formError(label(field) + ": this time has not come yet")}
	}
	if t.Before(time.Unix(0, 0)) { // dbq has no earlier times
		t = time.Unix(0, 0).UTC()
	}
	return t, nil
}

// The forms of a time in words, and those with a date, some without a year.
var (
	clockLayouts = []string{"15:04", "15:04:05"}
	dateLayouts  = []string{
		time.RFC3339, "2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05",
		"2 Jan 2006", "2 Jan 2006 15:04", "2 Jan 2006 15:04:05",
	}
	yearlessLayouts = []string{"2 Jan", "2 Jan 15:04", "2 Jan 15:04:05"}
)

// timeBefore reads a time as people write it: 14:00 is the last 14:00, 2h is two hours ago, yesterday is its beginning.
// A time without an offset is in the zone.
func timeBefore(text string, now time.Time, zone *time.Location) (time.Time, bool) {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, ",", " ")), " ")
	if d, err := duration.Parse(text); err == nil {
		return now.Add(-d), true
	}
	local := now.In(zone)
	at := func(days int, clock time.Time) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day()+days, clock.Hour(), clock.Minute(), clock.Second(), 0, zone)
	}
	word, rest, _ := strings.Cut(text, " ")
	days, named := map[string]int{"today": 0, "yesterday": -1}[strings.ToLower(word)]
	if named && rest == "" {
		return at(days, time.Time{}), true
	}
	for _, layout := range clockLayouts {
		if clock, err := time.Parse(layout, rest); err == nil && named {
			return at(days, clock), true
		}
		if clock, err := time.Parse(layout, text); err == nil {
			t := at(0, clock)
			if t.After(now) {
				t = at(-1, clock)
			}
			return t, true
		}
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, true
		}
	}
	for _, layout := range yearlessLayouts {
		if t, err := time.ParseInLocation("2006 "+layout, local.Format("2006 ")+text, zone); err == nil {
			if t.After(now) {
				t = t.AddDate(-1, 0, 0)
			}
			return t, true
		}
	}
	return time.Time{}, false
}

// typedTime writes a time as since reads it, wherever and whenever; zero is empty.
func typedTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
