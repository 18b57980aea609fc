package oracle

import (
	"context"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/dialect/kit/batch"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/google/uuid"
)

// Checkout leases tasks by one of four strategies, in one transaction.
func (Dialect) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	c := &checkout{s: s, r: r}
	if r.Given != nil || r.Search == dialect.OnlyExpired {
		c.sized = true
		err := s.Tx(ctx, c.within(c.given))
		return c.result(), err
	}
	due, err := c.due(ctx)
	if err != nil || len(due) == 0 && !c.anyExpired(ctx) {
		return dialect.CheckoutResult{}, err
	}
	switch r.Strategy {
	case dialect.SkipLocked:
		err = c.take(ctx, due, c.block, func(ready part) error { return s.Tx(ctx, c.within(ready)) })
	case dialect.Advisory:
		lock := dialect.Lock{Take: s.Private("queue lock").SQL, Free: s.Private("queue free").SQL,
			Args: dialect.Args{"queue": r.Queue}}
		err = c.take(ctx, due, c.block, func(ready part) error { return s.LockedTx(ctx, lock, c.within(ready)) })
	case dialect.CAS:
		c.sized = true
		candidates := make([]search.Candidates, len(due))
		err = c.untilSome(ctx, c.seenReady(due, candidates))
	case Update:
		err = c.take(ctx, due, c.update(due), func(ready part) error {
			return c.untilSome(ctx, ready)
		})
	default:
		return dialect.CheckoutResult{}, fmt.Errorf("oracle: no strategy %q", r.Strategy)
	}
	if err != nil {
		return dialect.CheckoutResult{}, err
	}
	return c.result(), nil
}

func (c *checkout) result() dialect.CheckoutResult {
	return dialect.CheckoutResult{Rows: c.rows, More: c.budget.Cut && len(c.rows) > 0}
}

// checkout is one call of Checkout.
type checkout struct {
	s       *dialect.Session
	r       dialect.CheckoutRequest
	rows    []dialect.Row
	claimed int  // tasks that were tried, of which others may have taken some
	missed  bool // others took all that were tried
	budget  kit.Budget
	sized   bool                      // it knows how large payloads are before it leases them
	before  map[uuid.UUID]dialect.Row // tasks that were taken over, as they were
}

// expiredFirst reports whether the checkout begins with the expired leases.
func (c *checkout) expiredFirst() bool {
	return c.r.Search == dialect.ExpiredFirst || c.r.Search == dialect.OnlyExpired
}

// part leases due tasks within the budget, under the checkout's token.
type part func(ctx context.Context, conn dialect.Conn) error

// due returns the priorities that have a due task, without locks, so that an idle poll costs one or two statements.
func (c *checkout) due(ctx context.Context) ([]int, error) {
	rows, err := c.s.Read(ctx, c.s.Private("due").SQL, dialect.Args{"queue": c.r.Queue})
	out := make([]int, len(rows))
	for i, row := range rows {
		out[i] = row.Priority
	}
	slices.Sort(out)
	return out, err
}

// args returns the values of the statements that search for tasks and lease them.
func (c *checkout) args(priority, limit int) dialect.Args {
	return dialect.Args{"queue": c.r.Queue, "priority": priority, "limit": limit, "holder": c.r.Holder,
		"lease": c.r.Lease.Microseconds(), "known_started": c.r.KnownStarted}
}

func (c *checkout) anyExpired(ctx context.Context) bool {
	rows, err := c.s.Read(ctx, c.s.Private("see expired").SQL, c.args(0, 1))
	return err != nil || len(rows) > 0
}

// untilSome repeats a search while other checkouts lease all its candidates.
func (c *checkout) untilSome(ctx context.Context, ready part) error {
	for range search.Rounds {
		if err := c.s.Tx(ctx, c.within(ready)); err != nil || !c.missed {
			return err
		}
	}
	return nil
}

// within leases expired and due tasks in one transaction, in the requested order, and reads the leased rows.
func (c *checkout) within(ready part) part {
	return func(ctx context.Context, conn dialect.Conn) error {
		c.rows, c.claimed, c.before, c.budget = nil, 0, nil, kit.NewBudget(c.r)
		if c.expiredFirst() {
			if err := c.expired(ctx, conn); err != nil {
				return err
			}
		}
		if !c.budget.Full() {
			if err := ready(ctx, conn); err != nil {
				return err
			}
		}
		taken, err := c.taken(ctx, conn)
		if err != nil {
			return err
		}
		if c.r.Search == dialect.DueFirst && len(taken) == 0 {
			if err := c.expired(ctx, conn); err != nil {
				return err
			}
			if taken, err = c.taken(ctx, conn); err != nil {
				return err
			}
		}
		c.rows = append(c.rows, taken...)
		c.missed = c.claimed > 0 && len(c.rows) == 0
		return nil
	}
}

// block locks and leases the next tasks that no other transaction has locked.
func (c *checkout) block(ctx context.Context, conn dialect.Conn) error {
	_, err := c.s.Exec(ctx, conn, c.s.Private("ready").SQL, c.args(0, c.budget.Rows))
	return err
}

// seenReady reads candidates without locks, for each of the due priorities. It leases those whose fence has not changed
// and that no transaction has locked.
func (c *checkout) seenReady(due []int, candidates []search.Candidates) part {
	return func(ctx context.Context, conn dialect.Conn) error {
		for i, p := range due {
			limit := c.budget.Rows
			if c.budget.Full() {
				return nil
			}
			seen, err := c.s.Query(ctx, conn, c.s.Private("see ready").SQL, c.args(p, candidates[i].Read(limit)))
			if err != nil {
				return err
			}
			seen = c.budget.Fit(candidates[i].Choose(seen, limit))
			leased, err := c.takeSeen(ctx, conn, seen)
			if err != nil {
				return err
			}
			candidates[i].Leased(seen, leased)
		}
		return nil
	}
}

// given leases the tasks that are named in the request.
func (c *checkout) given(ctx context.Context, conn dialect.Conn) error {
	_, err := c.takeSeen(ctx, conn, c.budget.Fit(c.r.Given))
	return err
}

// takeSeen leases the rows of seen whose fence has not changed and that no transaction has locked, and returns them.
func (c *checkout) takeSeen(ctx context.Context, conn dialect.Conn, seen []dialect.Row) ([]dialect.Row, error) {
	c.claimed += len(seen)
	rows, err := c.lock(ctx, conn, "lock ready", seen)
	if err != nil {
		return nil, err
	}
	if err := c.write(ctx, conn, "take", rows); err != nil {
		return nil, err
	}
	c.budget.Add(rows)
	return rows, nil
}

// update leases by one UPDATE for each priority. It may wait for rows that another checkout has locked, and skips
// them if they are no longer due.
func (c *checkout) update(due []int) part {
	return func(ctx context.Context, conn dialect.Conn) error {
		c.claimed = len(due)
		for _, p := range due {
			if c.budget.Full() {
				return nil
			}
			n, err := c.s.Exec(ctx, conn, c.s.Private("update").SQL, c.args(p, c.budget.Rows))
			if err != nil {
				return err
			}
			c.budget.Rows -= int(n)
		}
		return nil
	}
}

// expired takes over expired leases, and moves tasks whose attempts are exhausted to POISON.
func (c *checkout) expired(ctx context.Context, conn dialect.Conn) error {
	seen, err := c.s.Query(ctx, conn, c.s.Private("see expired").SQL, c.args(0, c.budget.Rows))
	if err != nil {
		return err
	}
	seen = c.budget.Fit(seen)
	locked, err := c.lock(ctx, conn, "lock expired", seen)
	if err != nil {
		return err
	}
	poison := func(rows []dialect.Row) error {
		for i := range rows {
			rows[i].Result = c.exhausted(rows[i])
		}
		return c.write(ctx, conn, "poison", rows)
	}
	again, exhausted, err := batch.TakeOver(ctx, c.s, conn, locked, seen, c.r.Lease, poison)
	if err != nil {
		return err
	}
	c.rows = append(c.rows, exhausted...)
	c.before = map[uuid.UUID]dialect.Row{}
	for _, row := range again {
		c.before[row.ID] = row
	}
	if err := c.write(ctx, conn, "take over", again); err != nil {
		return err
	}
	for i := range again {
		again[i].Fence++
	}
	return c.budget.TakeOver(ctx, c.s, conn, nil, slices.Concat(exhausted, again))
}

// exhausted returns the result stored with a task whose attempts are exhausted: its last holder, and the checkout that
// found it.
func (c *checkout) exhausted(row dialect.Row) []byte {
	result := "the lease of the last attempt expired"
	if row.Holder != nil {
		result += ", held by " + *row.Holder
	}
	return []byte(result + ", found by " + c.r.Holder)
}

// lock reads seen rows again with locks, and omits those that another transaction has locked.
func (c *checkout) lock(
	ctx context.Context, conn dialect.Conn, name string, seen []dialect.Row,
) ([]dialect.Row, error) {
	if len(seen) == 0 {
		return nil, nil
	}
	return c.s.QueryBatch(ctx, conn, c.s.Private(name), kit.Keys(seen), len(seen))
}

// write changes rows by primary key, if their fences have not changed.
func (c *checkout) write(ctx context.Context, conn dialect.Conn, name string, rows []dialect.Row) error {
	n := len(rows)
	if n == 0 {
		return nil
	}
	args := kit.Keys(rows)
	result, size := make(dialect.Col[[]byte], n), make(dialect.Col[*int64], n)
	for i, row := range rows {
		if result[i] = row.Result; row.Result != nil {
			size[i] = new(int64(len(row.Result)))
		}
	}
	args["result"], args["result_size"] = result, size
	// The driver requires each value as an array.
	args["lease"] = slices.Repeat(dialect.Col[int64]{c.r.Lease.Microseconds()}, n)
	args["holder"] = slices.Repeat(dialect.Col[string]{c.r.Holder}, n)
	args["known_started"] = slices.Repeat(dialect.Col[int64]{c.r.KnownStarted}, n)
	_, err := c.s.ExecBatch(ctx, conn, c.s.Private(name), args, n)
	return err
}
