package postgres

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// manyDead is how many dead rows the table has when they may be what makes a search slow.
const manyDead = 50_000

// A taker runs one of the searches that take.
type taker func(name string, args dialect.Args) ([]dialect.Row, error)

// fromFront takes due tasks from the front of the queue on.
func (c *checkout) fromFront(ask dialect.Asker, take taker) ([]dialect.Row, error) {
	limit, share := c.budget.Rows, c.budget.Share()
	look, small := c.s.Front(c.r.Queue).Look(limit), c.s.Small(c.r.Queue)
	c.ahead = look.Ahead
	args := c.args(limit)
	args["since"] = look.Since
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
		err = look.Found(rows, time.Since(begin), dead(c.s, ask), c.s.AskNow(ask))
	}
	return rows, err
}

// amongWorking takes tasks over whose lease ran out.
func (c *checkout) amongWorking(ask dialect.Asker, take taker) ([]dialect.Row, error) {
	working := c.s.Working(c.r.Queue)
	args := c.args(c.budget.Rows)
	var err error
	if args["oldest"], err = c.s.OldestInWork(c.r.Queue, ask); err != nil {
		return nil, err
	}
	begin := time.Now()
	rows, err := take("expired", args)
	if err == nil {
		err = working.Searched(time.Since(begin), len(rows), dead(c.s, ask))
	}
	return rows, err
}

// dead asks the server's statistics.
func dead(s *dialect.Session, ask dialect.Asker) dialect.Dead {
	return func() (bool, error) {
		rows, err := ask(s.Statements.Checkout["dead"], dialect.Args{"dead": manyDead})
		return len(rows) > 0, err
	}
}
