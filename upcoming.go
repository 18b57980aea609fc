package dbq

import (
	"cmp"
	"slices"
	"time"
)

// arrival is a time when tasks become due, in whole milliseconds since a base.
type arrival struct {
	at     time.Duration
	tasks  int
	ask    bool // whether there are tasks is to be found out
	shared bool // other processes know of it as well
	waited bool // others that know of it were to look first
}

func compareArrivals(a, b arrival) int {
	rank := func(x arrival) (n int) {
		for i, is := range []bool{x.ask, x.shared, x.waited} {
			if is {
				n |= 1 << i
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(rank(a), rank(b)))
}

// maxUpcoming is how many times a queue's bells remember. Of those beyond, the earliest is remembered as one to ask at.
const maxUpcoming = 4096

// farthest is how far ahead a time is remembered. The farthest Duration could not be rounded up.
const farthest = 100 * 365 * 24 * time.Hour

// upcoming are arrivals in their order. Those of the same millisecond are one, and none is ever put off: a dense stream of delayed tasks is
// an arrival for each millisecond.
type upcoming struct {
	known []arrival
	// rest is the earliest of those for which there was no room; expected is when the database said that something is due. Zero is none.
	rest, expected time.Duration
}

// wholeMillis rounds up, so that nothing arrives early.
func wholeMillis(d time.Duration) time.Duration {
	return (min(d, farthest) + time.Millisecond - 1).Truncate(time.Millisecond)
}

func (u *upcoming) add(a arrival) {
	a.at = wholeMillis(a.at)
	i, known := slices.BinarySearchFunc(u.known, a, compareArrivals)
	if known {
		u.known[i].tasks += a.tasks
		return
	}
	u.known = slices.Insert(u.known, i, a)
	if last := len(u.known) - 1; last == maxUpcoming {
		if u.rest == 0 || u.known[last].at < u.rest {
			u.rest = u.known[last].at
		}
		u.known = u.known[:last]
	}
}

// next is when something arrives; zero is never.
func (u *upcoming) next() time.Duration {
	next := time.Duration(0)
	if len(u.known) > 0 {
		next = u.known[0].at
	}
	for _, at := range []time.Duration{u.rest, u.expected} {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// take removes and returns what has arrived by now.
func (u *upcoming) take(now time.Duration) []arrival {
	n := 0
	for n < len(u.known) && u.known[n].at <= now {
		n++
	}
	out := slices.Clone(u.known[:n])
	u.known = slices.Delete(u.known, 0, n)
	for _, at := range []*time.Duration{&u.rest, &u.expected} {
		if *at > 0 && *at <= now {
			out = append(out, arrival{at: *at, tasks: 1, ask: true, shared: true})
			*at = 0
		}
	}
	return out
}
