package store

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// ahead is what a checkout within limits reads in the round trip in which it locks them, if the connection is a
// Pipeline. It guesses from the limits that it read last what it will need. The lock is held meanwhile, so a checkout
// that waits for the answer of each statement keeps the others waiting; and the keys are read before it, if possible.
type ahead struct {
	busyText string
	busy     *[]sqlrun.KeyCount
	first    *[]dialect.Row // of DueFirst
	keys     *[]dialect.Row // of DueKeys or DueKeysNext
	limit    int            // of first or keys
	guess    *lastTurn      // that keys follow, if they were read before the lock
	guessed  bool           // the search has used them
}

// lastTurn is what a checkout has chosen in turn.
type lastTurn struct {
	after   string // the key that was served last
	version int64  // of the record of the limits, when the checkout has committed
	tasks   map[uuid.UUID]bool
}

// turnGuess is what a client knows of the last turn of a queue. A checkout reads the keys that follow it before it
// locks the limits, so while another one of this client still leases its tasks. They are as good as keys that are read
// under the lock if no other client has had a turn in between, and if the wait was short: tasks are cancelled and
// postponed without the lock. Otherwise the checkout reads them again, and the next ones read them under the lock at
// first, because reading them twice takes longer. No promise depends on it.
type turnGuess struct {
	mu    sync.Mutex
	last  *lastTurn
	pause int // checkouts that do not guess
}

// guessFor is how long before the limits were locked keys may have been read.
const guessFor = 100 * time.Millisecond

// guessPause is how many checkouts do not guess after one has guessed wrong.
const guessPause = 16

// get returns what the next turn probably follows, or nil.
func (g *turnGuess) get() *lastTurn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pause > 0 {
		g.pause--
		return nil
	}
	return g.last
}

// set notes a turn. version is that of the record when it ends. After a turn of more tasks than keys are read at once,
// there is no guess.
func (g *turnGuess) set(after string, version int64, chosen []dialect.Row) {
	var last *lastTurn
	if len(chosen) <= keysOnce {
		last = &lastTurn{after: after, version: version, tasks: make(map[uuid.UUID]bool, len(chosen))}
		for _, row := range chosen {
			last.tasks[row.ID] = true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = last
}

// wrong notes that a checkout has guessed wrong.
func (g *turnGuess) wrong() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pause = guessPause
}

// busyText is the statement that counts the leased tasks under limits, if these need it.
func (c *checkoutWithin) busyText(l Limits) string {
	switch {
	case l.Leased == 0 && l.perKey() == 0:
		return ""
	case l.PerKey:
		return c.s.sql.Texts.BusyKeys
	}
	return c.s.sql.Texts.Busy
}

// limitsAhead returns the limits as they were last read, or nil if nothing is to be read ahead.
func (c *checkoutWithin) limitsAhead() *Limits {
	if c.state.refused.Load() || c.s.sql.Texts.DueKeysNext == "" {
		return nil
	}
	return c.state.limits.Load()
}

// readKeysAhead sends, before the limits are locked, the search for the keys whose turn it probably is.
func (c *checkoutWithin) readKeysAhead(ctx context.Context) (err error) {
	l, a := c.limitsAhead(), &c.ahead
	if l == nil || !l.PerKey || !c.state.backlog.Load() {
		return nil
	}
	if a.guess = c.state.turn.get(); a.guess == nil {
		return nil
	}
	a.limit = c.keysAhead()
	a.keys, err = sqlrun.QueryLater[dialect.Row](ctx, c.s.sql, c.conn, c.s.sql.Texts.DueKeys,
		dialect.Args{"queue": c.r.Queue, "after": cmp.Or(a.guess.after, beforeAll), "limit": a.limit})
	return err
}

// keysAhead is how many keys are read ahead.
func (c *checkoutWithin) keysAhead() int { return min(c.r.Limit+c.state.spare.count(), keysOnce) }

// keysAfter returns the keys after a given one that were read ahead, and how many were wanted, if they may be used.
func (c *checkoutWithin) keysAfter(key string) (rows []dialect.Row, limit int, ok bool) {
	a := &c.ahead
	if a.keys == nil {
		return nil, 0, false
	}
	rows, a.keys = *a.keys, nil
	switch {
	case a.guess == nil:
		return rows, a.limit, true
	case len(rows) == 0: // the turn begins again, which costs nothing twice
		return nil, 0, false
	case !c.isTurn(rows, key):
		c.state.turn.wrong()
		return nil, 0, false
	}
	a.guessed = true
	return rows, a.limit, true
}

// isTurn reports whether rows, which were read before the limits were locked, are the next keys after a given one. The
// record has the version after that of the guess if no other client has locked it since. The tasks of the turn before
// were not leased yet when the keys were read.
func (c *checkoutWithin) isTurn(rows []dialect.Row, key string) bool {
	guess := c.ahead.guess
	return guess.after == key && c.old.Version == guess.version+1 &&
		c.old.Now-rows[0].Now <= guessFor.Microseconds() &&
		!slices.ContainsFunc(rows, func(row dialect.Row) bool { return guess.tasks[row.ID] })
}

// readAhead sends, right after the statement that locks the limits, what the checkout will probably need under them.
func (c *checkoutWithin) readAhead(ctx context.Context) (err error) {
	l, texts, a := c.limitsAhead(), c.s.sql.Texts, &c.ahead
	if l == nil {
		return nil
	}
	if a.busyText = c.busyText(*l); a.busyText != "" {
		a.busy, err = sqlrun.QueryLater[sqlrun.KeyCount](ctx, c.s.sql, c.conn, a.busyText,
			dialect.Args{"queue": c.r.Queue})
	}
	if err != nil || !l.PerKey || a.keys != nil {
		return err
	}
	if c.state.backlog.Load() {
		a.limit = c.keysAhead()
		a.keys, err = sqlrun.QueryLater[dialect.Row](ctx, c.s.sql, c.conn, texts.DueKeysNext,
			dialect.Args{"queue": c.r.Queue, "limit": a.limit})
	} else {
		a.limit = dueFirst + len(c.state.locked.get())
		a.first, err = sqlrun.QueryLater[dialect.Row](ctx, c.s.sql, c.conn, texts.DueFirst,
			dialect.Args{"queue": c.r.Queue, "limit": a.limit})
	}
	return err
}

// busy counts the leased tasks, by key if there are limits per key. What was read ahead does not count when this
// checkout has leased tasks since.
func (c *checkoutWithin) busy(ctx context.Context) ([]sqlrun.KeyCount, error) {
	text := c.busyText(c.limits)
	if c.ahead.busy != nil && text == c.ahead.busyText && len(c.leased.Rows) == 0 {
		return *c.ahead.busy, nil
	}
	return sqlrun.QueryAs[sqlrun.KeyCount](ctx, c.s.sql, c.conn, text, dialect.Args{"queue": c.r.Queue})
}
