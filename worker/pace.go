package worker

import (
	"math"
	"time"
)

const (
	// paceWeight is the weight of the previous average, in measurements: the average follows a change within a few
	// measurements.
	paceWeight = 3
	// aheadCheckouts is how far ahead tasks are leased, in durations of a checkout. Tasks leased earlier would only
	// wait, although another worker could start them.
	aheadCheckouts = 2
	// leastAhead is the minimum time ahead: on a busy machine, any checkout can be late.
	leastAhead = 10 * time.Millisecond
	// staleAfter is how long a surplus task may wait before it is released.
	staleAfter = 100 * time.Millisecond
)

// pace decides how many tasks are leased ahead of the executors, from the durations of handlers and checkouts. It is
// not safe for concurrent use.
type pace struct {
	handler  time.Duration // average of one call; 0 if not measured yet
	checkout time.Duration
	ahead    int // the last decision
}

func average(before time.Duration, n int, total time.Duration) time.Duration {
	if n == 0 {
		return before
	}
	if before == 0 {
		return max(total/time.Duration(n), 1)
	}
	return max((paceWeight*before+total)/time.Duration(paceWeight+n), 1)
}

// handled adds n calls of the handler with the given total duration.
func (p *pace) handled(n int, total time.Duration) { p.handler = average(p.handler, n, total) }

// checkedOut adds a checkout.
func (p *pace) checkedOut(took time.Duration) { p.checkout = average(p.checkout, 1, took) }

// horizon is the time for which tasks are leased ahead.
func (p *pace) horizon() time.Duration { return max(aheadCheckouts*p.checkout, leastAhead) }

// decide returns how many calls the executors will start within the horizon, beyond one for each idle executor.
// running has the ages of the calls under way. The result is at most most, and at most four times the sum of the last
// result and the number of executors. again is when the result may change if nothing happens before.
func (p *pace) decide(idle int, running []time.Duration, most int) (ahead int, again time.Duration) {
	again = math.MaxInt64
	if p.handler == 0 || p.checkout == 0 {
		p.ahead = 0
		return 0, again
	}
	h := p.horizon()
	calls := float64(idle) * float64(h/p.handler)
	for _, age := range running {
		left := max(p.handler-age, 0)
		switch {
		case age > max(2*p.handler, h): // it is slower than others: its end cannot be predicted
		case left >= h:
			again = min(again, left-h+1)
		default:
			calls += 1 + float64((h-left)/p.handler)
		}
	}
	p.ahead = int(min(calls, float64(most), float64(4*(p.ahead+idle+len(running)))))
	return p.ahead, again
}
