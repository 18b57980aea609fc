package mysql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/dialect/kit/batch"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/dbq-go/dbq/state"
)

const (
	// tidb accepts SKIP LOCKED but takes no lock. It supports NOWAIT, whose error leaves the transaction as it was.
	tidb = "TiDB"
	// turnLeast is the number of tasks from which a checkout waits for its turn.
	turnLeast = 100
)

// Checkout leases tasks by one of three strategies, in one transaction.
func (Dialect) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	c := &checkout{s: s, r: r}
	switch {
	case r.Given != nil:
		err := s.Tx(ctx, c.given)
		return c.budget.Result(), err
	case r.Search == dialect.OnlyExpired:
		c.budget = kit.NewBudget(r)
		err := s.Tx(ctx, c.expired)
		return c.budget.Result(), err
	}
	due, err := c.begin(ctx)
	if err != nil || len(due) == 0 && c.scan.FromCursor && r.Search != dialect.ExpiredFirst {
		return dialect.CheckoutResult{}, err
	}
	switch r.Strategy {
	case dialect.SkipLocked:
		err = s.LockedTx(ctx, c.turn(len(due) > 0), func(ctx context.Context, conn dialect.Conn) error {
			return c.parts(ctx, conn, due, c.skipLocked)
		})
	case dialect.Advisory:
		if len(due) == 0 && !c.anyExpired(ctx) {
			break
		}
		lock := dialect.Lock{Take: s.Private("queue lock").SQL, Free: s.Private("queue free").SQL,
			Args: dialect.Args{"name": "checkout " + s.Names.Prefix + " " + r.Queue}}
		err = s.LockedTx(ctx, lock, func(ctx context.Context, conn dialect.Conn) error {
			return c.parts(ctx, conn, due, c.skipLocked)
		})
	case dialect.CAS:
		c.missed = true
		for round := 0; round < search.Rounds && err == nil && c.missed && len(c.budget.Result().Rows) == 0; round++ {
			c.missed = false
			err = s.Tx(ctx, func(ctx context.Context, conn dialect.Conn) error {
				return c.parts(ctx, conn, due, c.seenReady)
			})
		}
	default:
		return dialect.CheckoutResult{}, fmt.Errorf("mysql: no strategy %q", r.Strategy)
	}
	if err != nil {
		return dialect.CheckoutResult{}, err
	}
	c.end(ctx)
	return c.budget.Result(), nil
}

// turn serializes large checkouts of one queue until each has written its rows; their commits still overlap. It is an
// optimization: after one second a checkout proceeds without it, since SKIP LOCKED keeps checkouts apart. Several at
// once write to the same few pages of the index and wait for each other's latches; docs/performance.md has the figures.
func (c *checkout) turn(found bool) dialect.Lock {
	if !found || c.r.Limit < turnLeast {
		return dialect.Lock{}
	}
	return dialect.Lock{
		Take: c.s.Private("turn lock").SQL, Free: c.s.Private("turn free").SQL, Early: true,
		Args: dialect.Args{"name": "turn " + c.s.Names.Prefix + " " + c.r.Queue},
	}
}

// checkout is one call of Checkout.
type checkout struct {
	s      *dialect.Session
	r      dialect.CheckoutRequest
	budget kit.Budget

	candidates [search.Priorities]search.Candidates // of the strategy cas, by priority
	missed     bool                                 // others took some of them

	scan              search.Scan
	found             []dialect.Row // rows that were due
	dueTook, searched time.Duration // the first search for them, and all
}

func (c *checkout) anyExpired(ctx context.Context) bool {
	rows, err := c.seeExpired(1, c.reads(ctx))
	return err != nil || len(rows) > 0
}

// finder locks due tasks of one priority and returns them as they were before.
type finder func(ctx context.Context, conn dialect.Conn, priority, limit int) ([]dialect.Row, error)

// parts leases expired and due tasks, in the requested order.
func (c *checkout) parts(ctx context.Context, conn dialect.Conn, due []int, find finder) error {
	c.found, c.budget = nil, kit.NewBudget(c.r)
	ready := func() error {
		for _, p := range due {
			if c.budget.Full() {
				return nil
			}
			began := time.Now()
			rows, err := find(ctx, conn, p, c.budget.Rows)
			if err != nil {
				return err
			}
			c.searched += time.Since(began)
			c.found = append(c.found, rows...)
			if err := c.take(ctx, conn, rows); err != nil {
				return err
			}
		}
		return nil
	}
	if c.r.Search != dialect.ExpiredFirst {
		if err := ready(); err != nil || len(c.budget.Result().Rows) > 0 || c.scan.FromCursor ||
			c.r.Search == dialect.OnlyDue {
			return err
		}
		return c.expired(ctx, conn)
	}
	if err := c.expired(ctx, conn); err != nil {
		return err
	}
	return ready()
}

func (c *checkout) readyArgs(priority, limit int) dialect.Args {
	return dialect.Args{"queue": c.r.Queue, "priority": priority, "limit": limit,
		"since": c.scan.Since[priority], "share": c.budget.Share()}
}

// skipLocked locks the next tasks that no other transaction has locked, and returns those that fit. While the queue's
// payloads are small, the locking query returns them; otherwise they are read once it is known which tasks fit.
func (c *checkout) skipLocked(ctx context.Context, conn dialect.Conn, priority, limit int) ([]dialect.Row, error) {
	name, small, whole := "ready sizes", search.SmallOf(c.s, c.r.Queue), kit.NewBudget(c.r)
	if small.Were() {
		name = "ready"
	}
	rows, err := c.s.Query(ctx, conn, c.s.Private(name).SQL, c.readyArgs(priority, limit))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	small.Found(rows, whole.Share())
	rows = c.budget.Fit(rows)
	return rows, batch.FillPayloads(ctx, c.s, conn, c.s.Private("payloads"), rows)
}

// seenReady reads candidates of a priority without locks, and locks those whose fence has not changed.
func (c *checkout) seenReady(
	ctx context.Context, conn dialect.Conn, priority, limit int,
) (rows []dialect.Row, err error) {
	candidates, args := &c.candidates[priority], c.readyArgs(priority, limit)
	args["limit"] = candidates.Read(limit)
	seen, err := c.s.Query(ctx, conn, c.s.Private("see ready").SQL, args)
	if err != nil || len(seen) == 0 {
		return nil, err
	}
	seen = c.budget.Fit(candidates.Choose(seen, limit))
	if rows, err = c.lock(ctx, conn, "lock ready", seen); err != nil {
		return nil, err
	}
	c.missed = candidates.Leased(seen, rows) || c.missed
	return rows, nil
}

// lock reads seen rows again with locks, in the order of the primary key, and omits those that another transaction has
// locked.
func (c *checkout) lock(
	ctx context.Context, conn dialect.Conn, name string, seen []dialect.Row,
) ([]dialect.Row, error) {
	by := func(name string, from, to int) ([]dialect.Row, error) {
		return c.s.QueryBatch(ctx, conn, c.s.Private(name), kit.Keys(seen[from:to]), to-from)
	}
	if c.s.Server.Product != tidb {
		return by(name, 0, len(seen))
	}
	rows, err := by("try "+name, 0, len(seen))
	if c.s.Class(err) != dialect.Conflict {
		return rows, err
	}
	rows = nil
	for i := range seen { // one is locked: find out which
		row, err := by("try "+name, i, i+1)
		if err != nil && c.s.Class(err) != dialect.Conflict {
			return nil, err
		}
		rows = append(rows, row...)
	}
	return rows, nil
}

// expired takes over expired leases, and moves tasks whose attempts are exhausted to POISON.
func (c *checkout) expired(ctx context.Context, conn dialect.Conn) error {
	query := func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Query(ctx, conn, text, args) }
	seen, err := c.seeExpired(c.budget.Rows, query)
	if err != nil || len(seen) == 0 {
		return err
	}
	seen = c.budget.Fit(seen)
	locked, err := c.lock(ctx, conn, "lock expired", seen)
	if err != nil {
		return err
	}
	poison := func(rows []dialect.Row) error { return c.write(ctx, conn, "poison", rows) }
	again, exhausted, err := batch.TakeOver(ctx, c.s, conn, locked, seen, c.r.Lease, poison)
	if err != nil {
		return err
	}
	if err := c.lease(ctx, conn, "take over", again); err != nil {
		return err
	}
	return c.budget.TakeOver(ctx, c.s, conn, nil, slices.Concat(exhausted, again))
}

// given leases the tasks that are named in the request.
func (c *checkout) given(ctx context.Context, conn dialect.Conn) error {
	c.budget = kit.NewBudget(c.r)
	rows, err := c.lock(ctx, conn, "lock ready", c.budget.Fit(c.r.Given))
	if err != nil {
		return err
	}
	return c.take(ctx, conn, rows)
}

// take leases locked rows that were due.
func (c *checkout) take(ctx context.Context, conn dialect.Conn, rows []dialect.Row) error {
	for i := range rows {
		rows[i].Attempt++
	}
	err := c.lease(ctx, conn, "take", rows)
	if err == nil {
		c.budget.Add(rows)
	}
	return err
}

// lease leases locked rows by a statement, and returns them as they are afterwards.
func (c *checkout) lease(ctx context.Context, conn dialect.Conn, name string, rows []dialect.Row) error {
	if err := c.write(ctx, conn, name, rows); err != nil || len(rows) == 0 {
		return err
	}
	until := rows[0].Now + c.r.Lease.Microseconds()
	for i := range rows {
		row := &rows[i]
		row.State, row.Due, row.LeaseUntil, row.Holder, row.Updated = state.Processing, nil, &until, &c.r.Holder, rows[0].Now
		row.Fence++
	}
	return nil
}

// write changes locked rows by primary key. Its time is the database's time at which they were read.
func (c *checkout) write(ctx context.Context, conn dialect.Conn, name string, rows []dialect.Row) error {
	if len(rows) == 0 {
		return nil
	}
	args := kit.Keys(rows)
	args["now"], args["lease"] = rows[0].Now, c.r.Lease.Microseconds()
	args["holder"], args["known_started"] = c.r.Holder, c.r.KnownStarted
	_, err := c.s.ExecBatch(ctx, conn, c.s.Private(name), args, len(rows))
	return err
}
