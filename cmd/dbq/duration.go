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

// durationFlag is a duration as the value of a flag.
type durationFlag time.Duration

func (d *durationFlag) String() string { return formatDuration(time.Duration(*d)) }
func (*durationFlag) Type() string     { return "duration" }

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

// keepFlag is a duration, or forever.
type keepFlag time.Duration

func (k *keepFlag) String() string {
	if time.Duration(*k) == dbq.Forever {
		return forever
	}
	return formatDuration(time.Duration(*k))
}

func (*keepFlag) Type() string { return "duration" }

// Set reads it.
func (k *keepFlag) Set(text string) error {
	if text == forever {
		*k = keepFlag(dbq.Forever)
		return nil
	}
	return (*durationFlag)(k).Set(text)
}
