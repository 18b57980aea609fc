package dialect

import (
	"sync"
	"time"
)

const (
	// oldestFor is how long the oldest task in work is good for; when it took long to find it, it is good for lookShare times as long.
	oldestFor = 30 * time.Second
	// lateCheckout is how long after it began a checkout may commit, for what it took to be found without a search from the start.
	lateCheckout = time.Second
)

// Working is how far back this client's searches for leases that ran out go, in a queue. The index of tasks in work has an entry for each that was in work
// until the server removes it, in the order in which they were taken; when a search is slow for these, the next one first finds out when the
// oldest that still is in work was taken. What was taken before and committed later than that, is found when that is over.
type Working struct {
	mu     sync.Mutex
	oldest int64     // 0 is the start
	until  time.Time // of oldest; then it is found out from the start again
	slow   bool      // the last search
}

// Working is that of a queue.
func (s *Session) Working(queue string) *Working {
	w := s.Remembered("working "+queue, &Working{})
	return w.(*Working)
}

// OldestInWork is since when a queue's tasks in work were taken, in microseconds, found out anew when that is called for. Checkout["oldest"] of the dialect says as updated when the oldest task in
// work was taken, of those that were taken at :oldest or later, or, when that is earlier, the database's now less :late.
func (s *Session) OldestInWork(queue string, ask Asker) (int64, error) {
	return s.Working(queue).find(func(oldest int64) (int64, error) {
		rows, err := ask(s.Statements.Checkout["oldest"], Args{"queue": queue, "oldest": oldest, "late": lateCheckout.Microseconds()})
		if err != nil {
			return 0, err
		}
		return rows[0].Updated, nil
	})
}

// find is the oldest, which ask finds from an earlier one on.
func (w *Working) find(ask func(oldest int64) (int64, error)) (int64, error) {
	oldest, move := w.get()
	if !move {
		return oldest, nil
	}
	begin := time.Now()
	now, err := ask(oldest)
	if err != nil {
		return 0, err
	}
	w.moved(oldest == 0, now, time.Since(begin))
	return now, nil
}

// Searched notes how long a search for leases that ran out took, which found some.
func (w *Working) Searched(took time.Duration, found int, dead Dead) error {
	slow, err := isSlow(took, found, dead)
	w.Was(slow)
	return err
}

// Was notes whether a search was slow.
func (w *Working) Was(slow bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = slow
}

// End makes the next search go back to the start.
func (w *Working) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Time{}
}

// get is when the oldest task in work was taken, and whether that is to be found out anew from there on.
func (w *Working) get() (oldest int64, move bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	move = w.slow
	if w.oldest > 0 && time.Now().After(w.until) {
		w.oldest, move = 0, true
	}
	w.slow = false // one of several checkouts does it
	return w.oldest, move
}

func (w *Working) moved(fromStart bool, oldest int64, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = oldest
	if fromStart {
		w.until = time.Now().Add(max(oldestFor, lookShare*took))
	}
}
