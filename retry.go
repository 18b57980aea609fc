package dbq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// Bounds of the tries of one call. A conflict means that somebody else got on, so many tries are cheap and end soon; a
// database that cannot be reached is left alone after a few.
const (
	conflictTries    = 25
	conflictPause    = 2 * time.Millisecond
	maxConflictPause = 250 * time.Millisecond
	connectionTries  = 4
	connectionPause  = 40 * time.Millisecond // not before the first repetition: a pooled connection may just be stale
	readTimeout      = 5 * time.Minute
)

// write does one change until it is done, refused, or its outcome cannot be known. The change must be safe to repeat;
// again tells it that an earlier try may have happened. Errors are raw: the caller wraps them.
func (c *Client) write(ctx context.Context, change change) error {
	return c.writeBy(ctx, c.s.Do, change)
}

// writeTx is write for a change of several statements.
func (c *Client) writeTx(ctx context.Context, change change) error {
	return c.writeBy(ctx, c.s.Tx, change)
}

// change writes something; see write.
type change func(ctx context.Context, conn dialect.Conn, again bool) error

// writeBy is write by a way of the session's to run statements.
func (c *Client) writeBy(ctx context.Context, by func(context.Context, func(context.Context, dialect.Conn) error) error, change change) error {
	again := false
	return c.repeat(ctx, func() (bool, error) {
		err := by(ctx, func(ctx context.Context, conn dialect.Conn) error { return change(ctx, conn, again) })
		again = again || c.s.Class(err) == dialect.Ambiguous
		return again, err
	})
}

// read asks a question, which can be asked again without harm.
func (c *Client) read(ctx context.Context, ask func(ctx context.Context, conn dialect.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return c.repeat(ctx, func() (bool, error) {
		return false, c.s.Reading(ctx, func(conn dialect.Conn) error { return ask(ctx, conn) })
	})
}

// repeat tries while the class of the error says that another try may help. try reports whether any try so far may have
// happened; then the error it ends with says so.
func (c *Client) repeat(ctx context.Context, try func() (maybe bool, err error)) error {
	conflicts, losses, maybe := 0, 0, false
	for {
		if c.closed.Load() {
			return outcome(maybe, ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return outcome(maybe, err)
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
		class := c.s.Class(err)
		switch {
		case errors.Is(err, dialect.ErrWriterBusy): // it has waited long enough
			return outcome(maybe, err)
		case class == dialect.Conflict && conflicts < conflictTries:
			pause = min(conflictPause<<min(conflicts, 10), maxConflictPause)
			conflicts++
			c.conflict.Add(1)
		case (class == dialect.Unavailable || class == dialect.Ambiguous) && losses < connectionTries:
			pause = connectionPause * time.Duration(losses*losses)
			losses++
		default:
			return outcome(maybe, err)
		}
		c.retried.Add(1)
		c.cfg.logger.Debug("dbq: trying again", "class", class.String(), "error", c.scrub(err))
		if err2 := sleep(ctx, pause/2+rand.N(pause/2+1)); err2 != nil {
			return outcome(maybe, fmt.Errorf("%w, after: %w", err2, err))
		}
	}
}

// IsConflict reports whether err, of a call of this client's or of a statement in a transaction of the caller's, means that the database
// broke the transaction off in favour of another: a deadlock, a serialization failure, a lock that was not had in time. Nothing of that
// transaction happened, and it is worth another try.
func (c *Client) IsConflict(err error) bool {
	return err != nil && (errors.Is(err, ErrConflict) || c.s.Class(err) == dialect.Conflict)
}

func outcome(maybe bool, err error) error {
	if maybe && !errors.Is(err, ErrMayHaveHappened) {
		return fmt.Errorf("%w: %w", ErrMayHaveHappened, err)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
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
