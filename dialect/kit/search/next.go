package search

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// NextFrom runs Statements.Next from the cursor of a queue, like a small checkout. oldest is the text of
// OldestLeased. bind returns the starting point under the statement's own names, in addition to :oldest. deadTuples
// receives the duration of the query.
func NextFrom(
	s *dialect.Session,
	oldest, queue string,
	query Query,
	bind func(since []int64) dialect.Args,
	deadTuples func(took time.Duration) (bool, error),
) ([]dialect.Row, error) {
	at, err := OldestLeased(s, oldest, queue, query)
	if err != nil {
		return nil, err
	}
	begun := CursorOf(s, queue).Begin(1)
	args := bind(begun.Since)
	args["oldest"] = at
	began := time.Now()
	rows, err := query(s.Statements.Next, args)
	if err != nil || begun.FromCursor {
		return rows, err
	}
	took := time.Since(began)
	slow, err := begun.Checked(rows[0], took, func() (bool, error) { return deadTuples(took) })
	ExpiredCursorOf(s, queue).SetSlow(slow)
	return rows, err
}

// Now returns a function that reads the database's clock, in microseconds, by query.
func Now(s *dialect.Session, query Query) func() (int64, error) {
	return func() (int64, error) {
		rows, err := query(s.Statements.ReadNow(), nil)
		if err != nil || len(rows) != 1 {
			return 0, err
		}
		return rows[0].Now, nil
	}
}
