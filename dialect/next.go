package dialect

import (
	"context"
	"time"
)

// A Nexter is a dialect that asks when a task is due by more than one run of Statements.Next, as for searches that begin where an earlier
// one found that nothing is left before. It returns the row of Statements.Next,
// which may ask for other values than the queue then.
type Nexter interface {
	Next(ctx context.Context, s *Session, c Conn, queue string) ([]Row, error)
}

// NextFrom asks Statements.Next from the front of a queue on, like a small checkout. bind gives where to begin the names that the statement has for it, beside :oldest; dead
// is told how long the question took.
func (s *Session) NextFrom(queue string, ask Asker, bind func(since []int64) Args, dead func(took time.Duration) (bool, error)) ([]Row, error) {
	oldest, err := s.OldestInWork(queue, ask)
	if err != nil {
		return nil, err
	}
	look := s.Front(queue).Look(1)
	args := bind(look.Since)
	args["oldest"] = oldest
	began := time.Now()
	rows, err := ask(s.Statements.Next, args)
	if err != nil || look.Ahead {
		return rows, err
	}
	took := time.Since(began)
	slow, err := look.Asked(rows[0], took, func() (bool, error) { return dead(took) })
	s.Working(queue).Was(slow)
	return rows, err
}
