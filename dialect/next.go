package dialect

import "context"

// A Nexter is a dialect that asks when a task is due by more than one run of Statements.Next, as for searches that begin where an earlier
// one found that nothing is left before. It returns the row of Statements.Next,
// which may ask for other values than the queue then.
type Nexter interface {
	Next(ctx context.Context, s *Session, c Conn, queue string) ([]Row, error)
}
