package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
)

// Bounds of the tries of one call. A conflict means that somebody else got on, so many tries are cheap and end soon; a
// database that cannot be reached is left alone after a few.
const (
	ConflictTries    = 25
	conflictPause    = 2 * time.Millisecond
	maxConflictPause = 250 * time.Millisecond
	connectionTries  = 4
	connectionPause  = 40 * time.Millisecond // not before the first repetition: a pooled connection may just be stale
	readTimeout      = 5 * time.Minute
)

// Write does one change until it is done, refused, or its outcome cannot be known. The change must be safe to repeat;
// again tells it that an earlier try may have happened. Errors are raw: the caller wraps them.
func (s *Store) Write(ctx context.Context, change Change) error {
	return s.WriteBy(ctx, s.Do, change)
}

// WriteTx is Write for a change of several statements.
func (s *Store) WriteTx(ctx context.Context, change Change) error {
	return s.WriteBy(ctx, s.Tx, change)
}

// Change writes something; see Write.
type Change func(ctx context.Context, conn dialect.Conn, again bool) error

// A Way runs statements on a connection for writing: Session.Do, Tx, Autocommit or LockedTx.
type Way func(context.Context, func(context.Context, dialect.Conn) error) error

// wayFor is how RunBatch is run: in a transaction if these rows need one.
func (s *Store) wayFor(op dialect.Op, args dialect.Args, n int) Way {
	if s.NeedsTx(op, args, n) {
		return s.Tx
	}
	return s.Autocommit
}

// WriteBy is Write by another way to run statements.
func (s *Store) WriteBy(ctx context.Context, by Way, change Change) error {
	again := false
	return s.Repeat(ctx, func() (bool, error) {
		err := by(ctx, func(ctx context.Context, conn dialect.Conn) error { return change(ctx, conn, again) })
		again = again || s.Class(err) == dialect.Ambiguous
		return again, err
	})
}

// Read asks a question, which can be asked again without harm.
func (s *Store) Read(ctx context.Context, ask func(ctx context.Context, conn dialect.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return s.Repeat(ctx, func() (bool, error) {
		return false, s.Reading(ctx, func(conn dialect.Conn) error { return ask(ctx, conn) })
	})
}

// Repeat tries while the class of the error says that another try may help. try reports whether any try so far may have
// happened; then the error it ends with says so.
func (s *Store) Repeat(ctx context.Context, try func() (maybe bool, err error)) error {
	conflicts, losses, maybe := 0, 0, false
	for {
		if s.closed.Load() {
			return MaybeHappened(maybe, errs.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return MaybeHappened(maybe, err)
		}
		var err error
		maybe, err = try()
		if err == nil {
			return nil
		}
		if end := ctx.Err(); end != nil && !errors.Is(err, end) { // not every driver says that this is why
			err = fmt.Errorf("%w: %w", end, err)
		}
		var pause time.Duration
		class := s.Class(err)
		switch {
		case errors.Is(err, errs.ErrWriterBusy): // it has waited long enough
			return MaybeHappened(maybe, err)
		case class == dialect.Conflict && conflicts < ConflictTries:
			pause = ConflictPause(conflicts)
			conflicts++
			s.conflicts.Add(1)
		case (class == dialect.Unavailable || class == dialect.Ambiguous) && losses < connectionTries:
			pause = connectionPause * time.Duration(losses*losses)
			losses++
		default:
			return MaybeHappened(maybe, err)
		}
		s.retried.Add(1)
		s.Logger.Debug("dbq: trying again", "class", class.String(), "error", s.Scrub(err))
		if err2 := SleepAbout(ctx, pause); err2 != nil {
			return MaybeHappened(maybe, fmt.Errorf("%w, after: %w", err2, err))
		}
	}
}

// ConflictPause is the pause after the conflict that followed n others.
func ConflictPause(n int) time.Duration { return min(conflictPause<<min(n, 10), maxConflictPause) }

// SleepAbout waits for a random half to the whole of d, or until ctx ends.
func SleepAbout(ctx context.Context, d time.Duration) error { return Sleep(ctx, d/2+rand.N(d/2+1)) }

// MaybeHappened adds ErrMayHaveHappened to err when an earlier try may have happened.
func MaybeHappened(maybe bool, err error) error {
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
