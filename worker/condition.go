package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// operation is a call to the database that the worker makes again and again, as the log names it.
type operation string

const (
	opCheckOut operation = "check out"
	opDue      operation = "find due tasks"
	opStart    operation = "mark attempts as started"
	opSettle   operation = "settle"
	opRenew    operation = "renew leases"
	opRevoked  operation = "find revoked tasks"
	opRegistry operation = "report to the registry"
	opRecord   operation = "write the history"
	opClean    operation = "clean"
)

// condition is what the worker knows about the database: whether it answers, and which operations it refuses. The log
// has one line when that changes, not one for each try.
type condition struct {
	log *reporter
	bad atomic.Bool // any of the following is not empty

	mu       sync.Mutex
	away     map[operation]bool // got no answer
	since    time.Time          // of the first of them
	failures int                // since then
	refused  map[operation]refusal
}

// refusal is why the database refuses an operation.
type refusal struct {
	class dialect.Class
	since time.Time
}

func newCondition(log *reporter) *condition {
	return &condition{log: log, away: map[operation]bool{}, refused: map[operation]refusal{}}
}

// note takes in how an operation ended. Calls that the worker itself broke off say nothing about the database.
func (c *condition) note(op operation, err error) {
	switch {
	case err == nil:
		if c.bad.Load() {
			c.answered(op, op == opRegistry)
		}
	case errors.Is(err, dbq.ErrClosed) || errors.Is(err, context.Canceled):
	case isAway(err):
		c.unanswered(op, err)
	default:
		c.refuses(op, err)
	}
}

// isAway reports whether an error says that the database did not answer, or not in time.
func isAway(err error) bool {
	return errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) ||
		errors.Is(err, context.DeadlineExceeded)
}

func (c *condition) unanswered(op operation, err error) {
	c.mu.Lock()
	first := len(c.away) == 0
	if first {
		c.since, c.failures = time.Now(), 0
	}
	c.away[op] = true
	c.failures++
	c.bad.Store(true)
	c.mu.Unlock()
	if first {
		c.log.each(lineAway, "operation", string(op), "error", errorText(err))
	}
}

func (c *condition) refuses(op operation, err error) {
	var e *dbq.Error
	var class dialect.Class
	if errors.As(err, &e) {
		class = e.Class
	}
	c.mu.Lock()
	before, was := c.refused[op]
	if !was {
		before.since = time.Now()
	}
	c.refused[op] = refusal{class, before.since}
	c.bad.Store(true)
	c.mu.Unlock()
	if !was || before.class != class {
		c.log.each(lineRefuses, "operation", string(op), "class", class.String(), "error", errorText(err))
	}
}

// wrote takes in a checkout that found tasks. The database is back, since it writes; one that found nothing has written
// nothing, and a server whose disk is full answers it.
func (c *condition) wrote() {
	if c.bad.Load() {
		c.answered(opCheckOut, true)
	}
}

// answered takes in a success. The database is back when each operation that had no answer has succeeded, or one that
// writes for sure: the others may have nothing left to do.
func (c *condition) answered(op operation, writes bool) {
	c.mu.Lock()
	wasAway := len(c.away) > 0
	delete(c.away, op)
	if writes {
		clear(c.away)
	}
	back, since, failures := wasAway && len(c.away) == 0, c.since, c.failures
	refused, wasRefused := c.refused[op]
	delete(c.refused, op)
	c.bad.Store(len(c.away)+len(c.refused) > 0)
	c.mu.Unlock()
	if back {
		c.log.each(lineBack, "after", seconds(time.Since(since)), "failures", failures)
	}
	if wasRefused {
		c.log.each(lineAccepts, "operation", string(op), "after", seconds(time.Since(refused.since)))
	}
}
