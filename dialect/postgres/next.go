package postgres

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/search"
)

// Next determines when a task is due. Like a small checkout, it starts at the cursor.
func (Dialect) Next(ctx context.Context, s *dialect.Session, conn dialect.Conn, queue string) ([]dialect.Row, error) {
	query := func(text string, args dialect.Args) ([]dialect.Row, error) { return s.Query(ctx, conn, text, args) }
	bind := func(since []int64) dialect.Args { return dialect.Args{"queue": queue, "since": since} }
	slow := func(time.Duration) (bool, error) { return deadTuples(s, query)() }
	return search.NextFrom(s, s.Statements.Own["oldest"].SQL, queue, query, bind, slow)
}
