package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/pflag"
)

// day and week are always 24 and 168 hours.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

var (
	errDuration = errors.New("use a duration such as 250ms, 90s, 1h30m, 7d or 2w")
	errTooLong  = fmt.Errorf("the duration is longer than %s", formatDuration(math.MaxInt64/day*day))
)

// durationParts matches a duration: numbers with units, the largest unit first and each one once. Its groups are the
// numbers of weeks and of days, and the rest, which time.ParseDuration reads.
var durationParts = func() *regexp.Regexp {
	const number = `(?:\d+\.?\d*|\.\d+)`
	part := func(unit string) string { return "(?:" + number + unit + ")?" }
	return regexp.MustCompile("^(?:(" + number + ")w)?(?:(" + number + ")d)?(" +
		part("h") + part("m") + part("s") + part("ms") + part("[uµ]s") + part("ns") + ")$")
}()

// parseDuration reads a duration. Only 0 may be without a unit.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if strings.HasPrefix(text, "-") {
		return 0, errors.New("a duration cannot be negative")
	}
	groups := durationParts.FindStringSubmatch(text)
	if groups == nil || text == "" {
		return 0, errDuration
	}
	var total time.Duration
	for i, unit := range []struct {
		suffix string
		times  time.Duration
	}{{"h", 7 * 24}, {"h", 24}, {"", 1}} {
		if groups[i+1] == "" {
			continue
		}
		part, err := time.ParseDuration(groups[i+1] + unit.suffix)
		if err != nil || part > (math.MaxInt64-total)/unit.times {
			return 0, errTooLong
		}
		total += part * unit.times
	}
	return total, nil
}

// formatDuration writes a duration as parseDuration reads it, exactly and with as few units as that takes.
func formatDuration(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	var b strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	if d > 0 {
		b.WriteString(d.String())
	}
	return b.String()
}

// span formats a duration for people: like formatDuration, but rounded down to about two units.
func span(d time.Duration) string {
	if d < time.Millisecond {
		return "0ms"
	}
	unit := day
	for _, u := range []struct{ under, unit time.Duration }{
		{10 * day, time.Hour}, {day, time.Minute}, {time.Hour, time.Second}, {10 * time.Second, 100 * time.Millisecond},
		{time.Second, time.Millisecond},
	} {
		if d < u.under {
			unit = u.unit
		}
	}
	return formatDuration(d.Truncate(unit))
}

// durationFlag is a duration as the value of a flag. Every duration on the command line is read by it.
type durationFlag struct {
	to          *time.Duration
	least, most time.Duration // its limits; a most of 0 means no limit
	orForever   bool          // "forever" is dbq.Forever
}

const forever = "forever"

// durationVar adds a flag for a duration.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) *durationFlag {
	*to = value
	d := &durationFlag{to: to}
	f.Var(d, name, usage)
	return d
}

// within sets the limits.
func (d *durationFlag) within(least, most time.Duration) { d.least, d.most = least, most }

func (*durationFlag) Type() string { return "duration" }

func (d *durationFlag) String() string {
	if d.orForever && *d.to == dbq.Forever {
		return forever
	}
	return formatDuration(*d.to)
}

// Set reads it.
func (d *durationFlag) Set(text string) error {
	if d.orForever && text == forever {
		*d.to = dbq.Forever
		return nil
	}
	v, err := parseDuration(text)
	switch {
	case err != nil:
		return err
	case d.most > 0 && (v < d.least || v > d.most):
		return fmt.Errorf("it must be %s to %s", formatDuration(d.least), formatDuration(d.most))
	case v < d.least:
		return fmt.Errorf("it must be at least %s", formatDuration(d.least))
	}
	*d.to = v
	return nil
}
