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

// errNothing rolls back a transaction that has leased nothing.
var errNothing = errors.New("nothing to lease")

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
	chosen, leave, err := st.gate.enter(ctx)
	if err != nil {
		return limitedCheckout{}, true, err
	}
	defer leave()
	again := false // the second time it does not commit before it knows that it has leased something
	for range 2 {
		err = s.limitsTx(ctx, func(ctx context.Context, conn dialect.Conn) error {
			within := checkoutWithin{s: s, conn: conn, r: r, state: st, chosen: chosen, separate: again}
			if err := within.readKeysAhead(ctx); err != nil {
				return err
			}
			rec, exists, paused, err := s.lockLimits(ctx, conn, r.Queue, func() error { return within.readAhead(ctx) })
			if limited = exists; err != nil || !exists {
				return err
			}
			if paused {
				return errNothing
			}
			within.now, within.old = rec.Now*int64(time.Microsecond), rec
			out, err = within.run(ctx)
			again = within.again
			return err
		})
		if err != nil || !again {
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
	s     *Store
	conn  dialect.Conn
	r     dialect.CheckoutRequest
	state *limitState
	now   int64 // the database's clock in nanoseconds
	// chosen lets the next checkout of this client begin.
	chosen func()

	ahead  ahead
	limits Limits
	rec    limitRecord
	starts int // that the rate allows
	rates  keyRates
	leased dialect.Leased
	bytes  int64 // of the payloads of leased
	more   bool
	// returned reports that tasks were taken over and are due again.
	returned bool

	old      Record
	written  limitRecord // c.rec as it is in the database, or will be with the next statement
	separate bool        // COMMIT is a request of its own
	again    bool        // it has committed without a task, because all that it chose were locked
}

func (c *checkoutWithin) run(ctx context.Context) (out limitedCheckout, err error) {
	if c.rec, c.limits, err = parseLimits(c.old); err != nil {
		return out, err
	}
	limits := c.limits
	c.written = c.rec
	c.rates.keys = map[string]*keyRate{}
	c.state.limits.Store(&limits)
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
	out.leased, out.more = c.leased, c.more
	if c.rec.Full = c.limits.Rate.after(at, c.rec.Full, started); started == c.starts {
		_, out.wait = c.limits.Rate.allowed(at, c.rec.Full)
	} else {
		out.wait = c.state.walk.soonest(c.now, c.rates.wait)
	}
	switch {
	case c.committing():
		return out, nil
	case c.rec == c.written && len(c.leased.Rows) == 0 && !c.returned:
		return out, errNothing
	}
	return out, c.write(ctx)
}

// write writes what has changed in the record of the limits.
func (c *checkoutWithin) write(ctx context.Context) error {
	if c.rec == c.written {
		return nil
	}
	c.written = c.rec
	return c.s.putLimits(ctx, c.conn, c.old, true, c.r.Queue, c.rec)
}

// committing reports whether the transaction has ended with a statement of addChosen.
func (c *checkoutWithin) committing() bool {
	p, ok := c.conn.(dialect.Pipeline)
	return ok && p.Committing()
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
	if len(c.leased.Rows) == 0 && !c.r.Expired && !c.committing() {
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
	if c.busyText(c.limits) != "" {
		busy, err := c.busy(ctx)
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
	c.chosen()
	return c.add(ctx, dialect.CheckoutRequest{Only: dialect.OnlyDue, Limit: n})
}

// add leases tasks by a part of the dialect's checkout.
func (c *checkoutWithin) add(ctx context.Context, part dialect.CheckoutRequest) error {
	r := c.r
	r.Only, r.Limit, r.Given, r.Last = part.Only, part.Limit, part.Given, part.Last
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

// addChosen leases the tasks that were chosen. If nothing can follow, a Pipeline commits in the same round trip: the
// limits are locked until then.
func (c *checkoutWithin) addChosen(ctx context.Context, n int, chosen []dialect.Row) error {
	part := dialect.CheckoutRequest{Only: dialect.OnlyDue, Limit: n, Given: chosen}
	budget, rated := c.r.Budget(), c.limits.Rate != Rate{} || c.limits.KeyRate != Rate{}
	if _, ok := c.conn.(dialect.Pipeline); ok && !c.separate && !rated && len(c.leased.Rows) == 0 &&
		len(budget.Fit(chosen)) == len(chosen) {
		part.Last = true
		if err := c.write(ctx); err != nil {
			return err
		}
		var stop func()
		ctx, stop = sqlrun.GracefulWrite(ctx)
		defer stop()
	}
	return c.add(ctx, part)
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
