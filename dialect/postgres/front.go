package postgres

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// manyDead is how many dead rows the table has when they may be what makes a search slow.
const manyDead = 50_000

// A taker runs the search that takes.
type taker func(args dialect.Args) ([]dialect.Row, error)

// fromFront takes due tasks from the front of the queue on.
func (c *checkout) fromFront(limit int, ask dialect.Asker, take taker) ([]dialect.Row, error) {
	look := c.s.Front(c.r.Queue).Look(limit)
	c.ahead = look.Ahead
	args := c.args(limit)
	args["since"] = look.Since
	begin := time.Now()
	rows, err := take(args)
	if err == nil {
		err = look.Found(rows, time.Since(begin), dead(c.s, ask), c.s.AskNow(ask))
	}
	return rows, err
}

// amongWorking takes tasks over whose lease ran out.
func (c *checkout) amongWorking(limit int, ask dialect.Asker, take taker) ([]dialect.Row, error) {
	working := c.s.Working(c.r.Queue)
	args := c.args(limit)
	var err error
	if args["oldest"], err = c.s.OldestInWork(c.r.Queue, ask); err != nil {
		return nil, err
	}
	begin := time.Now()
	rows, err := take(args)
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
