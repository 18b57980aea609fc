package schedule

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	cronlib "github.com/robfig/cron/v3"
)

// A cron is a parsed expression in a time zone. Only the parser comes from a library: no Go library computes the
// correct times around a daylight saving change (docs/schedules.md).
type cron struct {
	minute, hour, day, month, weekday uint64 // bit n stands for the value n
	everyHour                         bool   // the hour is "*": it follows elapsed time, not the wall clock
	anyDay, anyWeekday                bool   // the field is "*", so that only the other one counts
	zone                              *time.Location
}

// searchDays limits a search for the next time: 29 February recurs after at most 8 years.
const searchDays = 9 * 366

// ErrNever is matched by the error for a Cron that never fires, such as one for 31 February.
var ErrNever = errors.New("no day matches")

// errNotCron does not show the expression, and the library's error would.
var errNotCron = errors.New("not a cron expression; write five fields, such as 0 8 * * mon, or a name such as @daily")

const starBit = 1 << 63 // the library's marker for "*"

var cronParser = cronlib.NewParser(cronlib.Minute | cronlib.Hour | cronlib.Dom | cronlib.Month | cronlib.Dow |
	cronlib.Descriptor)

// parseCron parses five fields (minute, hour, day of the month, month, day of the week) or a name such as @daily. It
// refuses an expression that no time matches.
func parseCron(expression string, zone *time.Location) (cron, error) {
	c, err := parseFields(expression, zone)
	if err == nil && c.next(time.Now()).IsZero() {
		err = ErrNever
	}
	return c, err
}

// parseFields is parseCron without the search for a time.
func parseFields(expression string, zone *time.Location) (cron, error) {
	if strings.Contains(expression, "=") {
		return cron{}, errors.New("set the time zone in Zone, not in the expression")
	}
	if strings.HasPrefix(expression, "@every") {
		return cron{}, errors.New("use Every for an interval")
	}
	if foreign.MatchString(expression) {
		return cron{}, errors.New("the signs L, W and # are not supported; use days, such as 28 or mon")
	}
	parsed, err := cronParser.Parse(sundayIsZero(expression))
	if err != nil {
		return cron{}, errNotCron
	}
	s, ok := parsed.(*cronlib.SpecSchedule)
	if !ok {
		return cron{}, errNotCron
	}
	for _, field := range []uint64{s.Minute, s.Hour, s.Dom, s.Month, s.Dow} {
		if field == 0 { // such as ",", which the library accepts
			return cron{}, errors.New("a field is empty")
		}
	}
	return cron{
		minute: s.Minute, hour: s.Hour, day: s.Dom, month: s.Month, weekday: s.Dow,
		everyHour: s.Hour&starBit != 0, anyDay: s.Dom&starBit != 0, anyWeekday: s.Dow&starBit != 0, zone: zone,
	}, nil
}

var (
	untilSunday = regexp.MustCompile(`^([0-7])-7(?:/([1-7]))?$`)
	// foreign is the last day or weekday of a month, the nearest working day, or the nth weekday, in other crons.
	foreign = regexp.MustCompile(`(?i)#|\bL(?:\b|W)|(?:\d|sun|mon|tue|wed|thu|fri|sat)L\b|\dW\b`)
)

// sundayIsZero replaces Sunday as 7, which crontab(5) allows, by 0, because the library accepts only 0.
func sundayIsZero(expression string) string {
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return expression
	}
	var days []string
	for d := range strings.SplitSeq(fields[4], ",") {
		if d == "7" {
			d = "7-7"
		}
		match := untilSunday.FindStringSubmatch(d)
		if match == nil {
			days = append(days, d)
			continue
		}
		step, _ := strconv.Atoi(cmp.Or(match[2], "1"))
		for n := int(match[1][0] - '0'); n <= 7; n += step {
			days = append(days, strconv.Itoa(n%7))
		}
	}
	fields[4] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

// next returns the first time after t, or zero if there is none within nine years.
func (c cron) next(t time.Time) time.Time {
	at, _ := c.search(t)
	return at
}

// search is next, and returns how many days and minutes it has looked at.
func (c cron) search(t time.Time) (at time.Time, steps int) {
	t = t.In(c.zone)
	date := day{t.Year(), t.Month(), t.Day()}
	for range searchDays {
		steps++
		if c.matches(date) {
			at, minutes := c.nextOn(date, t)
			if steps += minutes; !at.IsZero() {
				return at, steps
			}
		}
		date = date.plus(1)
	}
	return time.Time{}, steps
}

// matches reports whether the expression names a date. If it restricts both the day of the month and the day of the
// week, a date need match only one of them, as POSIX says. */2 is a restriction, too, unlike in Vixie cron.
func (c cron) matches(d day) bool {
	if c.month&(1<<d.month) == 0 {
		return false
	}
	byDay, byWeekday := c.day&(1<<d.day) != 0, c.weekday&(1<<d.weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// nextOn returns the first time after t of those on a date, or zero, and how many minutes it has looked at.
func (c cron) nextOn(d day, t time.Time) (_ time.Time, steps int) {
	if c.everyHour {
		return c.nextMinute(d, t)
	}
	from := 0 // the hour: earlier hours have passed
	if d == (day{t.Year(), t.Month(), t.Day()}) {
		from = max(0, t.Hour()-3)
	}
	for hour := from; hour < 24; hour++ {
		for minute := range 60 {
			steps++
			if c.hour&(1<<hour) == 0 || c.minute&(1<<minute) == 0 {
				continue
			}
			// All times in a gap become the same time, its end.
			if at := d.at(hour, minute, c.zone); at.After(t) {
				return at, steps
			}
		}
	}
	return time.Time{}, steps
}

// nextMinute is nextOn if the hour is "*": it returns the first matching minute that passes on a date. An hour that the
// clock repeats passes twice; one that it skips does not pass.
func (c cron) nextMinute(d day, t time.Time) (_ time.Time, steps int) {
	end := d.plus(1).at(0, 0, c.zone)
	at := d.at(0, 0, c.zone)
	if at.Before(t) {
		at = t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	}
	for ; at.Before(end); at = at.Add(time.Minute) {
		steps++
		if at.After(t) && c.minute&(1<<at.Minute()) != 0 {
			return at, steps
		}
	}
	return time.Time{}, steps
}

// A day is a calendar date, independent of the zone.
type day struct {
	year  int
	month time.Month
	day   int
}

func (d day) utc() time.Time { return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC) }

func (d day) weekday() time.Weekday { return d.utc().Weekday() }

func (d day) plus(days int) day {
	t := d.utc().AddDate(0, 0, days)
	return day{t.Year(), t.Month(), t.Day()}
}

// at returns when the clock of a zone shows this date, hour and minute. If the clock shows it twice, at returns the
// first time; if the clock skips it, at returns the end of the gap. time.Date guarantees neither.
func (d day) at(hour, minute int, zone *time.Location) time.Time {
	wall := d.utc().Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	_, before := wall.Add(-24 * time.Hour).In(zone).Zone()
	_, after := wall.Add(24 * time.Hour).In(zone).Zone()
	early := wall.Add(-time.Duration(before) * time.Second).In(zone)
	if shows(early, wall) {
		return early
	}
	if late := wall.Add(-time.Duration(after) * time.Second).In(zone); shows(late, wall) {
		return late
	}
	gapEnd, _ := early.ZoneBounds()
	return gapEnd
}

// shows reports whether the clock at t shows the date and time of wall.
func shows(t, wall time.Time) bool {
	_, offset := t.Zone()
	return t.Unix()+int64(offset) == wall.Unix()
}
