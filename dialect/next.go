package dialect

import (
	"context"
	"time"
)

// A Searcher is a dialect that remembers where its next search for due tasks starts: after the part of the index that
// an earlier search found empty. For other dialects, the core runs Statements.Next.
type Searcher interface {
	// Next returns the row of Statements.Next, which can bind more values than the queue.
	Next(ctx context.Context, s *Session, c Conn, queue string) ([]Row, error)
	// Backdated resets the search of a queue after this client has added tasks that have been due for up to by, so that
	// checkouts find them without delay.
	Backdated(s *Session, queue string, by time.Duration)
}
