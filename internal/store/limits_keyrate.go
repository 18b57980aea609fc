package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// keyRates are the starts that the rate per key leaves to the keys that a checkout has met. The rows of the table
// key_rate are read and written under the lock of the queue's limits.
type keyRates struct {
	keys map[string]*keyRate
	wait time.Duration // until the first of the keys that were passed over may start a task; 0 means none was
}

// keyRate is the rate of one key during a checkout.
type keyRate struct {
	full    int64 // when all of its starts were free before the checkout, in nanoseconds
	left    int   // starts
	started int   // tasks
	at      int64 // its last start
}

// passedOver takes note of a key with due tasks that may start none for some time.
func (k *keyRates) passedOver(wait time.Duration) {
	if k.wait == 0 || wait < k.wait {
		k.wait = wait
	}
}

// readKeyRates reads how many starts are left to the keys of rows, which are due, as far as it does not know.
func (c *checkoutWithin) readKeyRates(ctx context.Context, rows []dialect.Row) error {
	rate := c.limits.KeyRate
	if rate == (Rate{}) {
		return nil
	}
	var unknown dialect.Col[string]
	for _, row := range rows {
		if key := keyOf(row.TaskKey); key != "" && c.rates.keys[key] == nil {
			c.rates.keys[key] = &keyRate{left: rate.Burst}
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		found, err := sqlrun.QueryBatchAs[sqlrun.KeyRateRow](ctx, c.s.sql, c.conn, c.s.sql.Texts.KeyRates,
			dialect.Args{"queue": c.r.Queue, "name": unknown}, len(unknown))
		if err != nil {
			return err
		}
		for _, row := range found {
			if k := c.rates.keys[row.Key]; k != nil {
				k.full = row.Full * int64(time.Microsecond)
				k.left, _ = rate.allowed(c.now, k.full)
			}
		}
	}
	for _, row := range rows {
		if k := c.rates.keys[keyOf(row.TaskKey)]; k != nil && k.left == 0 && k.started == 0 {
			_, wait := rate.allowed(c.now, k.full)
			c.rates.passedOver(wait)
		}
	}
	return nil
}

// startsOf is how many more tasks of a key the rate per key allows to start.
func (c *checkoutWithin) startsOf(key string) (n int, bounded bool) {
	k := c.rates.keys[key]
	if k == nil { // it has no key, or there is no rate per key
		return 0, false
	}
	return k.left, true
}

// countStart counts a task that has started.
func (c *checkoutWithin) countStart(row dialect.Row) {
	if k := c.rates.keys[keyOf(row.TaskKey)]; k != nil && row.State == state.Processing {
		k.left, k.started, k.at = k.left-1, k.started+1, max(k.at, row.Updated*int64(time.Microsecond))
	}
}

// writeKeyRates records the starts of this checkout.
func (c *checkoutWithin) writeKeyRates(ctx context.Context) error {
	rate := c.limits.KeyRate
	var keys dialect.Col[string]
	for key, k := range c.rates.keys {
		if k.started > 0 {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	full := make(dialect.Col[int64], len(keys))
	for i, key := range keys {
		k := c.rates.keys[key]
		at := max(k.at, c.now)
		k.full = rate.after(at, k.full, k.started)
		full[i] = (k.full + int64(time.Microsecond) - 1) / int64(time.Microsecond) // never early
		if k.left == 0 {
			_, wait := rate.allowed(at, k.full)
			c.rates.passedOver(wait)
		}
	}
	_, err := c.s.sql.ExecBatch(ctx, c.conn, c.s.sql.Texts.SetKeyRates,
		dialect.Args{"queue": c.r.Queue, "name": keys, "full_at": full}, len(keys))
	return err
}

// returnTakenOver counts the leases that the checkout has taken over since it had leased had tasks. Tasks whose keys
// have no start left go back to those that are due: their former leases have ended, and other keys' go on.
func (c *checkoutWithin) returnTakenOver(ctx context.Context, had int) error {
	if c.limits.KeyRate == (Rate{}) {
		return nil
	}
	taken := c.leased.Rows[had:]
	if err := c.readKeyRates(ctx, taken); err != nil {
		return err
	}
	var release []SettleRow
	at := time.Duration(0)
	kept := slices.DeleteFunc(taken, func(row dialect.Row) bool {
		n, bounded := c.startsOf(keyOf(row.TaskKey))
		if row.State != state.Processing || !bounded || n > 0 {
			c.countStart(row)
			return false
		}
		release = append(release, SettleRow{LeaseKey: LeaseKey{Task: row.ID, Fence: row.Fence}, Event: state.Release,
			After: &at, Unrecorded: true})
		c.bytes -= row.PayloadBytes()
		return true
	})
	c.leased.Rows = c.leased.Rows[:had+len(kept)]
	if len(release) == 0 {
		return nil
	}
	c.returned, c.more = true, true
	c.s.expiredSearches.again(c.r.Queue)
	b := c.s.newSettleBatch(c.r.Queue, release, true, false)
	if err := b.run(ctx, c.conn, false); err != nil {
		return err
	}
	for i, out := range b.out {
		if out.Err != nil {
			return fmt.Errorf("task %s was taken over and cannot be released: %w", release[i].Task, out.Err)
		}
	}
	return nil
}

// changeKeyRate applies a change of the rate per key to the keys that have started tasks. The transaction has locked
// the limits of the queue, which it has read as old.
func (s *Store) changeKeyRate(ctx context.Context, conn dialect.Conn, queue string, old Record, was, to Rate) error {
	args := dialect.Args{"queue": queue}
	switch {
	case was == to:
		return nil
	case was == Rate{}, to == Rate{}:
		_, err := s.sql.Exec(ctx, conn, s.sql.Texts.DropKeyRates, args)
		return err
	}
	now := old.Now * int64(time.Microsecond)
	args["full_at"] = (to.latest(now) + int64(time.Microsecond) - 1) / int64(time.Microsecond)
	_, err := s.sql.Exec(ctx, conn, s.sql.Texts.CapKeyRates, args)
	return err
}

// keyRateAge is how long cleaning keeps the row of a key that has all of its starts again: a task may start soon.
const keyRateAge = time.Minute

// cleanKeyRates removes the rows of keys that have all of their starts again, of all queues.
func (s *Store) cleanKeyRates(ctx context.Context) error {
	args := dialect.Args{"age": keyRateAge.Microseconds(), "limit": cleanBatch}
	for {
		var n int64
		err := s.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			n, err = s.sql.Exec(ctx, conn, s.sql.Texts.ExpireKeyRates, args)
			return err
		})
		if err != nil || n < cleanBatch {
			return err
		}
		if err := Sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
}
