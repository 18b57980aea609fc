package store

import (
	"fmt"
	"math"
	"time"

	"github.com/dbq-go/dbq/internal/errs"
)

// Rate is a number of starts in a time, on average, of which up to Burst may come at once. The zero value is no limit.
type Rate struct {
	Starts int
	Per    time.Duration
	Burst  int
}

func (r Rate) check() error {
	switch {
	case r == Rate{}:
		return nil
	case r.Starts < 1 || r.Starts > maxStarts:
		return fmt.Errorf("%w: a rate of %d starts; it must be 1 to %d", errs.ErrOption, r.Starts, maxStarts)
	case r.Per < time.Millisecond || r.Per > maxRatePer:
		return fmt.Errorf("%w: a rate per %v; the time must be %v to %v", errs.ErrOption, r.Per, time.Millisecond, maxRatePer)
	case r.Burst < 1 || r.Burst > maxStarts:
		return fmt.Errorf("%w: a burst of %d starts; it must be 1 to %d", errs.ErrOption, r.Burst, maxStarts)
	case r.interval() > int64(math.MaxInt64/2/time.Duration(r.Burst)):
		return fmt.Errorf("%w: a burst of %d is too large for a rate of %d per %v", errs.ErrOption, r.Burst, r.Starts, r.Per)
	}
	return nil
}

// interval is the time of one start in nanoseconds, rounded up so that the rate is never exceeded.
func (r Rate) interval() int64 {
	if r == (Rate{}) {
		return 0
	}
	return (int64(r.Per) + int64(r.Starts) - 1) / int64(r.Starts)
}

// allowed returns how many starts the rate allows at now, and, if it is none, how long it is until the next. full is
// when all of the burst is free again; all times are in nanoseconds. This is the generic cell rate algorithm.
func (r Rate) allowed(now, full int64) (n int, wait time.Duration) {
	if r == (Rate{}) {
		return math.MaxInt, 0
	}
	room := r.latest(now) - r.believed(now, full)
	if room >= r.interval() {
		return int(room / r.interval()), 0
	}
	return 0, time.Duration(r.interval() - room)
}

// after returns full after n starts at now.
func (r Rate) after(now, full int64, n int) int64 {
	if r == (Rate{}) || n == 0 {
		return full
	}
	return r.believed(now, full) + int64(n)*r.interval()
}

// ClockSkew is how far apart two readings of the database's clock may be: the clocks of a cluster's nodes differ, and a
// statement that began earlier may read what a later one wrote.
const ClockSkew = time.Minute

// believed returns full, or now if that is later, or if full is later than it can be: it was stored while the
// database's clock was ahead, and would stop the queue until that time.
func (r Rate) believed(now, full int64) int64 {
	if full < now || full > r.latest(now)+int64(ClockSkew) {
		return now
	}
	return full
}

// latest is the latest that full can be at now. After a change of the rate, a later one would keep tasks waiting as
// long as the earlier rate did.
func (r Rate) latest(now int64) int64 { return now + int64(r.Burst)*r.interval() }
