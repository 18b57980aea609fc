package worker

import "log/slog"

// A line is one kind of line in the log. Its text is constant; only the attributes differ between events.
// docs/worker.md lists all lines, with the action for operators; a test compares that list with these.
type line struct {
	level slog.Level
	text  string
}

// The life of a worker.
var (
	lineStarted   = &line{slog.LevelInfo, "worker: started"}
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
	lineUncalled  = &line{slog.LevelWarn, "worker: handler was not called; the attempt does not count"}
	lineLost      = &line{slog.LevelWarn, "worker: leases lost"}
	lineWithdrawn = &line{slog.LevelInfo, "worker: tasks withdrawn by operators"}
	lineTakeover  = &line{slog.LevelWarn, "worker: took over tasks whose leases expired"}
	lineStuck     = &line{slog.LevelError, "worker: handler has not returned since its context ended"}
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
