package dialect

import (
	"context"
	"time"
)

// A Searcher is a dialect that remembers where its searches for due tasks begin: where an earlier one found that
// nothing is left before. Without it, Statements.Next runs for a queue.
type Searcher interface {
	// Next returns the row of Statements.Next, which may ask for other values than the queue here.
	Next(ctx context.Context, s *Session, c Conn, queue string) ([]Row, error)
	// Backdated says that this client has added tasks to a queue that were due at once for that long already, so that
	// checkouts find them without delay.
	Backdated(s *Session, queue string, by time.Duration)
}
