package mysql

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/search"
)

const (
	// manyTaken is the number of tasks leased from a queue by this client from which their index entries may make a search
	// slow. The servers do not report to every user how many entries wait to be purged.
	manyTaken = 10_000
	// cursorPart: if dead tuples make a search slow, one that starts at the cursor takes less than this fraction of its
	// time.
	cursorPart = 4
)

// reads returns a Query on the pool for reading.
func (c *checkout) reads(ctx context.Context) search.Query {
	return func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Read(ctx, text, args) }
}

// begin finds the priorities that have a due task, without locks, starting at the queue's cursor, so that an idle poll
// costs one statement.
func (c *checkout) begin(ctx context.Context) (due []int, err error) {
	c.scan.Since = search.FromStart()
	if c.r.Strategy != dialect.CAS { // other nodes of a cluster may show their tasks late
		c.scan = search.CursorOf(c.s, c.r.Queue).Begin(c.r.Limit)
	}
	began := time.Now()
	rows, err := c.due(ctx, c.scan.Since)
	c.dueTook = time.Since(began)
	c.searched = c.dueTook
	for _, row := range rows {
		due = append(due, row.Priority)
	}
	slices.Sort(due)
	return due, err
}

func (c *checkout) due(ctx context.Context, since []int64) ([]dialect.Row, error) {
	return c.s.Read(ctx, c.s.Private("due").SQL, sinceArgs(c.r.Queue, since))
}

// sinceArgs returns the queue and the starting point of each priority.
func sinceArgs(queue string, since []int64) dialect.Args {
	args := dialect.Args{"queue": queue}
	for p, at := range since {
		args["since"+strconv.Itoa(p)] = at
	}
	return args
}

// end moves the cursor after the commit, according to the found rows. Only speed depends on the cursor, so errors of
// its queries are ignored.
func (c *checkout) end(ctx context.Context) {
	if c.r.Strategy != dialect.CAS && len(c.budget.Result().Rows) == len(c.found) {
		// A checkout that took over leases did not search for all due tasks.
		_ = c.scan.Found(c.budget.Result(), c.searched, c.deadTuples(ctx), search.Now(c.s, c.reads(ctx)))
	}
}

// deadTuples returns a function that repeats the search from the first found task. The time that this saves was spent
// on dead tuples.
func (c *checkout) deadTuples(ctx context.Context) search.DeadTuples {
	return func() (bool, error) {
		if many, _ := c.manyTaken(); !many {
			return false, nil
		}
		var first int64
		if len(c.found) > 0 {
			first = slices.MinFunc(c.found, func(a, b dialect.Row) int { return cmp.Compare(a.WasDue, b.WasDue) }).WasDue
		} else {
			now, err := search.Now(c.s, c.reads(ctx))()
			if err != nil {
				return false, err
			}
			first = now
		}
		began := time.Now()
		_, err := c.due(ctx, slices.Repeat([]int64{first}, len(search.FromStart())))
		return time.Since(began) < c.dueTook/cursorPart, err
	}
}

// manyTaken reports whether there can be many dead tuples.
func (c *checkout) manyTaken() (bool, error) {
	return search.CursorOf(c.s, c.r.Queue).Taken() >= manyTaken, nil
}

// seeExpired reads up to limit tasks whose lease expired, without locks.
func (c *checkout) seeExpired(limit int, query search.Query) (seen []dialect.Row, err error) {
	args := dialect.Args{"queue": c.r.Queue, "limit": limit, "holder": c.r.Holder, "oldest": int64(0)}
	if c.r.Strategy == dialect.CAS {
		return query(c.s.Private("see expired").SQL, args)
	}
	if args["oldest"], err = search.OldestLeased(c.s, c.s.Private("oldest").SQL, c.r.Queue, query); err != nil {
		return nil, err
	}
	began := time.Now()
	if seen, err = query(c.s.Private("see expired").SQL, args); err == nil {
		err = search.ExpiredCursorOf(c.s, c.r.Queue).Searched(time.Since(began), len(seen), c.manyTaken)
	}
	return seen, err
}

// Next determines when a task is due. Like a small checkout, it starts at the cursor.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	query := func(text string, args dialect.Args) ([]dialect.Row, error) { return s.Query(ctx, conn, text, args) }
	bind := func(since []int64) dialect.Args { return sinceArgs(queue, since) }
	slow := func(took time.Duration) (bool, error) {
		c := checkout{s: s, r: dialect.CheckoutRequest{Queue: queue}, dueTook: took}
		return c.deadTuples(ctx)()
	}
	return search.NextFrom(s, s.Private("oldest").SQL, queue, query, bind, slow)
}

// Backdated implements dialect.Searcher.
func (Dialect) Backdated(s *dialect.Session, queue string, by time.Duration) {
	search.CursorOf(s, queue).Backdated(by)
}
