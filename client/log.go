package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A line is one kind of line in the log. Its text is constant; only the attributes differ. docs/clients.md lists them.
type line struct {
	level slog.Level
	text  string
}

var (
	lineRepeat   = &line{slog.LevelWarn, "client: a request is repeated"}
	lineStarted  = &line{slog.LevelInfo, "client: started"}
	lineStopping = &line{slog.LevelInfo, "client: stopping"}
	lineStopped  = &line{slog.LevelInfo, "client: stopped"}
	lineDrained  = &line{slog.LevelWarn, "client: DrainTimeout has passed; cancelling the contexts of handlers"}
	lineFailed   = &line{slog.LevelWarn, "client: attempt failed"}
	lineParked   = &line{slog.LevelWarn, "client: task parked until an operator acts"}
	linePoison   = &line{slog.LevelError, "client: task went to POISON"}
	lineResult   = &line{slog.LevelWarn, "client: task completed without its whole result"}
	linePanic    = &line{slog.LevelError, "client: handler panicked"}
	lineLost     = &line{slog.LevelWarn, "client: lease lost"}
	lineStuck    = &line{slog.LevelError, "client: handler has not returned since its context ended"}
	lineReturned = &line{slog.LevelInfo, "client: handler returned long after its context ended"}
	lineRefused  = &line{slog.LevelError, "client: the server refuses the outcome of a task"}
	lineGaveUp   = &line{slog.LevelError, "client: gave up settling; the task is handed out again when its lease expires"}
	lineInvalid  = &line{slog.LevelError, "client: the server returned tasks that cannot be used"}
	lineOmitted  = &line{slog.LevelWarn, "client: repeated lines omitted"}
)

// Within logWindow, at most logMost lines of one kind are written. The first line after it counts the others.
const (
	logMost   = 10
	logWindow = time.Second
)

// lines writes the log, so that an incident causes only a few lines. It is safe for concurrent use.
type lines struct {
	log *slog.Logger

	mu      sync.Mutex
	begin   time.Time
	written map[*line]int // in this window, including omitted lines
}

func newLines(log *slog.Logger) *lines { return &lines{log: log, written: map[*line]int{}} }

// write writes a line without a limit, for rare events.
func (g *lines) write(l *line, attrs ...any) {
	g.log.Log(context.Background(), l.level, l.text, attrs...)
}

// each writes a line about one of many tasks or requests.
func (g *lines) each(l *line, attrs ...any) {
	g.mu.Lock()
	var before map[*line]int
	if now := time.Now(); now.Sub(g.begin) > logWindow {
		before, g.written, g.begin = g.written, map[*line]int{}, now
	}
	g.written[l]++
	full := g.written[l] > logMost
	g.mu.Unlock()
	for kind, n := range before {
		if n > logMost {
			g.write(lineOmitted, "line", kind.text, "count", n-logMost)
		}
	}
	if !full {
		g.write(l, attrs...)
	}
}
