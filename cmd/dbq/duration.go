package main

import (
	"errors"
	"fmt"
	"math"
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

var errDuration = errors.New("use a duration such as 250ms, 90s, 1h30m, 7d or 2w")

// durationUnits are the units of a duration in the order in which they are written.
var durationUnits = []struct {
	name string
	size time.Duration
}{
	{"w", week}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"µs", time.Microsecond}, {"ns", time.Nanosecond},
}

// parseDuration reads a duration: numbers with units, the largest unit first and each one once. Only 0 may be without a unit.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if strings.HasPrefix(text, "-") {
		return 0, errors.New("a duration cannot be negative")
	}
	var total time.Duration
	next := 0 // the first unit that may follow
	for rest := text; rest != "" || text == ""; {
		digits := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if digits < 1 {
			return 0, errDuration
		}
		number := rest[:digits]
		rest = rest[digits:]
		name := rest
		if end := strings.IndexAny(rest, "0123456789."); end >= 0 {
			name = rest[:end]
		}
		rest = rest[len(name):]
		for next < len(durationUnits) && durationUnits[next].name != name {
			next++
		}
		if next == len(durationUnits) {
			return 0, errDuration
		}
		part, err := times(number, durationUnits[next].size)
		if err != nil {
			return 0, err
		}
		if total > math.MaxInt64-part {
			return 0, errTooLong
		}
		total += part
		next++
	}
	return total, nil
}

var errTooLong = fmt.Errorf("the duration is longer than %s", formatDuration(math.MaxInt64/day*day))

// times is a decimal number of units.
func times(number string, unit time.Duration) (time.Duration, error) {
	whole, fraction, _ := strings.Cut(number, ".")
	if whole+fraction == "" || strings.Contains(fraction, ".") {
		return 0, errDuration
	}
	var out time.Duration
	for _, c := range whole {
		digit := time.Duration(c - '0')
		if out > (math.MaxInt64/unit-digit)/10 {
			return 0, errTooLong
		}
		out = out*10 + digit
	}
	out *= unit
	// A fraction is cut at nanoseconds.
	for scale := unit / 10; fraction != "" && scale > 0; scale /= 10 {
		part := scale * time.Duration(fraction[0]-'0')
		if out > math.MaxInt64-part {
			return 0, errTooLong
		}
		out += part
		fraction = fraction[1:]
	}
	return out, nil
}

// formatDuration writes a duration as parseDuration reads it, exactly and with as few units as that takes.
func formatDuration(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if u.name == "w" || u.name == "us" || d < u.size {
			continue
		}
		if u.size == time.Second && d%time.Millisecond != 0 || u.size < time.Second { // the rest as one number
			b.WriteString(d.String())
			return b.String()
		}
		n := d / u.size
		d -= n * u.size
		if u.size == time.Second && d > 0 {
			fmt.Fprintf(&b, "%ss", strings.TrimRight(fmt.Sprintf("%d.%03d", n, d.Milliseconds()), "0"))
			return b.String()
		}
		fmt.Fprintf(&b, "%d%s", n, u.name)
	}
	return b.String()
}

// durationFlag is a duration as the value of a flag.
type durationFlag time.Duration

// String writes it as the flag takes it.
func (d *durationFlag) String() string { return formatDuration(time.Duration(*d)) }

// Type names the value in the flag's help.
func (*durationFlag) Type() string { return "duration" }

// Set reads it.
func (d *durationFlag) Set(text string) error {
	v, err := parseDuration(text)
	if err == nil {
		*d = durationFlag(v)
	}
	return err
}

// durationVar adds a flag for a duration. Every duration on the command line is read by it.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var((*durationFlag)(to), name, usage)
}

// forever is how dbq.Forever is written.
const forever = "forever"

// formatKeep is formatDuration of a time for which something is kept.
func formatKeep(d time.Duration) string {
	if d == dbq.Forever {
		return forever
	}
	return formatDuration(d)
}

// keepFlag is a duration, or forever.
type keepFlag time.Duration

// String writes it as the flag takes it.
func (k *keepFlag) String() string { return formatKeep(time.Duration(*k)) }

// Type names the value in the flag's help.
func (*keepFlag) Type() string { return "duration" }

// Set reads it.
func (k *keepFlag) Set(text string) error {
	if text == forever {
		*k = keepFlag(dbq.Forever)
		return nil
	}
	return (*durationFlag)(k).Set(text)
}
