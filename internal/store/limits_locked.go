package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// A checkout that chooses tasks by their keys does not lease those whose rows other transactions have locked. So that
// they delay no others, it then searches again, behind more and more of them, and the client remembers them for a
// moment: its next checkouts choose others first.
const (
	// lockedRounds is how many searches a checkout makes, and lockedOnce how many rows one of them tries to lock.
	lockedRounds = 8
	lockedOnce   = 500
	// lockedSpare is how many tasks a search wants beyond those that are asked for, after one has met locked rows.
	lockedSpare = 64
	// maxLocked is how many locked tasks of a queue a client remembers, and rememberLocked for how long: after that it
	// tries to lease them again, in their turn.
	maxLocked      = 10_000
	rememberLocked = time.Second
)

// lockedTasks are the tasks of a queue whose rows other transactions had locked a moment ago, with their keys.
type lockedTasks struct {
	mu    sync.Mutex
	keys  map[uuid.UUID]string
	until time.Time // when it forgets them
}

func (l *lockedTasks) get() map[uuid.UUID]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.keys) > 0 && time.Now().After(l.until) {
		l.keys = nil
	}
	return maps.Clone(l.keys)
}

// add adds tasks, and returns how many of them it did not have.
func (l *lockedTasks) add(rows []dialect.Row) (added int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.keys) == 0 {
		l.keys, l.until = map[uuid.UUID]string{}, time.Now().Add(rememberLocked)
	}
	before := len(l.keys)
	for _, row := range rows[:min(len(rows), maxLocked-before)] {
		l.keys[row.ID] = keyOf(row.TaskKey)
	}
	return len(l.keys) - before
}

// leaseInTurn leases up to n due tasks, of the keys in turn. busy counts the leased tasks of each key.
func (c *checkoutWithin) leaseInTurn(ctx context.Context, n int, busy map[string]int) error {
	for round := range lockedRounds {
		t, after := newTurns(c, n, busy), c.rec.After
		if t.probe = round > 0; t.probe {
			t.want = max(n, min(n+2*len(t.locked)+lockedSpare, lockedOnce))
		}
		chosen, err := t.choose(ctx)
		if err != nil {
			return err
		}
		c.ahead.first, c.ahead.keys = nil, nil
		c.chosen()
		had := len(c.leased.Rows)
		if len(chosen) > 0 {
			if err := c.addChosen(ctx, n, chosen); err != nil {
				return err
			}
		}
		leased := map[uuid.UUID]bool{}
		for _, row := range c.leased.Rows[had:] {
			leased[row.ID] = true
			busy[keyOf(row.TaskKey)]++
			c.countStart(row)
		}
		if c.leased.More && len(chosen) > 0 { // the payloads of the last ones did not fit: it is the turn of these keys
			c.rec.After = after
			for _, row := range chosen {
				if leased[row.ID] {
					c.rec.After = keyOf(row.TaskKey)
				}
			}
		}
		n -= len(leased)
		missed := slices.DeleteFunc(chosen, func(row dialect.Row) bool { return leased[row.ID] })
		if c.committing() {
			c.noteMissed(missed)
			c.more, c.again = c.more || len(missed) > 0, len(leased) == 0
			return nil
		}
		if n == 0 || c.leased.More || c.s.sql.Texts.LockFree.SQL == "" {
			return nil
		}
		if t.met += c.noteMissed(missed); t.met == 0 {
			return nil
		}
	}
	c.more = c.more || c.state.walked.Add(1) < maxWalks
	return nil
}

// noteMissed remembers chosen tasks that were not leased: other transactions have locked them. If they were read before
// the limits were locked, they may have changed since instead, and it remembers none. It returns how many are new.
func (c *checkoutWithin) noteMissed(rows []dialect.Row) int {
	if !c.ahead.guessed || len(rows) == 0 {
		return c.state.locked.add(rows)
	}
	c.ahead.guessed = false // the next search is under the lock
	c.state.turn.wrong()
	return len(rows)
}

// passLocked keeps those of found that no other transaction has locked, if the search before this one has met locked
// rows. If there are too few, it adds those that were locked a moment ago and no longer are.
func (t *turns) passLocked(ctx context.Context) error {
	var try []dialect.Row
	if t.probe {
		try = t.found
	}
	if t.room < t.n {
		try = slices.Concat(try, t.passed)
	}
	if try = try[:min(len(try), lockedOnce)]; len(try) == 0 {
		return nil
	}
	ids, held := make(dialect.Col[uuid.UUID], len(try)), make(map[uuid.UUID]bool, len(try))
	for i, row := range try {
		ids[i], held[row.ID] = row.ID, true
	}
	slices.SortFunc(ids, func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) })
	free, err := t.s.sql.QueryBatch(ctx, t.conn, t.s.sql.Texts.LockFree, dialect.Args{"id": ids}, len(ids))
	if err != nil {
		return err
	}
	for _, row := range free {
		delete(held, row.ID)
	}
	t.met = t.state.locked.add(slices.DeleteFunc(slices.Clone(try), func(row dialect.Row) bool { return !held[row.ID] }))
	known := slices.Concat(t.found, try)
	t.found, t.passed, t.room, t.locked = nil, nil, 0, nil
	clear(t.tasks)
	clear(t.perKey)
	t.add(slices.DeleteFunc(known, func(row dialect.Row) bool { return held[row.ID] }))
	return nil
}

// dueOf finds up to limit due tasks of each key, and more of those keys of which some are locked.
func (t *turns) dueOf(ctx context.Context, keys []string, limit int) error {
	isFree := func(key string) bool { return t.lockedOf[key] == 0 }
	locked := slices.DeleteFunc(slices.Clone(keys), isFree)
	keys = slices.DeleteFunc(keys, func(key string) bool { return !isFree(key) })
	text := t.s.sql.Texts.DueOfKeys
	if err := t.ofKeys(ctx, text, keys, dialect.Args{"limit": limit}); err != nil {
		return err
	}
	slices.SortFunc(locked, func(x, y string) int { return cmp.Compare(t.lockedOf[x], t.lockedOf[y]) })
	for part := range slices.Chunk(locked, ofKeysOnce) {
		deep := limit + 2*t.lockedOf[part[len(part)-1]] + lockedSpare
		if err := t.ofKeys(ctx, text, part, dialect.Args{"limit": deep}); err != nil {
			return err
		}
	}
	return nil
}
