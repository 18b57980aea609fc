package postgres

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// Next asks when a task is due, from the front on like a small checkout.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	c := checkout{s: s, r: dialect.CheckoutRequest{Queue: queue}}
	ask := func(text string, args dialect.Args) ([]dialect.Row, error) { return s.Query(ctx, conn, text, args) }
	oldest, err := c.oldest(ask)
	if err != nil {
		return nil, err
	}
	look := s.Front(queue).Look(1)
	begin := time.Now()
	rows, err := ask(s.Statements.Next, dialect.Args{"queue": queue, "since": look.Since, "oldest": oldest})
	if err != nil || look.Ahead {
		return rows, err
	}
	slow, err := look.Asked(rows[0], time.Since(begin), c.dead(ask))
	s.Working(queue).Was(slow)
	return rows, err
}
