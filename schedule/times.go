package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a database of zones

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
)

// lookBack is the maximum age of a missed time that is made up for.
const lookBack = 366 * 24 * time.Hour

// clock computes the times of a schedule.
type clock interface {
	// next returns the first time after t, or zero.
	next(t time.Time) time.Time
}

type every struct {
	start  time.Time
	period time.Duration
}

func (e every) next(t time.Time) time.Time {
	if t.Before(e.start) {
		return e.start.Add(e.period)
	}
	if t.Sub(e.start) > bounds.MaxDelay { // with a period of up to MaxDelay more, the sum is still a Duration
		return time.Time{}
	}
	return e.start.Add((t.Sub(e.start)/e.period + 1) * e.period)
}

type once time.Time

func (o once) next(t time.Time) time.Time {
	if at := time.Time(o); at.After(t) {
		return at
	}
	return time.Time{}
}

// clock returns the times of a schedule that was put at start.
func (d *Schedule) clock(start time.Time) (clock, error) {
	set := 0
	for _, has := range []bool{d.Cron != "", d.Every != 0, !d.At.IsZero()} {
		if has {
			set++
		}
	}
	switch {
	case set != 1:
		return nil, invalid("Cron", fmt.Errorf("%w: set one of Cron, Every and At", ErrDefinition))
	case d.Zone != "" && d.Cron == "":
		return nil, invalid("Zone", fmt.Errorf("%w: Zone is for Cron", ErrDefinition))
	case d.Every != 0:
		err := bounds.Range("Every", d.Every, MinEvery, bounds.MaxDelay, ErrDefinition)
		return every{start, d.Every}, invalid("Every", err)
	case !d.At.IsZero():
		if err := bounds.Time(d.At); err != nil {
			return nil, invalid("At", fmt.Errorf("%w: At: %w", ErrDefinition, err))
		}
		return once(d.At), nil
	}
	zone, err := time.LoadLocation(d.Zone) // "" is UTC
	if err != nil || d.Zone == "Local" || d.Zone == "localtime" || strings.HasPrefix(d.Zone, "right/") {
		return nil, invalid("Zone", fmt.Errorf("%w: there is no such time zone; use an IANA name such as Europe/Berlin",
			ErrDefinition))
	}
	c, err := parseCron(d.Cron, zone)
	if err != nil {
		return nil, invalid("Cron", fmt.Errorf("%w: Cron: %w", ErrDefinition, err))
	}
	return c, nil
}

// MaxTimes is the largest number of times of one Preview.
const MaxTimes = 10_000

// Preview returns the next n times at which a schedule fires after from, before jitter, or fewer if it ends. Every
// counts from from. Preview returns ErrDefinition for an invalid schedule, and dbq.ErrOption unless n is 0 to MaxTimes.
func Preview(d Schedule, from time.Time, n int) ([]time.Time, error) {
	c, err := d.clock(from)
	if err != nil {
		return nil, err
	}
	return following(c, from, n)
}

// Times returns the next n times at which a stored schedule fires, before jitter, or fewer if it ends. If it is paused,
// these are its times after a Resume at now. Times returns dbq.ErrOption unless n is 0 to MaxTimes.
func (i Info) Times(now time.Time, n int) ([]time.Time, error) {
	if !i.Next.IsZero() && n > 0 { // the next time may be due already
		later, err := Preview(i.Schedule, i.Next, n-1)
		return append([]time.Time{i.Next}, later...), err
	}
	c, err := i.clock(i.start)
	if err != nil {
		return nil, err
	}
	return following(c, now, n)
}

// References returns the references of the tasks of up to n scheduled times, the newest first: that of Last, and those
// of the times in the year before it, as the schedule is now. After a change of its times, and for a time that was
// skipped, there is no task with such a reference. It returns dbq.ErrOption unless n is 1 to MaxTimes.
func (i Info) References(n int) (out []string, err error) {
	if err := bounds.Range("the number of references", n, 1, MaxTimes, errs.ErrOption); err != nil || i.Last.IsZero() {
		return nil, err
	}
	var times []time.Time // before Last
	for back := cmp.Or(i.Every, time.Hour); len(times) < n-1 && back <= lookBack; back *= 2 {
		begin := i.Last.Add(-back)
		c, err := i.clock(begin)
		if err != nil {
			return nil, err
		}
		times = nil
		for at := c.next(begin); !at.IsZero() && at.Before(i.Last); at = c.next(at) {
			times = append(times, at)
		}
	}
	for _, at := range slices.Backward(append(times, i.Last)) {
		if len(out) < n {
			out = append(out, i.reference(at))
		}
	}
	return out, nil
}

// following returns the first n times after t, or fewer.
func following(c clock, t time.Time, n int) (out []time.Time, err error) {
	if err := bounds.Range("the number of times", n, 0, MaxTimes, errs.ErrOption); err != nil {
		return nil, err
	}
	for at := c.next(t); len(out) < n && !at.IsZero(); at = c.next(at) {
		out = append(out, at)
	}
	return out, nil
}

// missed is the age from which a time counts as missed.
const missed = time.Minute

// due returns the times from first to now that fire, and the time after now. All times that are not missed fire, and
// of the missed times, the latest that CatchUp allows. It computes only the times it needs, because a year can have
// passed by the minute.
func (d *Schedule) due(c clock, first, now time.Time) (times []time.Time, next time.Time) {
	most := d.CatchUp
	switch most {
	case 0:
		most = 1
	case SkipMissed:
		most = 0
	}
	next = first
	if !first.After(now) {
		next = c.next(now)
	}
	for back := missed; ; back *= 2 {
		begin, old := now.Add(-min(back, lookBack)), 0
		at := first
		if first.Before(begin) {
			at = c.next(begin)
		}
		times = nil
		for ; !at.IsZero() && !at.After(now); at = c.next(at) {
			if times = append(times, at); now.Sub(at) > missed {
				old++
			}
		}
		if old >= most || back >= lookBack || !first.Before(begin) {
			return times[max(old-most, 0):], next
		}
	}
}
