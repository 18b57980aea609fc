package search

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// oldestFor is how long the time of the oldest leased task is valid. If finding it took long, it is valid for
	// searchShare times as long.
	oldestFor = 30 * time.Second
	// lateCheckout is how late a checkout can commit after it began, so that its tasks are found without a search from the
	// start.
	lateCheckout = time.Second
)

// An ExpiredCursor is the point from which this client searches a queue for expired leases. The index of
// leased tasks keeps an entry for each task that was leased, until the server removes it, in the order in which they
// were leased. If a search is slow because of these entries, the next one first determines when the oldest task that is
// still leased was leased. Tasks that were leased earlier but committed later are found when the cursor has expired.
type ExpiredCursor struct {
	mu     sync.Mutex
	oldest int64     // 0 is the start
	until  time.Time // of oldest; then it is found from the start again
	slow   bool      // the last search
}

// ExpiredCursorOf returns the cursor for expired leases of a queue.
func ExpiredCursorOf(s *dialect.Session, queue string) *ExpiredCursor {
	return s.LoadOrStore("expired "+queue, &ExpiredCursor{}).(*ExpiredCursor)
}

// OldestLeased returns when the oldest of a queue's leased tasks was leased, in microseconds. If this is not known,
// it runs text, which returns that time as updated, for tasks leased at :oldest or later, or the database's now less
// :late if that is earlier.
func OldestLeased(s *dialect.Session, text, queue string, query Query) (int64, error) {
	return ExpiredCursorOf(s, queue).find(func(oldest int64) (int64, error) {
		args := dialect.Args{"queue": queue, "oldest": oldest, "late": lateCheckout.Microseconds()}
		rows, err := query(text, args)
		if err != nil {
			return 0, err
		}
		return rows[0].Updated, nil
	})
}

// find returns the oldest time, which query finds from an earlier one on.
func (c *ExpiredCursor) find(query func(oldest int64) (int64, error)) (int64, error) {
	oldest, move := c.get()
	if !move {
		return oldest, nil
	}
	begin := time.Now()
	now, err := query(oldest)
	if err != nil {
		return 0, err
	}
	c.moved(oldest == 0, now, time.Since(begin))
	return now, nil
}

// Searched records how long a search for expired leases took, which found some.
func (c *ExpiredCursor) Searched(took time.Duration, found int, deadTuples DeadTuples) error {
	slow, err := isSlow(took, found, deadTuples)
	c.SetSlow(slow)
	return err
}

// SetSlow records whether a search was slow.
func (c *ExpiredCursor) SetSlow(slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = slow
}

// Reset makes the next search begin at the start.
func (c *ExpiredCursor) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
}

// get returns when the oldest leased task was leased, and whether to determine that again from there.
func (c *ExpiredCursor) get() (oldest int64, move bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	move = c.slow
	if c.oldest > 0 && time.Now().After(c.until) {
		c.oldest, move = 0, true
	}
	c.slow = false // one of several checkouts does it
	return c.oldest, move
}

func (c *ExpiredCursor) moved(fromStart bool, oldest int64, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldest = oldest
	if fromStart {
		c.until = time.Now().Add(max(oldestFor, searchShare*took))
	}
}
