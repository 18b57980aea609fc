package postgres

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// oldestFor is how long the oldest task in work is good for; when it took long to find it, it is good for lookShare times as long.
	oldestFor = 30 * time.Second
	// lateCheckout is how long after it began a checkout may commit, for what it took to be found without a search from the start.
	lateCheckout = time.Second
)

// working is how far back this client's searches for leases that ran out go. The index of tasks in work has an entry for each that was in work
// since the last vacuum, in the order in which they were taken; when a search is slow for these, the next one first finds out when the
// oldest that still is in work was taken. What was taken before and committed later than that, is found when that is over.
type working struct {
	mu     sync.Mutex
	oldest int64     // 0 is the start
	until  time.Time // of oldest; then it is found out from the start again
	slow   bool      // the last search
}

func (c *checkout) working() *working {
	w, _ := c.s.Memory.LoadOrStore("working "+c.r.Queue, &working{})
	return w.(*working)
}

// amongWorking takes tasks over whose lease ran out.
func (c *checkout) amongWorking(limit int, ask asker, take taker) ([]dialect.Row, error) {
	oldest, err := c.oldest(ask)
	if err != nil {
		return nil, err
	}
	args := c.args(limit)
	args["oldest"] = oldest
	begin := time.Now()
	rows, err := take(args)
	if err != nil {
		return rows, err
	}
	slow, err := c.slow(time.Since(begin), len(rows), ask)
	c.working().searched(slow)
	return rows, err
}

// oldest is since when the tasks in work were taken, found out anew when that is called for.
func (c *checkout) oldest(ask asker) (int64, error) {
	w := c.working()
	oldest, move := w.get()
	if !move {
		return oldest, nil
	}
	begin := time.Now()
	rows, err := ask("oldest", dialect.Args{"queue": c.r.Queue, "oldest": oldest, "late": lateCheckout.Microseconds()})
	if err != nil {
		return 0, err
	}
	w.moved(oldest == 0, rows[0].Updated, time.Since(begin))
	return rows[0].Updated, nil
}

// get is when the oldest task in work was taken, and whether that is to be found out anew from there on.
func (w *working) get() (oldest int64, move bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	move = w.slow
	if w.oldest > 0 && time.Now().After(w.until) {
		w.oldest, move = 0, true
	}
	w.slow = false // one of several checkouts does it
	return w.oldest, move
}

func (w *working) moved(fromStart bool, oldest int64, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = oldest
	if fromStart {
		w.until = time.Now().Add(max(oldestFor, lookShare*took))
	}
}

func (w *working) searched(slow bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = slow
}
