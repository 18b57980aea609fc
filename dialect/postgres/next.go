package postgres

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// Next asks when a task is due, from the front on like a small checkout.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	c := checkout{s: s, r: dialect.CheckoutRequest{Queue: queue}}
	ask := func(name string, args dialect.Args) ([]dialect.Row, error) {
		return s.Query(ctx, conn, s.Statements.Checkout[name], args)
	}
	oldest, err := c.oldest(ask)
	if err != nil {
		return nil, err
	}
	f := c.front()
	since := f.get(1)
	args := dialect.Args{"queue": queue, "since": since, "oldest": oldest}
	if since == nil {
		args["since"] = fromStart
	}
	begin := time.Now()
	rows, err := s.Query(ctx, conn, s.Statements.Next, args)
	if err != nil || since != nil {
		return rows, err
	}
	if err := c.looked(time.Since(begin), 0, ask); err != nil {
		return nil, err
	}
	c.working().searched(f.isSlow())
	if r := rows[0]; f.isSlow() && (r.Due == nil || *r.Due > r.Now) { // it went through all that was due
		f.pass(r.Now - lateEnqueue.Microseconds())
	}
	return rows, nil
}
