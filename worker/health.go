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

// operation is the log's name for a call to the database that the worker repeats.
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
	opAdvance  operation = "advance workflows"
	opStats    operation = "report statistics"
)

// health is the worker's view of the database: whether it answers, and which operations it refuses. The log has one
// line for each change, instead of one for each try. All parts report to it, from any goroutine.
type health struct {
	log *logger
	bad atomic.Bool // unanswered or refused is not empty

	mu         sync.Mutex // also held while a change is logged, so that the lines are in order
	unanswered map[operation]bool
	since      time.Time // when the first of them failed
	failures   int       // since then
	refused    map[operation]refusal
}

// refusal is the reason for which the database refuses an operation.
type refusal struct {
	class dialect.Class
	since time.Time
}

func newHealth(log *logger) *health {
	return &health{log: log, unanswered: map[operation]bool{}, refused: map[operation]refusal{}}
}

// report processes the result of an operation. Calls that the worker itself cancelled are ignored.
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

// noAnswer records that the database did not answer in time. The caller holds h.mu.
func (h *health) noAnswer(op operation, err error) {
	if len(h.unanswered) == 0 {
		h.since, h.failures = time.Now(), 0
		gone := lineAway
		if errors.Is(err, dbq.ErrWriterBusy) {
			gone = lineBusy
		}
		h.log.each(gone, "operation", string(op), "error", errorText(err))
	}
	h.unanswered[op] = true
	h.failures++
}

// refuses records that the database answered with an error. The caller holds h.mu.
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

// leasedSome records a checkout that found tasks: the database is back, because it can write. A checkout that finds
// nothing writes nothing, so even a server with a full disk answers it.
func (h *health) leasedSome() { h.succeeded(opCheckOut, true) }

// succeeded records a success. The database is back when each operation without an answer has succeeded, or when one
// that certainly wrote has: the others may have nothing left to do.
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
