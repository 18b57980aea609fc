package dbq

import "sync"

// reaches remembers of each queue whose payloads cut a checkout short how many tasks the next one is to ask for: twice as many as fitted. A
// search locks all tasks that it is asked for, also those that do not fit, and keeps them from other workers for that long.
type reaches struct {
	mu sync.Mutex
	of map[string]int
}

// reachesMost bounds the queues that reaches remembers.
const reachesMost = 10_000

// limit is how many of n tasks a checkout of the queue asks for.
func (r *reaches) limit(queue string, n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if most, ok := r.of[queue]; ok {
		return min(n, most)
	}
	return n
}

// found notes what a checkout brought that asked for limit of n tasks, and reports whether there may be more for it because of their payloads.
func (r *reaches) found(queue string, n, limit, rows int, cut bool) (more bool) {
	if !cut && limit == n {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case cut:
		r.set(queue, max(2*rows, 1))
	case rows == limit:
		r.set(queue, 2*limit)
	default: // it found all there was
		delete(r.of, queue)
		return false
	}
	return true
}

func (r *reaches) set(queue string, limit int) {
	if r.of == nil || len(r.of) >= reachesMost { // to forget costs one search that locks too many
		r.of = map[string]int{}
	}
	r.of[queue] = min(limit, MaxCheckout)
}
