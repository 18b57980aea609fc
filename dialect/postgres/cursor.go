package postgres

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/scan"
)

// manyDead is the number of dead tuples from which they may be the cause of a slow scan.
const manyDead = 50_000

// A taker runs one of the statements that lease tasks.
type taker func(name string, args dialect.Args) ([]dialect.Row, error)

// fromCursor leases due tasks, starting at the queue's cursor.
func (c *checkout) fromCursor(query scan.Query, take taker) ([]dialect.Row, error) {
	limit, share := c.budget.Rows, c.budget.Share()
	begun, small := scan.CursorOf(c.s, c.r.Queue).Begin(limit), scan.SmallOf(c.s, c.r.Queue)
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
		err = begun.Found(rows, time.Since(begin), dead(c.s, query), scan.Now(c.s, query))
	}
	return rows, err
}

// expired takes over tasks whose lease expired.
func (c *checkout) expired(query scan.Query, take taker) ([]dialect.Row, error) {
	cursor := scan.ExpiredCursorOf(c.s, c.r.Queue)
	args := c.args(c.budget.Rows)
	var err error
	if args["oldest"], err = scan.OldestLeased(c.s, c.s.Statements.Own["oldest"].SQL, c.r.Queue, query); err != nil {
		return nil, err
	}
	begin := time.Now()
	rows, err := take("expired", args)
	if err == nil {
		err = cursor.Scanned(time.Since(begin), len(rows), dead(c.s, query))
	}
	return rows, err
}

// dead reads from the server's statistics whether there are many dead tuples.
func dead(s *dialect.Session, query scan.Query) scan.DeadTuples {
	return func() (bool, error) {
		rows, err := query(s.Statements.Own["dead"].SQL, dialect.Args{"dead": manyDead})
		return len(rows) > 0, err
	}
}

// Backdated implements dialect.Searcher.
func (Dialect) Backdated(s *dialect.Session, queue string, by time.Duration) {
	scan.CursorOf(s, queue).Backdated(by)
}
