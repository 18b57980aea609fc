package console

import (
	"fmt"
	"html/template"
	"time"
)

// clock writes times as a visitor has chosen: how long ago they were, or in the browser's time zone or UTC.
type clock struct {
	now   time.Time
	style string         // relative, local or utc
	zone  *time.Location // of times that are not relative
	local bool           // zone is the browser's
}

// relativeUpTo is the distance from which a date reads better than a number of hours.
const relativeUpTo = 24 * time.Hour

// Time writes a time in the chosen style. One that does not exist is empty.
func (c clock) Time(t time.Time) template.HTML {
	away := c.now.Sub(t).Abs()
	if c.style == "relative" && away < relativeUpTo {
		return c.element(t, c.relative(t), " data-relative")
	}
	format := "2 Jan, 15:04:05"
	if c.style == "relative" {
		format = "2 Jan, 15:04"
	}
	if t.In(c.zone).Year() != c.now.In(c.zone).Year() {
		format = "2 Jan 2006, 15:04"
	}
	return c.element(t, c.format(t, format), "")
}

// Stamp writes a time with its milliseconds, for times that differ by little.
func (c clock) Stamp(t time.Time) template.HTML { return c.within(t, "15:04:05.000") }

// Minute writes a time with its minute, for those of a series.
func (c clock) Minute(t time.Time) template.HTML { return c.within(t, "15:04") }

// Around writes the time of day in a while, to the minute.
func (c clock) Around(d time.Duration) template.HTML {
	return c.Minute(c.now.Add(d).Round(time.Minute))
}

// within writes a time of day, with the date if it is not today.
func (c clock) within(t time.Time, format string) template.HTML {
	const date = "2 Jan 2006"
	if t.In(c.zone).Format(date) != c.now.In(c.zone).Format(date) {
		format = "2 Jan, " + format
	}
	return c.element(t, c.format(t, format), "")
}

// Day writes a time with its weekday, for times to come.
func (c clock) Day(t time.Time) template.HTML {
	return c.element(t, c.format(t, "Mon 2 Jan 2006, 15:04:05"), "")
}

// Hour writes the time of day.
func (c clock) Hour(t time.Time) template.HTML { return c.element(t, c.format(t, "15:04:05"), "") }

// relative writes the distance of a time: now, 46 s ago, in 2 h 5 min. A script does the same while a page is open.
func (c clock) relative(t time.Time) string {
	switch d := c.now.Sub(t).Truncate(time.Second); {
	case d > 0:
		return age(d) + " ago"
	case d < 0:
		return "in " + age(-d)
	}
	return "now"
}

// format writes a time in the zone of the page, and names the zone if it is not the browser's.
func (c clock) format(t time.Time, format string) string {
	text := t.In(c.zone).Format(format)
	if !c.local {
		text += " UTC"
	}
	return text
}

// element returns a time for machines, for people and, as its title, exactly. Its texts have nothing to escape.
func (c clock) element(t time.Time, text, attribute string) template.HTML {
	if t.IsZero() {
		return ""
	}
	const exact = "2 Jan 2006, 15:04:05.000"
	title := t.UTC().Format(exact) + " UTC"
	if c.local {
		title = t.In(c.zone).Format(exact) + " local, " + title
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s"%s>%s</time>`,
		t.UTC().Format(time.RFC3339Nano), title, attribute, text))
}

// until writes how far away a time is.
func until(t, now time.Time) string { return clock{now: now}.relative(t) }
