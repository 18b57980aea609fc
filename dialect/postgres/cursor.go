package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/search"
)

// manyDeadTuples is the number of dead tuples from which they may be the cause of a slow search.
const manyDeadTuples = 50_000

// A taker runs one of the statements that lease tasks.
type taker func(name string, args dialect.Args) ([]dialect.Row, error)

// fromCursor leases due tasks, starting at the queue's cursor.
func (c *checkout) fromCursor(query search.Query, take taker) ([]dialect.Row, error) {
	limit, share := c.budget.Rows, c.budget.Share()
	begun, small := search.CursorOf(c.s, c.r.Queue).Begin(limit), search.SmallOf(c.s, c.r.Queue)
	c.pastStart = begun.FromCursor
	args := c.args(limit)
	args["since"] = begun.Since
	begin := time.Now()
	var rows []dialect.Row
	var err error
	if small.Were() {
		rows, err = take("ready", args)
	}
	if len(rows) == 0 && err == nil {
		rows, err = take("ready within", args)
	}
	if err == nil {
		small.Found(rows, share)
		cut := slices.ContainsFunc(rows, func(r dialect.Row) bool { return r.Cut })
		result, took := dialect.CheckoutResult{Rows: rows, More: cut}, time.Since(begin)
		err = begun.Found(result, took, deadTuples(c.s, query), search.Now(c.s, query))
	}
	return rows, err
}

// expired takes over tasks whose lease expired. It finds them without locks, so that it begins a transaction only if
// there are some. run is that of takeSeen.
func (c *checkout) expired(ctx context.Context, query search.Query, run runFunc) ([]dialect.Row, error) {
	cursor := search.ExpiredCursorOf(c.s, c.r.Queue)
	args := c.args(0)
	var err error
	if args["oldest"], err = search.OldestLeased(c.s, c.s.Private("oldest").SQL, c.r.Queue, query); err != nil {
		return nil, err
	}
	begin := time.Now()
	rows, err := c.takeCandidates(ctx, "expired", args, query, run)
	if err == nil {
		err = cursor.Searched(time.Since(begin), len(rows), deadTuples(c.s, query))
	}
	return rows, err
}

// deadTuples reads from the server's statistics whether there are many dead tuples.
func deadTuples(s *dialect.Session, query search.Query) search.DeadTuples {
	return func() (bool, error) {
		rows, err := query(s.Private("dead tuples").SQL, dialect.Args{"many": manyDeadTuples})
		return len(rows) > 0, err
	}
}

// Next determines when a task is due. Like a small checkout, it starts at the cursor.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	query := func(text string, args dialect.Args) ([]dialect.Row, error) { return s.Query(ctx, conn, text, args) }
	bind := func(since []int64) dialect.Args { return dialect.Args{"queue": queue, "since": since} }
	slow := func(time.Duration) (bool, error) { return deadTuples(s, query)() }
	return search.NextFrom(s, s.Private("oldest").SQL, queue, query, bind, slow)
}

// Backdated implements dialect.Searcher.
func (Dialect) Backdated(s *dialect.Session, queue string, by time.Duration) {
	search.CursorOf(s, queue).Backdated(by)
}
