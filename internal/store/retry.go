package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Bounds of the tries of one call. A conflict means that another transaction succeeded, so many tries are cheap and
// end soon; or that one has locked a row, which a call with a deadline waits for until then, and another one for half a
// minute. If the database cannot be reached, a call gives up after a few tries.
const (
	ConflictTries    = 25
	conflictPause    = 2 * time.Millisecond
	maxConflictPause = 250 * time.Millisecond
	lockWaited       = 500 * time.Millisecond // a conflict after that long is one with a lock; see longLockWait
	connectionTries  = 4
	connectionPause  = 40 * time.Millisecond // not before the first repetition: a pooled connection may just be stale
	silentTries      = 2                     // of those in which the server was silent for as long as the call's patience
)

type withoutPauses struct{}

// WithoutPauses makes calls try again at once after a lost connection, for tests of their final results.
func WithoutPauses(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutPauses{}, true)
}

// write tries a change until it succeeds, is refused, or its outcome is unknown. The change must be safe to repeat.
func (s *Store) write(ctx context.Context, change changeFunc) error {
	return s.writeBy(ctx, s.sql.Do, change)
}

// writeTx is write for a change of several statements.
func (s *Store) writeTx(ctx context.Context, change changeFunc) error {
	return s.writeBy(ctx, s.sql.Tx, change)
}

// writeBy is write for a change that run executes.
func (s *Store) writeBy(ctx context.Context, run runFunc, change changeFunc) error {
	again := false
	return s.repeat(ctx, func() (bool, error) {
		err := run(ctx, func(ctx context.Context, conn dialect.Conn) error { return change(ctx, conn, again) })
		again = again || s.sql.Class(err) == dialect.Ambiguous
		return again, err
	})
}

// changeFunc writes something on a connection. again reports that an earlier try may have happened.
type changeFunc func(ctx context.Context, conn dialect.Conn, again bool) error

// runFunc runs statements on a connection for writing, as the session's Do, Tx and Autocommit do.
type runFunc func(context.Context, func(context.Context, dialect.Conn) error) error

// runFor returns how to run RunBatch: in a transaction if these rows need one.
func (s *Store) runFor(op dialect.Op, args dialect.Args, n int) runFunc {
	if s.sql.NeedsTx(op, args, n) {
		return s.sql.Tx
	}
	if op == dialect.Extend { // a lock on a renewal would keep takeovers waiting, and with them checkouts
		return s.sql.OneStatement
	}
	return s.sql.Autocommit
}

// read returns the result of queries, which can be repeated without harm, on a connection for reading. Pass
// sqlrun.Slow(ctx) if they may take minutes.
func read[T any](
	ctx context.Context, s *Store, query func(ctx context.Context, conn dialect.Conn) (T, error),
) (out T, err error) {
	err = s.repeat(ctx, func() (bool, error) {
		return false, s.sql.Reading(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			out, err = query(ctx, conn)
			return err
		})
	})
	return out, err
}

// readRows is read for the rows of one statement.
func readRows[T any](ctx context.Context, s *Store, text string, args dialect.Args) ([]T, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) ([]T, error) {
		return sqlrun.QueryAs[T](ctx, s.sql, conn, text, args)
	})
}

// repeat retries while the class of the error permits it. try reports whether any attempt so far may have committed;
// the final error then says so.
func (s *Store) repeat(ctx context.Context, try func() (maybe bool, err error)) error {
	conflicts, losses, silent, maybe := 0, 0, 0, false
	_, bounded := ctx.Deadline()
	for {
		if s.closed.Load() {
			return maybeHappened(maybe, errs.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return maybeHappened(maybe, err)
		}
		var err error
		began := time.Now()
		maybe, err = try()
		if err == nil {
			return nil
		}
		if end := ctx.Err(); end != nil && !errors.Is(err, end) { // not every driver wraps the context's error
			err = fmt.Errorf("%w: %w", end, err)
		}
		if sqlrun.Silent(err) {
			silent++
		}
		var pause time.Duration
		class := s.sql.Class(err)
		switch {
		case errors.Is(err, errs.ErrWriterBusy): // it has waited long enough
			return maybeHappened(maybe, err)
		case s.IsConflict(err) && (conflicts < ConflictTries ||
			bounded && (time.Since(began) >= lockWaited || errors.Is(err, errRowLocked))):
			pause = ConflictPause(conflicts)
			conflicts++
			s.conflicts.Add(1)
		case (class == dialect.Unavailable || class == dialect.Ambiguous) && losses < connectionTries &&
			silent < silentTries:
			if ctx.Value(withoutPauses{}) == nil {
				pause = connectionPause * time.Duration(losses*losses)
			}
			losses++
		default:
			return maybeHappened(maybe, err)
		}
		s.retried.Add(1)
		s.Logger.Debug("dbq: trying again", "class", class.String(), "error", s.Scrub(err))
		if err2 := Sleep(ctx, Jittered(pause)); err2 != nil {
			return maybeHappened(maybe, fmt.Errorf("%w, after: %w", err2, err))
		}
	}
}

// once tries a change that must not be made twice, such as an insert: a task that is missing may have been added,
// completed and removed since, and would run twice. try reports whether it may have changed something. After a lost
// answer, once calls found to find out whether the change was made, and returns ErrMayHaveHappened if that is unknown.
func (s *Store) once(ctx context.Context, try func() (maybe bool, err error), found func() bool) error {
	var lost error // why the outcome cannot be known
	err := s.repeat(ctx, func() (bool, error) {
		maybe, err := try()
		if s.sql.Class(err) != dialect.Ambiguous {
			return maybe, err
		}
		if !found() {
			lost = err
		}
		return true, nil
	})
	if err == nil && lost != nil {
		err = maybeHappened(true, lost)
	}
	return err
}

// ConflictPause is the pause after the conflict that followed n others.
func ConflictPause(n int) time.Duration { return min(conflictPause<<min(n, 10), maxConflictPause) }

// Jittered returns a random time between half of d and d, so that calls that failed together do not retry together.
func Jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// maybeHappened adds ErrMayHaveHappened to err if an earlier try may have happened.
func maybeHappened(maybe bool, err error) error {
	if maybe && !errors.Is(err, errs.ErrMayHaveHappened) {
		return fmt.Errorf("%w: %w", errs.ErrMayHaveHappened, err)
	}
	return err
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
