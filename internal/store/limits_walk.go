package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxSpareKeys is the most keys that a walk reads beyond those that it needs.
const maxSpareKeys = 32

// spareKeys is how many keys a walk reads beyond those that it needs, for those of which it may start no task: twice as
// many as the walk before could not use, or one less than it had. The limits are locked while the keys are read. No
// promise depends on it.
type spareKeys struct{ n atomic.Int64 }

func (s *spareKeys) count() int { return int(s.n.Load()) }

// unused notes how many keys a walk has read of which it could start no task.
func (s *spareKeys) unused(n int) {
	s.n.Store(max(int64(min(2*n, maxSpareKeys)), s.n.Load()-1, 0))
}

// vainWalk is a walk over the keys of a queue, through several checkouts of a client, in which none may start a task.
// No promise depends on it.
type vainWalk struct {
	mu        sync.Mutex
	under     bool   // way: the last checkout has stopped before it had seen all keys
	begin, at string // the walk began after begin, and has come to at
	next      int64  // when the first of the keys that it has passed over may start a task, in nanoseconds
}

// stopped notes that a checkout has passed over the keys after from, up to at, and no others. It reports whether the
// next checkout should go on at once: not if the walk has come round.
func (w *vainWalk) stopped(from, at string) (goOn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.under {
		w.under, w.begin, w.at = true, from, from
	}
	w.under = !between(w.at, w.begin, at) // another client may have walked from w.at to from
	w.at = at
	return w.under
}

// ended notes that a checkout has chosen tasks, or has seen all keys.
func (w *vainWalk) ended() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under = false
}

// soonest adds how long a checkout, whose time was now, would have to wait for the keys that it passed over, or 0. It
// returns how long it is until the first key of the walk may start a task, or 0 if none is known.
func (w *vainWalk) soonest(now int64, wait time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := now + int64(wait); wait > 0 && (w.next == 0 || at < w.next) {
		w.next = at
	}
	next := w.next
	if !w.under {
		w.next = 0
	}
	if next == 0 {
		return 0
	}
	return time.Duration(max(next-now, 1)) // its time may have come during the walk
}

// between reports whether key is among those after from, up to to, where the first key follows the last one. There are
// none if from is to: a walk whose transaction was rolled back goes on from where it has come to.
func between(from, key, to string) bool {
	if from <= to {
		return from < key && key <= to
	}
	return from < key || key <= to
}
