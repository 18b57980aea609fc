// Package store has one typed method for each operation on dbq's tables. It binds the values of the dialect's
// statements, retries calls that can succeed on another try, and determines the outcome if an answer was lost. Higher
// layers contain no SQL. Its errors are raw, or from package errs: the caller wraps them.
package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// Options are the settings of a store besides its session.
type Options struct {
	Logger *slog.Logger
	// Scrub hides the secrets of the DSN in an error.
	Scrub func(error) error
	// Strategy is the checkout strategy.
	Strategy dialect.Strategy
	// MaxPayload is the largest payload in bytes that it inserts.
	MaxPayload int
	// MaxCheckoutBytes bounds the payloads of a checkout.
	MaxCheckoutBytes int
	// MaxAttempts is the limit of the tasks that the store itself adds: dead-letter notices.
	MaxAttempts int
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	Options

	sql                *sqlrun.Session
	closed             atomic.Bool
	retried, conflicts atomic.Int64
	// lockedUntil is until when settlements first find out which rows are free, in nanoseconds; see meetsLocked.
	lockedUntil atomic.Int64
	// renewalsExpired is when it removed renewals that had ended, in nanoseconds.
	renewalsExpired atomic.Int64
	expiredSearches expiredSearches
	checkoutLimits  checkoutLimits
	sweeps          sweeps
	// statsQueues are the queues that Stats has found last, in order. Only its cost depends on them.
	statsQueues atomic.Pointer[[]string]
	// advancing has the names of the changes of workflows that Advance is carrying out: a large workflow takes a while.
	advancing sync.Map
}

// New makes a store of a session.
func New(s *sqlrun.Session, o Options) *Store {
	out := &Store{sql: s, Options: o}
	s.OnPoison = func(ctx context.Context, conn dialect.Conn, queue string, ids []uuid.UUID) error {
		if _, err := out.enqueueNotices(ctx, conn, queue, ids, out.deadLetterQueue); err != nil {
			return err
		}
		_, err := out.addChanges(ctx, conn, only(ids, isNeeded))
		return err
	}
	return out
}

// Close makes every later operation fail with ErrClosed. It reports whether the store was open, and leaves the pools
// as they are.
func (s *Store) Close() (wasOpen bool) { return !s.closed.Swap(true) }

// Closed reports whether Close was called.
func (s *Store) Closed() bool { return s.closed.Load() }

// Retried counts the repeated tries, and Conflicts the tries among them that ended in a conflict.
func (s *Store) Retried() int64   { return s.retried.Load() }
func (s *Store) Conflicts() int64 { return s.conflicts.Load() }

// Server returns the result of the probe.
func (s *Store) Server() dialect.Server { return s.sql.Server }

// Pool returns the pools that the store works on.
func (s *Store) Pool() dialect.Pool { return s.sql.Pool }

// DialectName returns the name of the dialect, such as "postgres".
func (s *Store) DialectName() string { return s.sql.Dialect.Name() }

// Class returns the class of an error of the store.
func (s *Store) Class(err error) dialect.Class { return s.sql.Class(err) }

// Backdated informs the dialect that this client has added tasks that have been due for that long; see
// dialect.Searcher.
func (s *Store) Backdated(queue string, by time.Duration) { s.sql.Backdated(queue, by) }

// BeginTx begins a transaction of the program; see sqlrun.Session.BeginTx.
func (s *Store) BeginTx(ctx context.Context, cancel func(), opts *sql.TxOptions) (*sql.Tx, func(error), error) {
	return s.sql.BeginTx(ctx, cancel, opts)
}

// IsConflict reports whether err means that the database rolled a transaction back in favor of another.
func (s *Store) IsConflict(err error) bool {
	return err != nil && (errors.Is(err, errs.ErrConflict) || s.sql.Class(err) == dialect.Conflict)
}

// txConn returns a Conn of a caller's transaction. It returns ErrClosed, or ErrTx of package sqlrun.
func (s *Store) txConn(tx sqlrun.Tx) (dialect.Conn, error) {
	if s.Closed() {
		return nil, errs.ErrClosed
	}
	return sqlrun.TxConn(tx)
}

// queryIDs runs a batch whose only value is the column :id.
func queryIDs[T any](
	ctx context.Context, s *Store, conn dialect.Conn, b dialect.Batch, ids []uuid.UUID,
) ([]T, error) {
	return sqlrun.QueryBatchAs[T](ctx, s.sql, conn, b, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
}

// execIDs is queryIDs for a statement that returns nothing.
func (s *Store) execIDs(ctx context.Context, conn dialect.Conn, b dialect.Batch, ids []uuid.UUID) error {
	_, err := s.sql.ExecBatch(ctx, conn, b, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
	return err
}
