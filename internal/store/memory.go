package store

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
)

// memoryMost bounds the keys that a memory remembers.
const memoryMost = 10_000

// memory remembers a value for each key, such as a queue. When it is full, it forgets an arbitrary key, so only speed
// may depend on it. It is safe for concurrent use.
type memory[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

// update replaces the value of a key by the result of f, or forgets the key if keep is false. For an unknown key, known
// is false and old is the zero value.
func (m *memory[K, V]) update(key K, f func(old V, known bool) (v V, keep bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.all[key]
	v, keep := f(old, known)
	if !keep {
		delete(m.all, key)
		return
	}
	if m.all == nil {
		m.all = map[K]V{}
	}
	if !known && len(m.all) >= memoryMost {
		for other := range m.all { // any
			delete(m.all, other)
			break
		}
	}
	m.all[key] = v
}

// expiredEvery is how often a busy client searches a queue for expired leases, so that a crashed worker's task is
// taken over soon after its lease has expired. If a search finds as many as the checkout may take, the next checkout
// searches again. A checkout that finds no due task always searches. The others do so only at times, because a search
// visits each leased task, and on PostgreSQL each task that was leased since the last vacuum.
const expiredEvery = time.Second

// expiredSearches is when this client last searched each queue for expired leases.
type expiredSearches struct{ last memory[string, time.Time] }

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

// again makes the next checkout search, because this search found as many as it asked for.
func (e *expiredSearches) again(queue string) {
	e.last.update(queue, func(last time.Time, _ bool) (time.Time, bool) { return last, false })
}

// checkoutLimits is the number of tasks that the next checkout asks for, for each queue whose payloads have cut a
// checkout short: twice as many as fitted. A search locks all tasks that it asks for, and hides from other workers even
// those that do not fit.
type checkoutLimits struct{ most memory[string, int] }

// of returns how many of n tasks a checkout of the queue asks for.
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
