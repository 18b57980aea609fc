// Package store has one typed method for each operation on dbq's tables. It binds the values of the dialect's
// statements, repeats what is worth another try, and finds out what happened when an answer was lost. Everything above
// it is free of SQL. Its errors are raw, or those of package errs: the caller wraps them.
package store

import (
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Options are the settings of a store besides its session.
type Options struct {
	Logger *slog.Logger
	// Scrub hides the secrets of the DSN in an error.
	Scrub func(error) error
	// Strategy is how it checks out.
	Strategy dialect.Strategy
	// MaxPayload is the largest payload in bytes that it inserts.
	MaxPayload int
	// MaxCheckoutBytes bounds the payloads of a checkout.
	MaxCheckoutBytes int
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	*sqlrun.Session
	Options

	closed             atomic.Bool
	retried, conflicts atomic.Int64
	// lockedUntil is until when settlements first find out which rows are free, in nanoseconds; see meetsLocked.
	lockedUntil atomic.Int64
	// renewalsExpired is when it removed renewals that had ended, in nanoseconds.
	renewalsExpired atomic.Int64
	expiredScans    expiredScans
	checkoutLimits  checkoutLimits
	sweeps          sweeps
}

// New makes a store of a session.
func New(s *sqlrun.Session, o Options) *Store { return &Store{Session: s, Options: o} }

// Close makes every later operation fail with ErrClosed. It reports whether the store was open, and leaves the pools
// as they are.
func (s *Store) Close() (wasOpen bool) { return !s.closed.Swap(true) }

// Closed reports whether Close was called.
func (s *Store) Closed() bool { return s.closed.Load() }

// Retried counts the tries that were repeated, and Conflicts those of them that ended in a conflict.
func (s *Store) Retried() int64   { return s.retried.Load() }
func (s *Store) Conflicts() int64 { return s.conflicts.Load() }

// IsConflict reports whether err means that the database broke a transaction off in favour of another.
func (s *Store) IsConflict(err error) bool {
	return err != nil && (errors.Is(err, errs.ErrConflict) || s.Class(err) == dialect.Conflict)
}

// TxConn returns a caller's transaction as something to run statements on: ErrClosed, or ErrTx of package sqlrun.
func (s *Store) TxConn(tx any) (dialect.Conn, error) {
	if s.Closed() {
		return nil, errs.ErrClosed
	}
	return sqlrun.TxConn(tx)
}
