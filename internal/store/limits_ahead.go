package store

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// ahead is what a checkout within limits reads in the round trip in which it locks them, if the connection is a
// Pipeline. It guesses from the limits that it read last what it will need. The lock is held meanwhile, so a checkout
// that waits for the answer of each statement keeps the others waiting.
type ahead struct {
	busyText string
	busy     *[]sqlrun.KeyCount
	first    *[]dialect.Row // of DueFirst
	keys     *[]dialect.Row // of DueKeysNext
	limit    int            // of first or keys
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

// readAhead sends what the checkout will probably need.
func (c *checkoutWithin) readAhead(ctx context.Context) (err error) {
	l, texts := c.state.limits.Load(), c.s.sql.Texts
	if l == nil || c.state.refused.Load() || texts.DueKeysNext == "" {
		return nil
	}
	a := &c.ahead
	if a.busyText = c.busyText(*l); a.busyText != "" {
		a.busy, err = sqlrun.QueryLater[sqlrun.KeyCount](ctx, c.s.sql, c.conn, a.busyText,
			dialect.Args{"queue": c.r.Queue})
	}
	if err != nil || !l.PerKey {
		return err
	}
	if c.state.backlog.Load() {
		a.limit = min(c.r.Limit+c.state.spare.count(), keysOnce)
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
