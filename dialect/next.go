package dialect

import (
	"context"
	"time"
)

// A Nexter is a dialect that asks when a task is due by more than one run of Statements.Next, as for searches that
// begin where an earlier one found that nothing is left before. It returns the row of Statements.Next, which may ask
// for other values than the queue then.
type Nexter interface {
	Next(ctx context.Context, s *Session, c Conn, queue string) ([]Row, error)
}

// A Backdater is a dialect that remembers where its searches for due tasks begin. The core tells it when this client
// has added tasks to a queue that were due at once for that long already, so that checkouts find them without delay.
type Backdater interface {
	Backdated(s *Session, queue string, by time.Duration)
}
