package postgres

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// Next asks when a task is due, from the front on like a small checkout.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	ask := func(text string, args dialect.Args) ([]dialect.Row, error) { return s.Query(ctx, conn, text, args) }
	bind := func(since []int64) dialect.Args { return dialect.Args{"queue": queue, "since": since} }
	return s.NextFrom(queue, ask, bind, func(time.Duration) (bool, error) { return dead(s, ask)() })
}
