package worker

import (
	"math"
	"time"
)

const (
	// paceWeight is how many measurements the average before them counts for: a change of pace is seen within a few.
	paceWeight = 3
	// aheadCheckouts is for how many times a checkout's latency the executors are supplied. Tasks leased earlier only wait, and another
	// worker could have started them.
	aheadCheckouts = 2
	// leastAhead is for how long at least: a busy machine makes a checkout late at any time, and so little work can wait.
	leastAhead = 10 * time.Millisecond
	// staleAfter is how long a task that is leased ahead may wait when it is more than the executors will need soon.
	staleAfter = 100 * time.Millisecond
)

// pace decides how many tasks are leased ahead of the executors, by how long handlers and checkouts take. It is not safe for concurrent
// use.
type pace struct {
	handler  time.Duration // of one call, on average; 0 is not measured yet
	checkout time.Duration
	ahead    int // as decided last
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

// handled takes in n calls of the handler that took total together.
func (p *pace) handled(n int, total time.Duration) { p.handler = average(p.handler, n, total) }

// checkedOut takes in a checkout.
func (p *pace) checkedOut(took time.Duration) { p.checkout = average(p.checkout, 1, took) }

// horizon is for how long the executors are to be supplied.
func (p *pace) horizon() time.Duration { return max(aheadCheckouts*p.checkout, leastAhead) }

// decide says how many calls executors will begin within the horizon, beyond one for each that is idle: running are the ages of the calls
// under way. At most counts are enough, and it grows no more than fourfold at a time. again is when the answer may be another one, if
// nothing happens before.
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
		case age > max(2*p.handler, h): // it is slower than others: nobody knows
		case left >= h:
			again = min(again, left-h+1)
		default:
			calls += 1 + float64((h-left)/p.handler)
		}
	}
	p.ahead = int(min(calls, float64(most), float64(4*(p.ahead+idle+len(running)))))
	return p.ahead, again
}
