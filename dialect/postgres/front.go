package postgres

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// manyDead is how many dead rows the table has when they may be what makes a search slow.
const manyDead = 50_000

// An asker runs a statement that only reads, and a taker the search that takes.
type (
	asker func(text string, args dialect.Args) ([]dialect.Row, error)
	taker func(args dialect.Args) ([]dialect.Row, error)
)

// fromFront takes due tasks from the front of the queue on.
func (c *checkout) fromFront(limit int, ask asker, take taker) ([]dialect.Row, error) {
	look := c.s.Front(c.r.Queue).Look(limit)
	c.ahead = look.Ahead
	args := c.args(limit)
	args["since"] = look.Since
	begin := time.Now()
	rows, err := take(args)
	if err == nil {
		err = look.Found(rows, time.Since(begin), c.dead(ask), c.s.AskNow(ask))
	}
	return rows, err
}

// amongWorking takes tasks over whose lease ran out.
func (c *checkout) amongWorking(limit int, ask asker, take taker) ([]dialect.Row, error) {
	working := c.s.Working(c.r.Queue)
	args := c.args(limit)
	var err error
	if args["oldest"], err = c.oldest(ask); err != nil {
		return nil, err
	}
	begin := time.Now()
	rows, err := take(args)
	if err == nil {
		err = working.Searched(time.Since(begin), len(rows), c.dead(ask))
	}
	return rows, err
}

// oldest is since when the tasks in work were taken.
func (c *checkout) oldest(ask asker) (int64, error) {
	return c.s.Working(c.r.Queue).Oldest(c.r.Queue, func(args dialect.Args) ([]dialect.Row, error) {
		return ask(c.s.Statements.Checkout["oldest"], args)
	})
}

// dead asks the server's statistics.
func (c *checkout) dead(ask asker) dialect.Dead {
	return func() (bool, error) {
		rows, err := ask(c.s.Statements.Checkout["dead"], dialect.Args{"dead": manyDead})
		return len(rows) > 0, err
	}
}
