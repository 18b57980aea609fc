// Package search makes checkouts quick, for dialects whose engines keep an index entry for each task that was leased.
//
// A Cursor remembers where a client's searches for due tasks start, so that a checkout does not pass the entries of
// tasks that earlier checkouts leased; ExpiredCursor does so for expired leases, and NextFrom for dialect.Searcher.
// Candidates keeps checkouts with the strategy dialect.CAS off each other's tasks. Small remembers whether a cheaper
// search will do, because a queue's payloads are small.
//
// Only speed depends on what they remember, which Session.LoadOrStore keeps. dialect/postgres/cursor.go is an example.
package search

import (
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// cursorMin is the size from which a checkout starts at the cursor even if searches from the start are quick.
	cursorMin = 100
	// cursorFor is how long a cursor is valid; then a checkout searches from the start again. If that search took long,
	// the cursor is valid for searchShare times as long, but at most for cursorMost.
	cursorFor, cursorMost = time.Second, 30 * time.Second
	searchShare           = 20
	// slowSearch and slowTask limit the time of a quick search from the start, and of each task that it finds: about ten
	// times their duration without dead tuples. A longer search counts as slow only if there are also many dead tuples,
	// because the machine may be busy.
	slowSearch, slowTask = 10 * time.Millisecond, 200 * time.Microsecond
	// lateEnqueue is how late a transaction can commit after it enqueued tasks, so that checkouts find them without a
	// search from the start while searches are slow.
	lateEnqueue = 5 * time.Second
)

// Priorities is the number of priorities.
const Priorities = 10

// FromStart returns Scan.Since for a search from the start of the index in each priority.
func FromStart() []int64 { return make([]int64, Priorities) }

// A Query runs a statement that only reads.
type Query func(text string, args dialect.Args) ([]dialect.Row, error)

// DeadTuples reports whether a slow search from the start had to pass many dead tuples.
type DeadTuples func() (bool, error)

// A Cursor is the point from which this client's checkouts of a queue search for due tasks, by priority. The index
// keeps an entry for each leased task until the server removes it, and a search from the start passes all of these
// entries: hundreds of thousands while a transaction is held open anywhere in the database. Large checkouts start at
// the cursor. Small ones do so only if searches from the start are slow; otherwise they find their tasks in strict
// order.
//
// A task can be due before the cursor, because its transaction committed late or another client backdated it.
// Checkouts find such tasks, and expired leases, when the cursor has expired, or once a query from the start reports
// that something is due. Each process has its own cursors.
type Cursor struct {
	mu    sync.Mutex
	since []int64 // nil means the start
	until time.Time
	slow  bool // the last search from the start
	taken int
}

// CursorOf returns the cursor of a queue.
func CursorOf(s *dialect.Session, queue string) *Cursor {
	return s.LoadOrStore("cursor "+queue, &Cursor{}).(*Cursor)
}

// Reset makes the next search start at the beginning of the index.
func (c *Cursor) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
}

// Backdated resets the cursor for a task that this client added, if the task has been due for longer than searches look
// back.
func (c *Cursor) Backdated(by time.Duration) {
	if by > lateEnqueue {
		c.Reset()
	}
}

// Taken returns the number of tasks that this client has leased from the queue.
func (c *Cursor) Taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// A Scan looks for due tasks once.
type Scan struct {
	// Since is, for each priority, the due time from which the search finds tasks, in microseconds.
	Since []int64
	// FromCursor reports that the search starts at the cursor. When the cursor has expired, another search starts at the
	// beginning of the index and searches for expired leases.
	FromCursor bool

	cursor *Cursor
	limit  int
}

// Begin starts a search for up to limit tasks. Found or Checked ends it and moves the cursor.
func (c *Cursor) Begin(limit int) Scan {
	s := Scan{cursor: c, limit: limit}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.until) {
		c.until = now.Add(cursorFor) // only one of several searches starts at the beginning
	} else if c.since != nil && (limit >= cursorMin || c.slow) {
		s.Since, s.FromCursor = c.since, true
		return s
	}
	s.Since = FromStart()
	return s
}

// Found ends a search that leased rows in a given time, and moves the cursor to the first of them. It calls
// deadTuples and now (the time by the database's clock) only if needed. Its error comes from these; only speed
// depends on it.
func (s Scan) Found(
	result dialect.CheckoutResult, took time.Duration, deadTuples DeadTuples, now func() (int64, error),
) error {
	c, rows := s.cursor, result.Rows
	if !s.FromCursor {
		if err := c.searched(took, len(rows), deadTuples); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.taken += len(rows)
	slow := c.slow
	c.mu.Unlock()
	switch {
	case (len(rows) == s.limit || result.More) && (slow || s.limit >= cursorMin):
		c.moveTo(rows, s.Since, slow)
	case s.FromCursor || result.More:
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
	case len(rows) < s.limit: // there is no backlog
		c.set(nil)
	}
	return nil
}

// Checked ends a search that only determined when something is due, and reports whether it was slow.
func (s Scan) Checked(next dialect.Row, took time.Duration, deadTuples DeadTuples) (slow bool, err error) {
	c := s.cursor
	if s.FromCursor {
		return false, nil
	}
	if err := c.searched(took, 0, deadTuples); err != nil {
		return false, err
	}
	c.mu.Lock()
	slow = c.slow
	c.mu.Unlock()
	switch {
	case next.Due != nil && *next.Due <= next.Now: // it may be before the cursor: the next checkout must find it
		c.Reset()
	case slow: // it passed all that was due
		c.pass(next.Now)
	}
	return slow, nil
}

// searched records how long a search from the start took that found some tasks.
func (c *Cursor) searched(took time.Duration, found int, deadTuples DeadTuples) error {
	slow, err := isSlow(took, found, deadTuples)
	valid := cursorFor
	if slow {
		valid = min(max(cursorFor, searchShare*took), cursorMost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow, c.until = slow, time.Now().Add(valid)
	return err
}

// isSlow reports whether a search was slow for the number of tasks that it found.
func isSlow(took time.Duration, found int, deadTuples DeadTuples) (bool, error) {
	if took <= slowSearch+time.Duration(found)*slowTask {
		return false, nil
	}
	return deadTuples()
}

// moveTo moves the cursor to the first of rows, for each priority that has rows. The search has passed the better
// priorities; if searches are slow, it need not pass them again. For the other priorities, the cursor does not change.
func (c *Cursor) moveTo(rows []dialect.Row, was []int64, slow bool) {
	since, seen, last := slices.Clone(was), [Priorities]bool{}, 0
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

// pass moves the cursor of all priorities past the tasks that were due at a time and are already committed.
func (c *Cursor) pass(now int64) {
	c.set(slices.Repeat([]int64{now - lateEnqueue.Microseconds()}, Priorities))
}

func (c *Cursor) set(since []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = since
}
