package schedule

import (
	"context"
	"time"
)

// setBack reports whether the database's clock may have been set back: at the first call, and if it shows an earlier
// time than at the last one.
func (s *Schedules) setBack(now int64) bool {
	last := s.newest.Swap(now)
	return last == 0 || now < last-MinEvery.Microseconds()
}

// correct corrects the next times of all schedules. Without it, one that had fired while the database's clock was ahead
// would not fire until that time came.
func (s *Schedules) correct(ctx context.Context) error {
	records, err := s.store.ListKV(ctx, namespace)
	if err != nil {
		return err
	}
	for _, r := range records {
		v, err := parse(r)
		if err != nil || r.Expires == nil || r.Expired() {
			continue // fireDue reports those that cannot be read when they are due
		}
		was, now := v.Next, nowOf(r)
		if changed, err := v.correct(now); err != nil || !changed {
			continue
		}
		text, ttl, err := v.encode(now)
		if err != nil {
			return err
		}
		done, err := s.store.SwapKV(ctx, r, true, namespace, r.Name, text, ttl)
		if err != nil {
			return err
		}
		if done { // otherwise another process has changed it
			s.core.Logger.Warn("dbq: a schedule's next time was corrected; the database's clock was set back",
				"schedule", r.Name, "was", was, "next", v.Next)
		}
	}
	return nil
}

// correct sets the next time to the first one from now if it is later than the second: it was stored while the
// database's clock was ahead. The first one may have fired just before the clock was set back a little. Every counts
// from now if it would begin later than the next time.
func (v *value) correct(now time.Time) (changed bool, err error) {
	if v.Every > 0 && v.Start.Sub(now) > time.Duration(v.Every) {
		v.Start = now
	}
	d := v.schedule("")
	c, err := d.clock(v.Start)
	if err != nil {
		return false, err
	}
	first := c.next(now)
	if first.IsZero() {
		return false, nil
	}
	if second := c.next(first); second.IsZero() || !v.Next.After(second) { // a single time has no second
		return false, nil
	}
	v.Next = first
	return true, nil
}
