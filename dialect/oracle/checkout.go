package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

const (
	// windows is how many checkouts' worth of candidates CAS reads, to find some that nobody else is taking.
	windows = 4
	// rounds bounds how often CAS and Update try again after others took all they tried.
	rounds = 8
	// takenOver stands in was_due of a task whose lease ran out: it has no due time to be sorted by.
	takenOver = -1
)

// Checkout takes tasks by one of four strategies. Each is one transaction, which counts only once it is committed.
func (Dialect) Checkout(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) ([]dialect.Row, error) {
	c := &checkout{s: s, r: r}
	due, err := c.due(ctx)
	if err != nil || len(due) == 0 && !c.anyExpired(ctx) {
		return nil, err
	}
	switch r.Strategy {
	case dialect.SkipLocked:
		err = c.take(ctx, due, c.block, func(ready part) error { return s.Tx(ctx, c.within(ready)) })
	case dialect.Advisory:
		lock := dialect.Lock{Take: s.Statements.Checkout["queue lock"], Free: s.Statements.Checkout["queue free"],
			Args: dialect.Args{"queue": r.Queue}}
		err = c.take(ctx, due, c.block, func(ready part) error { return s.LockedTx(ctx, lock, c.within(ready)) })
	case dialect.CAS:
		c.sized = true
		err = c.untilSome(ctx, func(round int) part { return c.seenReady(due, round) })
	case Update:
		update := c.update(due)
		err = c.take(ctx, due, update, func(ready part) error { return c.untilSome(ctx, func(int) part { return ready }) })
	default:
		return nil, fmt.Errorf("oracle: no strategy %q", r.Strategy)
	}
	if err != nil {
		return nil, err
	}
	return c.budget.Mark(c.rows), nil
}

// checkout is one call of Checkout.
type checkout struct {
	s       *dialect.Session
	r       dialect.CheckoutRequest
	rows    []dialect.Row
	left    int  // room for more
	claimed int  // tasks that were tried, of which others may have taken some
	missed  bool // others took all that were tried
	budget  dialect.Budget
	sized   bool // it knows how large payloads are before it leases them
	// before are the tasks whose lease ran out, as they were.
	before map[uuid.UUID]dialect.Row
}

// part leases due tasks, at most c.left, under the checkout's mark.
type part func(ctx context.Context, conn dialect.Conn) error

// due tells the priorities that have a due task, without locks, so that an idle poll is one statement, or two.
func (c *checkout) due(ctx context.Context) ([]int, error) {
	rows, err := c.s.Read(ctx, c.s.Statements.Checkout["due"], dialect.Args{"queue": c.r.Queue})
	out := make([]int, len(rows))
	for i, row := range rows {
		out[i] = row.Priority
	}
	slices.Sort(out)
	return out, err
}

func (c *checkout) anyExpired(ctx context.Context) bool {
	rows, err := c.s.Read(ctx, c.s.Statements.Checkout["see expired"], dialect.Args{"queue": c.r.Queue, "limit": 1, "holder": c.r.Holder})
	return err != nil || len(rows) > 0
}

// untilSome tries again while others took all that was tried.
func (c *checkout) untilSome(ctx context.Context, ready func(round int) part) error {
	for round := range rounds {
		if err := c.s.Tx(ctx, c.within(ready(round))); err != nil || !c.missed {
			return err
		}
	}
	return nil
}

// within makes a transaction of leases that ran out and due tasks, in the order asked for, and reads what it leased.
func (c *checkout) within(ready part) part {
	return func(ctx context.Context, conn dialect.Conn) error {
		c.rows, c.left, c.claimed, c.before, c.budget = nil, c.r.Limit, 0, nil, c.r.Budget()
		if c.r.Expired {
			if err := c.expired(ctx, conn); err != nil {
				return err
			}
		}
		if c.left > 0 && !c.budget.Cut {
			if err := ready(ctx, conn); err != nil {
				return err
			}
		}
		taken, err := c.taken(ctx, conn)
		if err != nil {
			return err
		}
		if c.left = c.r.Limit - len(taken) - len(c.rows); !c.r.Expired && c.left == c.r.Limit {
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

// block locks and leases the next tasks that nobody else has locked.
func (c *checkout) block(ctx context.Context, conn dialect.Conn) error {
	_, err := c.s.Exec(ctx, conn, c.s.Statements.Checkout["ready"], dialect.Args{"queue": c.r.Queue, "limit": c.left, "holder": c.r.Holder,
		"lease": c.r.Lease.Microseconds(), "begun": c.r.Begun()})
	return err
}

// seenReady reads candidates without locks and leases those whose fence is still the same and that nobody has locked: the first ones in
// the first round, and then, when others took these, a random window.
func (c *checkout) seenReady(due []int, round int) part {
	return func(ctx context.Context, conn dialect.Conn) error {
		for _, p := range due {
			limit := c.left
			if limit < 1 || c.budget.Cut {
				return nil
			}
			args := dialect.Args{"queue": c.r.Queue, "priority": p, "limit": limit}
			if round > 0 {
				args["limit"] = limit * windows
			}
			seen, err := c.s.Query(ctx, conn, c.s.Statements.Checkout["see ready"], args)
			if err != nil {
				return err
			}
			if len(seen) > limit {
				seen = seen[rand.IntN(len(seen)-limit+1):][:limit]
			}
			seen = c.budget.Fit(seen)
			c.claimed += len(seen)
			if len(seen) == 0 {
				continue
			}
			rows, err := c.s.QueryBatch(ctx, conn, c.s.Statements.CheckoutBatch["skip ready"], keys(seen), len(seen))
			if err != nil {
				return err
			}
			if err := c.write(ctx, conn, "take ready", rows); err != nil {
				return err
			}
			c.left -= len(rows)
			c.budget.Spend(rows)
		}
		return nil
	}
}

// update leases by one UPDATE for each priority. It may wait for another's rows, and then finds that they are not due any more.
func (c *checkout) update(due []int) part {
	return func(ctx context.Context, conn dialect.Conn) error {
		c.claimed = len(due)
		for _, p := range due {
			if c.left < 1 {
				return nil
			}
			n, err := c.s.Exec(ctx, conn, c.s.Statements.Checkout["update"], dialect.Args{"queue": c.r.Queue, "priority": p, "limit": c.left,
				"holder": c.r.Holder, "lease": c.r.Lease.Microseconds(), "begun": c.r.Begun()})
			if err != nil {
				return err
			}
			c.left -= int(n)
		}
		return nil
	}
}

// expired takes over leases that ran out, and buries tasks whose attempts are spent.
func (c *checkout) expired(ctx context.Context, conn dialect.Conn) error {
	seen, err := c.s.Query(ctx, conn, c.s.Statements.Checkout["see expired"], dialect.Args{"queue": c.r.Queue, "limit": c.left, "holder": c.r.Holder})
	if seen = c.budget.Fit(seen); err != nil || len(seen) == 0 {
		return err
	}
	rows, err := c.s.QueryBatch(ctx, conn, c.s.Statements.CheckoutBatch["skip expired"], keys(seen), len(seen))
	if err != nil {
		return err
	}
	if rows, err = c.win(ctx, conn, rows); err != nil {
		return err
	}
	until := make(map[uuid.UUID]*int64, len(seen))
	for _, row := range seen {
		until[row.ID] = row.WasUntil
	}
	var again, spent []dialect.Row
	c.before = map[uuid.UUID]dialect.Row{}
	for i, row := range rows {
		row.WasHolder, row.WasTaken, row.WasUntil = rows[i].Holder, &rows[i].Updated, until[row.ID]
		isSpent := row.TakeOver()
		c.before[row.ID] = row
		if isSpent {
			row.Result = []byte("the lease of the last attempt ran out")
			if row.Holder != nil {
				row.Result = append(row.Result, ", held by "+*row.Holder...)
			}
			row.Result = append(row.Result, ", found by "+c.r.Holder...)
			spent = append(spent, row)
		} else {
			again = append(again, row)
		}
	}
	if err := c.write(ctx, conn, "bury", spent); err != nil {
		return err
	}
	for i := range spent {
		spent[i].State, spent[i].LeaseUntil = state.Poison, nil
		spent[i].Fence++
	}
	c.rows = append(c.rows, spent...)
	c.left -= len(rows)
	c.budget.Spend(rows)
	if err := c.write(ctx, conn, "take expired", again); err != nil {
		return err
	}
	for i := range again {
		again[i].Fence++
	}
	return dialect.RecordTakenOver(ctx, c.s, conn, slices.Concat(spent, again))
}

// keys are the ids and fences of rows, sorted by id, so that two of these never wait for each other in a circle.
func keys(rows []dialect.Row) dialect.Args {
	slices.SortFunc(rows, func(a, b dialect.Row) int { return slices.Compare(a.ID[:], b.ID[:]) })
	ids, fences := make(dialect.Col[uuid.UUID], len(rows)), make(dialect.Col[int64], len(rows))
	for i, row := range rows {
		ids[i], fences[i] = row.ID, row.Fence
	}
	return dialect.Args{"id": ids, "fence": fences}
}

// write changes rows by primary key, if their fences are still the same.
func (c *checkout) write(ctx context.Context, conn dialect.Conn, name string, rows []dialect.Row) error {
	if len(rows) == 0 {
		return nil
	}
	args := keys(rows)
	result, size := make(dialect.Col[[]byte], len(rows)), make(dialect.Col[*int64], len(rows))
	for i, row := range rows {
		result[i], size[i] = row.Result, dialect.SizeOf(row.Result)
	}
	args["result"], args["result_size"] = result, size
	// The driver wants each value as an array.
	args["lease"] = dialect.Col[int64](slices.Repeat([]int64{c.r.Lease.Microseconds()}, len(rows)))
	args["holder"] = dialect.Col[string](slices.Repeat([]string{c.r.Holder}, len(rows)))
	args["begun"] = dialect.Col[int64](slices.Repeat([]int64{c.r.Begun()}, len(rows)))
	_, err := c.s.ExecBatch(ctx, conn, c.s.Statements.CheckoutBatch[name], args, len(rows))
	return err
}
