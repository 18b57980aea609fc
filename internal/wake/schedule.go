package wake

import (
	"cmp"
	"slices"
	"time"
)

// dueTime is a time when tasks become due.
type dueTime struct {
	at time.Duration
	Wakeup
	delayed bool // other processes that know of it were given time to check out first
}

func compareDueTimes(a, b dueTime) int {
	rank := func(x dueTime) (n int) {
		for i, is := range []bool{x.Uncertain, x.Shared, x.delayed} {
			if is {
				n |= 1 << i
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(rank(a), rank(b)))
}

// maxScheduled limits the times in a schedule. Of further times, only the earliest is kept, as an uncertain one.
const maxScheduled = 4096

// farthest limits how far ahead a time can be. The largest Duration could not be rounded up.
const farthest = 100 * 365 * 24 * time.Hour

// wholeMillis rounds up, so no wake-up is early.
func wholeMillis(d time.Duration) time.Duration {
	return (min(d, farthest) + time.Millisecond - 1).Truncate(time.Millisecond)
}

// schedule holds times when tasks become due, in order, in whole milliseconds since the hub's start. Times in the
// same millisecond are merged, and none is ever postponed: a dense stream of delayed tasks has one time for each
// millisecond.
type schedule struct {
	times []dueTime
	// overflow is the earliest of the times that did not fit; expected is the due time that the database reported. Zero
	// means none.
	overflow, expected time.Duration
}

func (s *schedule) add(d dueTime) {
	d.at = wholeMillis(d.at)
	i, known := slices.BinarySearchFunc(s.times, d, compareDueTimes)
	if known {
		s.times[i].tasks += d.tasks
		return
	}
	s.times = slices.Insert(s.times, i, d)
	if last := len(s.times) - 1; last == maxScheduled {
		if s.overflow == 0 || s.times[last].at < s.overflow {
			s.overflow = s.times[last].at
		}
		s.times = s.times[:last]
	}
}

// next returns the earliest time; zero means none.
func (s *schedule) next() time.Duration {
	next := time.Duration(0)
	if len(s.times) > 0 {
		next = s.times[0].at
	}
	for _, at := range []time.Duration{s.overflow, s.expected} {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// take removes and returns the times that have come.
func (s *schedule) take(now time.Duration) []dueTime {
	n := 0
	for n < len(s.times) && s.times[n].at <= now {
		n++
	}
	out := slices.Clone(s.times[:n])
	s.times = slices.Delete(s.times, 0, n)
	for _, at := range []*time.Duration{&s.overflow, &s.expected} {
		if *at > 0 && *at <= now {
			out = append(out, dueTime{at: *at, Wakeup: Wakeup{tasks: 1, Uncertain: true, Shared: true}})
			*at = 0
		}
	}
	return out
}
