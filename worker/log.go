package worker

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/google/uuid"
)

const (
	// logMost is the maximum number of lines of one kind in a logWindow; one line at its end counts the others.
	logMost   = 10
	logWindow = time.Second
	// logIDs is the number of task ids in a line about many tasks.
	logIDs = 3
	// logCauses limits the lines of one kind that a window counts, one for each cause. Further causes are counted with
	// the last one.
	logCauses = 10
)

// logger writes the worker's log so that an incident causes only a few lines, however many tasks it affects. It
// limits lines about single tasks, and counts events that affect many tasks in one line. A window starts with the
// first event. After logWindow it ends, and the counts are written.
type logger struct {
	log *slog.Logger

	mu       sync.Mutex
	window   *time.Timer    // nil while there is none
	written  map[*line]int  // in this window, including omitted lines
	counts   []*countedLine // in the order of their first events
	closed   bool
	flushing sync.Mutex // held while the counts of a window are written
}

// countedLine is a line about several tasks that is written at the end of the window.
type countedLine struct {
	line  *line
	cause string
	tasks int
	first []string
	attrs []any
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, written: map[*line]int{}}
}

// write writes a line immediately, without a limit, for rare events.
func (g *logger) write(l *line, attrs ...any) {
	g.log.Log(context.Background(), l.level, l.text, attrs...)
}

// each writes a line about one task immediately, or only counts it if this window has enough lines of its kind.
func (g *logger) each(l *line, attrs ...any) {
	g.mu.Lock()
	g.begin()
	g.written[l]++
	full := g.written[l] > logMost && !g.closed
	g.mu.Unlock()
	if !full {
		g.write(l, attrs...)
	}
}

// count adds a task to the line of its kind and cause, which is written with the attributes of the first one at the
// end of the window.
func (g *logger) count(l *line, task uuid.UUID, cause string, attrs ...any) {
	g.mu.Lock()
	g.begin()
	c := g.counted(l, cause, attrs)
	c.tasks++
	if len(c.first) < logIDs {
		c.first = append(c.first, task.String())
	}
	closed := g.closed
	g.mu.Unlock()
	if closed { // no window will end
		g.flush()
	}
}

// counted finds or adds a line. The caller holds g.mu.
func (g *logger) counted(l *line, cause string, attrs []any) *countedLine {
	var last *countedLine
	causes := 0
	for _, c := range g.counts {
		if c.line != l {
			continue
		}
		if c.cause == cause {
			return c
		}
		last = c
		causes++
	}
	if causes == logCauses {
		return last
	}
	c := &countedLine{line: l, cause: cause, attrs: attrs}
	g.counts = append(g.counts, c)
	return c
}

// begin starts a window, unless there is one. The caller holds g.mu.
func (g *logger) begin() {
	if g.window == nil && !g.closed {
		g.window = time.AfterFunc(logWindow, g.flush)
	}
}

// flush ends the window and writes its counts.
func (g *logger) flush() {
	g.flushing.Lock()
	defer g.flushing.Unlock()
	g.mu.Lock()
	if g.window != nil {
		g.window.Stop()
	}
	counts, written := g.counts, g.written
	g.window, g.counts, g.written = nil, nil, map[*line]int{}
	g.mu.Unlock()
	for _, c := range counts {
		attrs := append([]any{"tasks", c.tasks, "first", strings.Join(c.first, " ")}, c.attrs...)
		g.write(c.line, attrs...)
	}
	for l, n := range written {
		if n > logMost {
			g.write(lineRepeated, "line", l.text, "count", n-logMost)
		}
	}
}

// close writes the counts. Later lines, as from a handler that Run did not wait for, are written immediately.
func (g *logger) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.flush()
}

// aboutTask returns the attributes of a line about one task.
func aboutTask(t *dbq.Task, more ...any) []any {
	return append([]any{"task", t.ID.String(), "kind", t.Kind, "attempt", t.Attempt}, more...)
}

// errorText returns the text of an error for a line: without the stack of a panic, and cut if it is long.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	if p := invoke.AsPanic(err); p != nil {
		return bounds.Brief(p.Short())
	}
	return bounds.Brief(err.Error())
}

// seconds formats a duration for a line: rounded, and as text, because a JSON handler would write nanoseconds.
func seconds(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}

// A line is one kind of line in the log. Its text is constant; only the attributes differ between events.
// docs/log.md lists all lines, with the action for operators; a test compares that list with these.
type line struct {
	level slog.Level
	text  string
}

// The life of a worker.
var (
	lineStarted   = &line{slog.LevelInfo, "worker: started"}
	lineGroup     = &line{slog.LevelInfo, "worker: group started"}
	lineStopping  = &line{slog.LevelInfo, "worker: stopping"}
	lineDrained   = &line{slog.LevelWarn, "worker: DrainTimeout has passed; cancelling the contexts of handlers"}
	lineStopped   = &line{slog.LevelInfo, "worker: stopped"}
	linePaused    = &line{slog.LevelInfo, "worker: paused"}
	lineResumed   = &line{slog.LevelInfo, "worker: resumed"}
	lineStoppedBy = &line{slog.LevelInfo, "worker: stopped by an operator"}
	lineSettings  = &line{slog.LevelInfo, "worker: settings changed"}
	linePool      = &line{slog.LevelWarn, "worker: too few connections for the handlers' transactions"}
	lineLeave     = &line{slog.LevelWarn, "worker: cannot deregister"}
)

// How attempts end.
var (
	lineFailed    = &line{slog.LevelWarn, "worker: attempt failed"}
	lineParked    = &line{slog.LevelWarn, "worker: task parked until an operator acts"}
	linePoison    = &line{slog.LevelError, "worker: task went to POISON"}
	lineExhausted = &line{slog.LevelError, "worker: tasks went to POISON: the lease of their last attempt expired"}
	linePanic     = &line{slog.LevelError, "worker: handler panicked"}
	lineResult    = &line{slog.LevelWarn, "worker: task completed without its whole result"}
	lineConflict  = &line{slog.LevelDebug, "worker: attempt ended in a conflict and does not count"}
	lineNoHandler = &line{slog.LevelWarn, "worker: tasks of kinds without a handler go back to the queue"}
	lineUncalled  = &line{slog.LevelWarn, "worker: handler was not called; the attempt does not count"}
	lineLost      = &line{slog.LevelWarn, "worker: leases lost"}
	lineWithdrawn = &line{slog.LevelInfo, "worker: tasks withdrawn by operators"}
	lineTakeover  = &line{slog.LevelWarn, "worker: took over tasks whose leases expired"}
	lineStuck     = &line{slog.LevelError, "worker: handler has not returned since its context ended"}
	lineLong      = &line{slog.LevelInfo, "worker: a handler has been running for an hour"}
	lineReturned  = &line{slog.LevelInfo, "worker: handler returned long after its context ended"}
	lineRefused   = &line{slog.LevelError, "worker: the database refuses to settle a task"}
	lineUnsure    = &line{slog.LevelWarn, "worker: unknown whether an attempt was settled"}
	lineLocked    = &line{slog.LevelWarn, "worker: tasks locked by other transactions will be settled later"}
	lineGaveUp    = &line{slog.LevelError, "worker: gave up settling; tasks are handed out again when their leases expire"}
	lineNoHook    = &line{slog.LevelError, "worker: OnPoison was not called for all tasks, or did not return"}
	lineHook      = &line{slog.LevelError, "worker: OnPoison panicked"}
)

// The database, and work other than tasks.
var (
	lineAway     = &line{slog.LevelWarn, "worker: the database does not answer; trying again"}
	lineBusy     = &line{slog.LevelWarn, "worker: another transaction has the database's only writer; trying again"}
	lineBack     = &line{slog.LevelInfo, "worker: the database answers again"}
	lineRefuses  = &line{slog.LevelError, "worker: the database refuses an operation; trying again"}
	lineAccepts  = &line{slog.LevelInfo, "worker: the database accepts an operation again"}
	lineCleaned  = &line{slog.LevelInfo, "worker: cleaned"}
	lineNoClean  = &line{slog.LevelDebug, "worker: nothing to clean"}
	lineNoReport = &line{slog.LevelWarn, "worker: cannot report statistics"}
	lineRepeated = &line{slog.LevelWarn, "worker: repeated lines omitted"}
)
