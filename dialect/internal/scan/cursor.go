// Package scan remembers where the index scans of a client begin, so that a checkout does not pass the entries of tasks
// that earlier ones took. It is for the dialects of this repository; nothing but speed depends on it.
package scan

import (
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// cursorMin is how large a checkout must be to begin at the cursor although scans from the start are quick.
	cursorMin = 100
	// cursorFor is how long a cursor is valid; then a checkout scans from the start again. When that took long, the cursor
	// is valid for scanShare times as long, but not for longer than cursorMost.
	cursorFor, cursorMost = time.Second, 30 * time.Second
	scanShare             = 20
	// slowScan and slowTask bound the time of a quick scan from the start, and of each task that it finds: about ten times
	// what they take when nothing is in the way. A longer scan is slow only if there are many dead tuples, too: the
	// machine may be busy.
	slowScan, slowTask = 10 * time.Millisecond, 200 * time.Microsecond
	// lateEnqueue is how long after it enqueued tasks a transaction may commit, for them to be found without such a scan,
	// where scans are slow.
	lateEnqueue = 5 * time.Second
)

// priorities is the number of priorities.
const priorities = 10

// FromStart returns Scan.Since of a scan that begins at the start of the index in each priority.
func FromStart() []int64 { return make([]int64, priorities) }

// A Query runs a statement that only reads.
type Query func(text string, args dialect.Args) ([]dialect.Row, error)

// DeadTuples reports whether a scan from the start, which took long, had many dead tuples to pass.
type DeadTuples func() (bool, error)

// A Cursor is where this client's checkouts of a queue begin to search for due tasks, by priority. An index has an
// entry for each task that was taken until the server removes it, and a scan from the start passes all of them:
// hundreds of thousands while a transaction is held open anywhere in the database. Large checkouts begin at the cursor.
// Small ones do when scans from the start are slow, and otherwise find their tasks in strict order each time.
//
// A task that is due before the cursor, because its transaction committed late or another client backdated it, and a
// lease that expired are found when the cursor has expired, or once a query from the start reports that something is
// due. Each process has cursors of its own.
type Cursor struct {
	mu    sync.Mutex
	since []int64 // nil is the start
	until time.Time
	slow  bool // the last scan from the start
	taken int
}

// CursorOf returns the cursor of a queue.
func CursorOf(s *dialect.Session, queue string) *Cursor {
	return s.Remembered("cursor "+queue, &Cursor{}).(*Cursor)
}

// Reset makes the next scan begin at the start.
func (c *Cursor) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
}

// Backdated resets the cursor for a task that this client added, if it has been due for longer than scans look back.
func (c *Cursor) Backdated(by time.Duration) {
	if by > lateEnqueue {
		c.Reset()
	}
}

// Taken is the number of tasks that this client has taken from the queue.
func (c *Cursor) Taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// A Scan is one search for due tasks.
type Scan struct {
	// Since is, for each priority, when the first task that may be found had become due, in microseconds.
	Since []int64
	// FromCursor says that the scan begins at the cursor. Another one begins at the start, and searches for leases that
	// expired, when the cursor has expired.
	FromCursor bool

	cursor *Cursor
	limit  int
}

// Begin begins a search for up to limit tasks. Found or Checked ends it, and moves the cursor.
func (c *Cursor) Begin(limit int) Scan {
	s := Scan{cursor: c, limit: limit}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.until) {
		c.until = now.Add(cursorFor) // one of several scans begins at the start
	} else if c.since != nil && (limit >= cursorMin || c.slow) {
		s.Since, s.FromCursor = c.since, true
		return s
	}
	s.Since = FromStart()
	return s
}

// Found ends a scan that took rows, in a time, and moves the cursor to the first of them. dead and now, the time by the
// database's clock, are called only when they matter. An error is one of theirs; nothing but speed depends on it.
func (s Scan) Found(rows []dialect.Row, took time.Duration, dead DeadTuples, now func() (int64, error)) error {
	c := s.cursor
	if !s.FromCursor {
		if err := c.scanned(took, len(rows), dead); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.taken += len(rows)
	slow := c.slow
	c.mu.Unlock()
	switch {
	case (len(rows) == s.limit || isCut(rows)) && (slow || s.limit >= cursorMin):
		c.moveTo(rows, s.Since, slow)
	case s.FromCursor || isCut(rows):
	case slow: // it passed all that was due
		if len(rows) > 0 {
			c.pass(rows[0].Now)
			return nil
		}
		at, err := now()
		if err == nil {
			c.pass(at)
		}
		return err
	case len(rows) < s.limit: // the backlog is gone
		c.set(nil)
	}
	return nil
}

// Checked ends a scan that only found out when something is due, and reports whether it was slow.
func (s Scan) Checked(next dialect.Row, took time.Duration, dead DeadTuples) (slow bool, err error) {
	c := s.cursor
	if s.FromCursor {
		return false, nil
	}
	if err := c.scanned(took, 0, dead); err != nil {
		return false, err
	}
	c.mu.Lock()
	slow = c.slow
	c.mu.Unlock()
	switch {
	case next.Due != nil && *next.Due <= next.Now: // perhaps before the cursor: the checkout that follows is to find it
		c.Reset()
	case slow: // it passed all that was due
		c.pass(next.Now)
	}
	return slow, nil
}

// scanned records how long a scan from the start took that found some tasks.
func (c *Cursor) scanned(took time.Duration, found int, dead DeadTuples) error {
	slow, err := isSlow(took, found, dead)
	valid := cursorFor
	if slow {
		valid = min(max(cursorFor, scanShare*took), cursorMost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow, c.until = slow, time.Now().Add(valid)
	return err
}

// isSlow reports whether a scan that found some tasks took long for what it had to pass.
func isSlow(took time.Duration, found int, dead DeadTuples) (bool, error) {
	if took <= slowScan+time.Duration(found)*slowTask {
		return false, nil
	}
	return dead()
}

// moveTo moves the cursor to the first of rows, for each priority that has some. The scan passed the better priorities;
// when scans are slow it need not do so again. For the others the cursor stays where it was.
func (c *Cursor) moveTo(rows []dialect.Row, was []int64, slow bool) {
	since, seen, last := slices.Clone(was), [priorities]bool{}, 0
	for _, r := range rows {
		if p := r.Priority; !seen[p] || r.WasDue < since[p] {
			since[p], seen[p] = r.WasDue, true
			last = max(last, p)
		}
	}
	for p := range last {
		if !seen[p] && slow {
			since[p] = max(since[p], rows[0].Now-lateEnqueue.Microseconds())
		}
	}
	c.set(since)
}

// pass moves the cursor of all priorities past what was due at a time and is committed already.
func (c *Cursor) pass(now int64) {
	c.set(slices.Repeat([]int64{now - lateEnqueue.Microseconds()}, priorities))
}

func (c *Cursor) set(since []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = since
}
