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
	opClean    operation = "clean"
)

// health is the worker's view of the database: whether it answers, and which operations it refuses. The log has
// one line when that changes, instead of one for each try. All parts report to it, from any goroutine.
type health struct {
	log *logger
	bad atomic.Bool // unanswered or refused is not empty

	mu         sync.Mutex // also held while a change is logged, so that the lines are in order
	unanswered map[operation]bool
	since      time.Time // of the first of them
	failures   int       // since then
	refused    map[operation]refusal
}

// refusal is why the database refuses an operation.
type refusal struct {
	class dialect.Class
	since time.Time
}

func newHealth(log *logger) *health {
	return &health{log: log, unanswered: map[operation]bool{}, refused: map[operation]refusal{}}
}

// report takes in how an operation ended. Calls that the worker itself broke off say nothing about the database.
func (h *health) report(op operation, err error) {
	if err == nil {
		h.succeeded(op, op == opRegistry)
		return
	}
	if errors.Is(err, dbq.ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad.Store(true)
	if errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) ||
		errors.Is(err, context.DeadlineExceeded) {
		h.noAnswer(op, err)
	} else {
		h.refuses(op, err)
	}
}

// noAnswer takes in that the database did not answer, or not in time; h.mu is held.
func (h *health) noAnswer(op operation, err error) {
	if len(h.unanswered) == 0 {
		h.since, h.failures = time.Now(), 0
		h.log.each(lineAway, "operation", string(op), "error", errorText(err))
	}
	h.unanswered[op] = true
	h.failures++
}

// refuses takes in that the database answered with an error; h.mu is held.
func (h *health) refuses(op operation, err error) {
	var e *dbq.Error
	var class dialect.Class
	if errors.As(err, &e) {
		class = e.Class
	}
	before, known := h.refused[op]
	if !known {
		before.since = time.Now()
	}
	h.refused[op] = refusal{class, before.since}
	if !known || before.class != class {
		h.log.each(lineRefuses, "operation", string(op), "class", class.String(), "error", errorText(err))
	}
}

// leasedSome takes in a checkout that found tasks. The database is back, since it writes. A checkout that finds nothing
// writes nothing, and a server whose disk is full answers it.
func (h *health) leasedSome() { h.succeeded(opCheckOut, true) }

// succeeded takes in a success. The database is back when each operation that had no answer has succeeded, or one that
// certainly wrote: the others may have nothing left to do.
func (h *health) succeeded(op operation, wrote bool) {
	if !h.bad.Load() { // as almost always
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	wasAway := len(h.unanswered) > 0
	delete(h.unanswered, op)
	if wrote {
		clear(h.unanswered)
	}
	if wasAway && len(h.unanswered) == 0 {
		h.log.each(lineBack, "after", seconds(time.Since(h.since)), "failures", h.failures)
	}
	if refused, ok := h.refused[op]; ok {
		delete(h.refused, op)
		h.log.each(lineAccepts, "operation", string(op), "after", seconds(time.Since(refused.since)))
	}
	h.bad.Store(len(h.unanswered)+len(h.refused) > 0)
}
