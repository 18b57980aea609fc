package store

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// checkout is one try of a checkout, within the limits of the queue if there are any.
func (s *Store) checkout(ctx context.Context, r dialect.CheckoutRequest) (out limitedCheckout, err error) {
	if s.KnownLimited(r.Queue) {
		out, limited, err := s.checkoutLimited(ctx, r)
		if limited || err != nil {
			return out, err
		}
	}
	if out.leased, err = s.sql.Checkout(ctx, r); err != nil || len(out.leased.Rows) > 0 {
		return out, err
	}
	limited, err := s.maybeLimited(ctx, r.Queue)
	if err != nil || !limited {
		return out, err
	}
	out, _, err = s.checkoutLimited(ctx, r)
	return out, err
}

// limitedCheckout is the result of a checkout.
type limitedCheckout struct {
	leased dialect.Leased
	wait   time.Duration // until a rate allows the next start
	more   bool          // tasks may be due that it has not come to
}

// What rolls back the transaction of a checkout: it has leased nothing; or it has chosen tasks that others have locked.
var (
	errNothing = errors.New("nothing to lease")
	errLocked  = errors.New("chosen tasks are locked")
)

// checkoutLimited is a checkout of a queue with limits. Its transaction first locks the record of the limits, so that
// one checkout of the queue follows another; counts the leased tasks by statements that begin after that; and then
// leases by the dialect's own checkout. limited is false if the queue has no limits; it then does nothing.
func (s *Store) checkoutLimited(ctx context.Context, r dialect.CheckoutRequest) (
	out limitedCheckout, limited bool, err error) {
	st := s.limitState(r.Queue)
	if st.refused.Load() {
		if idle, wait, err := s.refusedAgain(ctx, r.Queue); err != nil || idle {
			return limitedCheckout{wait: wait}, true, err
		}
	}
	for _, passLocked := range []bool{false, true} {
		err = s.limitsTx(ctx, r.Queue, func(ctx context.Context, conn dialect.Conn) error {
			rec, exists, paused, err := s.lockLimits(ctx, conn, r.Queue)
			if limited = exists; err != nil || !exists {
				return err
			}
			if paused {
				return errNothing
			}
			within := checkoutWithin{s: s, conn: conn, r: r, passLocked: passLocked, now: rec.Now * int64(time.Microsecond)}
			out, err = within.run(ctx, rec)
			return err
		})
		if !errors.Is(err, errLocked) {
			break
		}
	}
	if errors.Is(err, errNothing) {
		err = nil
	}
	if err != nil { // what it leased is not sure
		return limitedCheckout{}, limited, err
	}
	st.limited.Store(limited)
	st.refused.Store(len(out.leased.Rows) == 0)
	return out, limited, nil
}

// refusedAgain reports whether a queue in which nothing could be leased before has still nothing due, or no start left.
// It takes no lock, so that idle workers do not keep others waiting.
func (s *Store) refusedAgain(ctx context.Context, queue string) (idle bool, wait time.Duration, err error) {
	due, some, err := s.NextDue(ctx, queue)
	if err != nil || !some || due > 0 {
		return err == nil, 0, err
	}
	rec, exists, err := s.GetKV(ctx, dialect.LimitNamespace, queue)
	if err != nil || !exists {
		return false, 0, err
	}
	stored, l, err := parseLimits(rec)
	if err != nil {
		return false, 0, err
	}
	n, wait := l.Rate.allowed(rec.Now*int64(time.Microsecond), stored.Full)
	return n == 0, wait, nil
}

// checkoutWithin is a checkout under locked limits.
type checkoutWithin struct {
	s    *Store
	conn dialect.Conn
	r    dialect.CheckoutRequest
	now  int64 // the database's clock in nanoseconds
	// passLocked reports that it is to lock what it finds before it chooses from it.
	passLocked bool

	limits Limits
	rec    limitRecord
	starts int // that the rate allows
	rates  keyRates
	leased dialect.Leased
	bytes  int64 // of the payloads of leased
	more   bool
	// returned reports that tasks were taken over and are due again.
	returned bool
}

func (c *checkoutWithin) run(ctx context.Context, old Record) (out limitedCheckout, err error) {
	if c.rec, c.limits, err = parseLimits(old); err != nil {
		return out, err
	}
	was := c.rec
	c.rates.keys = map[string]*keyRate{}
	if c.starts, out.wait = c.limits.Rate.allowed(c.now, c.rec.Full); c.starts == 0 {
		return out, errNothing
	}
	if err = c.lease(ctx); err != nil {
		return out, err
	}
	if err = c.writeKeyRates(ctx); err != nil {
		return out, err
	}
	started, at := 0, c.now // the last start
	for _, row := range c.leased.Rows {
		if row.State == state.Processing {
			started, at = started+1, max(at, row.Updated*int64(time.Microsecond))
		}
	}
	out.leased, out.more, out.wait = c.leased, c.more, c.rates.wait
	if c.rec.Full = c.limits.Rate.after(at, c.rec.Full, started); started == c.starts {
		_, out.wait = c.limits.Rate.allowed(at, c.rec.Full)
	}
	switch {
	case c.rec != was:
		err = c.s.putLimits(ctx, c.conn, old, true, c.r.Queue, c.rec)
	case len(c.leased.Rows) == 0 && !c.returned:
		err = errNothing
	}
	return out, err
}

// lease takes over expired leases, which keep their slots, and leases due tasks for free slots, in the order asked for.
func (c *checkoutWithin) lease(ctx context.Context) error {
	expired := func() error {
		had := len(c.leased.Rows)
		err := c.add(ctx, dialect.CheckoutRequest{Only: dialect.OnlyExpired, Limit: min(c.r.Limit, c.starts)})
		if err == nil {
			err = c.returnTakenOver(ctx, had)
		}
		return err
	}
	if c.r.Expired {
		if err := expired(); err != nil {
			return err
		}
	}
	if err := c.leaseDue(ctx); err != nil {
		return err
	}
	if len(c.leased.Rows) == 0 && !c.r.Expired {
		return expired()
	}
	return nil
}

// leaseDue leases due tasks for the free slots.
func (c *checkoutWithin) leaseDue(ctx context.Context) error {
	n := min(c.r.Limit, c.starts) - len(c.leased.Rows)
	if n <= 0 || c.leased.More {
		return nil
	}
	leased, perKey := 0, map[string]int{}
	if c.limits.Leased > 0 || c.limits.perKey() > 0 {
		text := c.s.sql.Texts.Busy
		if c.limits.PerKey {
			text = c.s.sql.Texts.BusyKeys
		}
		busy, err := sqlrun.QueryAs[sqlrun.KeyCount](ctx, c.s.sql, c.conn, text, dialect.Args{"queue": c.r.Queue})
		if err != nil {
			return err
		}
		for _, b := range busy {
			leased += int(b.Tasks)
			perKey[keyOf(b.Key)] = int(b.Tasks)
		}
	}
	if c.limits.Leased > 0 {
		n = min(n, c.limits.Leased-leased)
	}
	if n <= 0 {
		return nil
	}
	if c.limits.PerKey {
		return c.leaseInTurn(ctx, n, perKey)
	}
	return c.add(ctx, dialect.CheckoutRequest{Only: dialect.OnlyDue, Limit: n})
}

// add leases tasks by a part of the dialect's checkout.
func (c *checkoutWithin) add(ctx context.Context, part dialect.CheckoutRequest) error {
	r := c.r
	r.Only, r.Limit, r.Given = part.Only, part.Limit, part.Given
	r.Expired = part.Only == dialect.OnlyExpired
	if r.Bytes > 0 {
		if r.Bytes -= c.bytes; r.Bytes <= 0 {
			c.leased.More = true
			return nil
		}
	}
	leased, err := c.s.sql.CheckoutWithin(ctx, c.conn, r)
	if err != nil {
		return err
	}
	known := make(map[uuid.UUID]bool, len(c.leased.Rows))
	for _, row := range c.leased.Rows {
		known[row.ID] = true
	}
	// A dialect that finds what it leased by the checkout's token returns the rows of both parts.
	rows := slices.DeleteFunc(leased.Rows, func(row dialect.Row) bool { return known[row.ID] })
	for i := range rows {
		c.bytes += rows[i].PayloadBytes()
	}
	c.leased.Rows, c.leased.More = append(c.leased.Rows, rows...), c.leased.More || leased.More
	return nil
}

func keyOf(key *string) string {
	if key == nil {
		return ""
	}
	return *key
}

// free returns how many more tasks of a key may be leased, if its rate was read. Tasks without a key have no limit per
// key.
func (t *turns) free(key string) int {
	free := math.MaxInt
	if most := t.limits.perKey(); most > 0 && key != "" {
		free = max(most-t.busy[key], 0)
	}
	if starts, bounded := t.startsOf(key); bounded {
		free = min(free, starts)
	}
	return free
}
