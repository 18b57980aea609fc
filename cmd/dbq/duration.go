package main

import (
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/spf13/pflag"
)

// span formats a duration for people: like duration.Format, but rounded down to about two units.
func span(d time.Duration) string {
	if d < time.Millisecond {
		return "0ms"
	}
	const day = 24 * time.Hour
	unit := day
	for _, u := range []struct{ under, unit time.Duration }{
		{10 * day, time.Hour}, {day, time.Minute}, {time.Hour, time.Second}, {10 * time.Second, 100 * time.Millisecond},
		{time.Second, time.Millisecond},
	} {
		if d < u.under {
			unit = u.unit
		}
	}
	return duration.Format(d.Truncate(unit))
}

// durationFlag is a duration as the value of a flag. Every duration on the command line is read by it.
type durationFlag struct {
	to          *time.Duration
	least, most time.Duration // its limits; a most of 0 means no limit
	orForever   bool          // "forever" is dbq.Forever
}

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
		return duration.ForeverText
	}
	return duration.Format(*d.to)
}

// Set reads it.
func (d *durationFlag) Set(text string) error {
	if d.orForever && text == duration.ForeverText {
		*d.to = dbq.Forever
		return nil
	}
	v, err := duration.Parse(text)
	switch {
	case err != nil:
		return err
	case d.most > 0 && (v < d.least || v > d.most):
		return fmt.Errorf("it must be %s to %s", duration.Format(d.least), duration.Format(d.most))
	case v < d.least:
		return fmt.Errorf("it must be at least %s", duration.Format(d.least))
	}
	*d.to = v
	return nil
}
