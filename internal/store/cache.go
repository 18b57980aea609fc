package store

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
)

// maxCached limits the keys of a cache.
const maxCached = 10_000

// cache keeps a value for each key, such as a queue. When it is full, it forgets an arbitrary key, so only speed
// may depend on it. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

// update replaces the value of a key by the result of f, or forgets the key if keep is false. For an unknown key, known
// is false and old is the zero value.
func (c *cache[K, V]) update(key K, f func(old V, known bool) (v V, keep bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.all[key]
	v, keep := f(old, known)
	if !keep {
		delete(c.all, key)
		return
	}
	if c.all == nil {
		c.all = map[K]V{}
	}
	if !known && len(c.all) >= maxCached {
		for other := range c.all { // any
			delete(c.all, other)
			break
		}
	}
	c.all[key] = v
}

// expiredEvery is how often a busy client searches a queue for expired leases, so that a crashed worker's task is
// taken over soon after its lease has expired. If a search finds as many as the checkout may take, the next checkout
// searches again. A checkout that finds no due task always searches. The others do so only at times, because a search
// visits each leased task, and on PostgreSQL each task that was leased since the last vacuum.
const expiredEvery = time.Second

// expiredSearches has the time of this client's last search for expired leases in each queue.
type expiredSearches struct{ last cache[string, time.Time] }

// due reports whether a checkout at now searches the queue, and then records that search.
func (e *expiredSearches) due(queue string, now time.Time) (due bool) {
	e.last.update(queue, func(last time.Time, known bool) (time.Time, bool) {
		if due = !known || now.Sub(last) >= expiredEvery; due {
			return now, true
		}
		return last, true
	})
	return due
}

// again makes the next checkout search, because this search found as many as requested.
func (e *expiredSearches) again(queue string) {
	e.last.update(queue, func(last time.Time, _ bool) (time.Time, bool) { return last, false })
}

// checkoutLimits has the number of tasks that the next checkout requests, for each queue whose payloads have cut a
// checkout short: twice as many as fitted. A search locks all tasks that it requests, and hides from other workers even
// those that do not fit.
type checkoutLimits struct{ most cache[string, int] }

// of returns the number of tasks, up to n, that a checkout of the queue requests.
func (l *checkoutLimits) of(queue string, n int) int {
	l.most.update(queue, func(most int, known bool) (int, bool) {
		if known {
			n = min(n, most)
		}
		return most, known
	})
	return n
}

// learn records the result of a checkout of n tasks, and reports whether due tasks may have been left because they did
// not fit.
func (l *checkoutLimits) learn(queue string, n, limit, rows int, cut bool) (more bool) {
	if !cut && limit == n {
		return false
	}
	l.most.update(queue, func(int, bool) (int, bool) {
		switch {
		case cut:
			more = true
			return min(max(2*rows, 1), bounds.MaxCheckout), true
		case rows == limit:
			more = true
			return min(2*limit, bounds.MaxCheckout), true
		}
		return 0, false // it found all due tasks
	})
	return more
}
