package worker

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
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

// goroutineID returns the current goroutine's number, as in stacks.
func goroutineID() int {
	buf := make([]byte, 64)
	id, _ := parseID(buf[:runtime.Stack(buf, false)])
	return id
}

// parseID reads the number from "goroutine 12 [running]:".
func parseID(stack []byte) (int, bool) {
	fields := bytes.Fields(stack[:min(len(stack), 64)])
	if len(fields) < 2 {
		return 0, false
	}
	id, err := strconv.Atoi(string(fields[1]))
	return id, err == nil
}

const (
	// maxStacks limits the text of all goroutines' stacks, in bytes.
	maxStacks = 16 << 20
	// stacksPause is the pause after reading the stacks, as a multiple of the duration of the reading. Reading stops all
	// goroutines, for some tenths of a second if there are a thousand.
	stacksPause = 10
)

// stacks has the stacks of handlers that ignore the end of their context. Many handlers can become stuck at once, so
// one reading serves all that were running then. It is not safe for concurrent use.
type stacks struct {
	next  time.Time // the earliest time of the next reading
	texts map[callKey]string
}

// callKey identifies an invocation without keeping it in memory.
type callKey struct {
	goroutine int
	start     time.Time
}

func (inv *invocation) key() callKey { return callKey{inv.goroutine, inv.start} }

// read reads the stacks of stuck and running handlers, unless the last reading has them.
func (s *stacks) read(running, stuck []*invocation) {
	known := true
	for _, inv := range stuck {
		_, ok := s.texts[inv.key()]
		known = known && ok
	}
	begin := time.Now()
	if known || begin.Before(s.next) {
		return
	}
	all := allStacks()
	s.texts = make(map[callKey]string, len(running)+len(stuck))
	for _, inv := range slices.Concat(running, stuck) {
		if text, ok := all[inv.goroutine]; ok {
			s.texts[inv.key()] = string(text)
		}
	}
	s.next = time.Now().Add(stacksPause * time.Since(begin))
}

// of returns the stack of a stuck handler at the last reading. It can be called once for each handler.
func (s *stacks) of(inv *invocation) string {
	text, ok := s.texts[inv.key()]
	delete(s.texts, inv.key())
	if !ok {
		return "not read: other stacks were read a moment ago"
	}
	return text
}

// allStacks returns the stacks of all goroutines by number.
func allStacks() map[int][]byte {
	for size := 256 << 10; ; size *= 4 {
		buf := make([]byte, size)
		n := runtime.Stack(buf, true)
		if n == size && size < maxStacks {
			continue
		}
		out := map[int][]byte{}
		for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
			if id, ok := parseID(stack); ok {
				out[id] = stack
			}
		}
		return out
	}
}
