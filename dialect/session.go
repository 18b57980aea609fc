package dialect

import (
	"context"
	"fmt"
)

// A Session gives a dialect access to an open database. It is safe for concurrent use.
type Session struct {
	Server     Server
	Names      Names
	Statements Statements
	Runner
}

// Private returns a statement of Statements.Private. It panics if there is none with that name, which is a misspelling
// in the dialect.
func (s *Session) Private(name string) Batch {
	b, found := s.Statements.Private[name]
	if !found {
		panic(fmt.Sprintf("dialect: Statements.Private has no %q", name))
	}
	return b
}

// A Runner binds the values of statements and runs them. The core supplies it; a dialect need not implement it.
type Runner interface {
	// Query runs a statement on c that returns rows of tasks. Exec runs one that returns none, and reports the number of
	// affected rows.
	Query(ctx context.Context, c Conn, text string, args Args) ([]Row, error)
	Exec(ctx context.Context, c Conn, text string, args Args) (touched int64, err error)
	// QueryBatch and ExecBatch do the same for a batch of n rows, in as many statements as its Max requires.
	QueryBatch(ctx context.Context, c Conn, b Batch, args Args, n int) ([]Row, error)
	ExecBatch(ctx context.Context, c Conn, b Batch, args Args, n int) (touched int64, err error)
	// Read runs a query on the reading pool. It never changes anything, whatever its error.
	Read(ctx context.Context, text string, args Args) ([]Row, error)

	// RecordTakenOver adds to the history the attempts that a takeover of rows ended, and calls EnqueueNotices; see
	// kit.Budget.TakeOver.
	RecordTakenOver(ctx context.Context, c Conn, rows []Row) error
	// EnqueueNotices adds a notice to the queue's dead-letter queue, if it has one, for each of rows that is POISON. c is
	// in the transaction that moved the rows to POISON. A dialect calls it if its takeover writes the history itself.
	EnqueueNotices(ctx context.Context, c Conn, rows []Row) error

	// Do acquires a connection for writing and runs f on it, in a transaction of its own where Server.ExplicitTx is set.
	// Otherwise each statement autocommits.
	Do(ctx context.Context, f func(ctx context.Context, c Conn) error) error
	// Tx runs f in a transaction, which begins by Statements.Begin, and commits when f returns nil. When ctx ends, f's
	// statements are cancelled and rolled back; ctx never cancels the COMMIT itself.
	Tx(ctx context.Context, f func(ctx context.Context, c Conn) error) error
	// LockedTx is Tx under a lock of its connection.
	LockedTx(ctx context.Context, lock Lock, f func(ctx context.Context, c Conn) error) error

	// Class returns the class of an error of the functions above. Inside a transaction, a lost connection is Unavailable
	// before COMMIT was sent, and Ambiguous after.
	Class(err error) Class
	// LoadOrStore returns the value stored under key, or stores fresh and returns it. Only speed may depend on it,
	// because all values are dropped if there are too many.
	LoadOrStore(key string, fresh any) any
}

// Lock is a pair of statements that acquire and release a lock of a connection's session. Take must wait for the lock,
// and fail if it cannot acquire it. Without Free, Take runs first in the transaction, and the end of the transaction
// releases the lock. Both empty means no lock.
type Lock struct {
	Take, Free string
	Args       Args
	// Early releases the lock before the COMMIT instead of after it, for a lock that only prevents others from doing the
	// same work and need not make them wait for the disk.
	Early bool
}
