package mysql

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// manyTaken is how many tasks a client has taken from a queue when entries of tasks that were taken may be what makes a search slow. The
	// servers do not tell everybody how many entries wait to be purged.
	manyTaken = 10_000
	// aheadPart is the part of a slow look's time that one from the front on takes at most, when it is what stands before the front that takes the time.
	aheadPart = 4
)

// asks is on the reading pool.
func (c *checkout) asks(ctx context.Context) dialect.Asker {
	return func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Ask(ctx, text, args) }
}

// begin looks for the priorities that have a due task, without locks, so that an idle poll is one statement, from the front of the queue on.
func (c *checkout) begin(ctx context.Context) (due []int, err error) {
	c.look.Since = dialect.FromStart
	if c.r.Strategy != dialect.CAS { // other nodes of a cluster may show their tasks late
		c.look = c.s.Front(c.r.Queue).Look(c.r.Limit)
	}
	began := time.Now()
	rows, err := c.due(ctx, c.look.Since)
	c.dueTook = time.Since(began)
	c.looked = c.dueTook
	for _, row := range rows {
		due = append(due, row.Priority)
	}
	slices.Sort(due)
	return due, err
}

func (c *checkout) due(ctx context.Context, since []int64) ([]dialect.Row, error) {
	return c.s.Ask(ctx, c.s.Statements.Checkout["due"], sinceArgs(c.r.Queue, since))
}

// sinceArgs are a queue and where to begin in each priority.
func sinceArgs(queue string, since []int64) dialect.Args {
	args := dialect.Args{"queue": queue}
	for p, at := range since {
		args["since"+strconv.Itoa(p)] = at
	}
	return args
}

// end tells the front what was found, once that is committed. Only the pace depends on it, so that no error of its questions matters.
func (c *checkout) end(ctx context.Context) {
	if c.r.Strategy != dialect.CAS && len(c.rows) == len(c.found) { // what took leases over did not look for all
		_ = c.look.Found(c.found, c.looked, c.deadDue(ctx), c.s.AskNow(c.asks(ctx)))
	}
}

// deadDue looks a second time, from what was found on: what stood before that is dead.
func (c *checkout) deadDue(ctx context.Context) dialect.Dead {
	return func() (bool, error) {
		if many, _ := c.manyTaken(); !many {
			return false, nil
		}
		var first int64
		if len(c.found) > 0 {
			first = slices.MinFunc(c.found, func(a, b dialect.Row) int { return cmp.Compare(a.WasDue, b.WasDue) }).WasDue
		} else {
			now, err := c.s.AskNow(c.asks(ctx))()
			if err != nil {
				return false, err
			}
			first = now
		}
		began := time.Now()
		_, err := c.due(ctx, slices.Repeat([]int64{first}, len(dialect.FromStart)))
		return time.Since(began) < c.dueTook/aheadPart, err
	}
}

// manyTaken tells whether there can be many dead entries.
func (c *checkout) manyTaken() (bool, error) { return c.s.Front(c.r.Queue).Taken() >= manyTaken, nil }

// seeExpired reads up to limit tasks whose lease ran out, without locks.
func (c *checkout) seeExpired(limit int, ask dialect.Asker) (seen []dialect.Row, err error) {
	args := dialect.Args{"queue": c.r.Queue, "limit": limit, "holder": c.r.Holder, "oldest": int64(0)}
	if c.r.Strategy == dialect.CAS {
		return ask(c.s.Statements.Checkout["see expired"], args)
	}
	if args["oldest"], err = c.s.OldestInWork(c.r.Queue, ask); err != nil {
		return nil, err
	}
	began := time.Now()
	if seen, err = ask(c.s.Statements.Checkout["see expired"], args); err == nil {
		err = c.s.Working(c.r.Queue).Searched(time.Since(began), len(seen), c.manyTaken)
	}
	return seen, err
}

// Next asks when a task is due, from the front on like a small checkout.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	ask := func(text string, args dialect.Args) ([]dialect.Row, error) { return s.Query(ctx, conn, text, args) }
	bind := func(since []int64) dialect.Args { return sinceArgs(queue, since) }
	return s.NextFrom(queue, ask, bind, func(took time.Duration) (bool, error) {
		c := checkout{s: s, r: dialect.CheckoutRequest{Queue: queue}, dueTook: took}
		return c.deadDue(ctx)()
	})
}
