package worker

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

const (
	// reportMost is how many lines of one kind are written in a reportWindow; the others are counted in one line at its
	// end.
	reportMost   = 10
	reportWindow = time.Second
	// reportIDs is how many ids of tasks a line about many tasks names.
	reportIDs = 3
	// reportCauses bounds the lines of one kind that a window gathers, one for each cause; what has another cause
	// counts to the last.
	reportCauses = 10
	// reportText bounds an error's text in a line, in bytes.
	reportText = 1000
)

// reporter writes the worker's log so that an incident costs a few lines, however many tasks it concerns. Lines about
// one task each are limited; events that come to many tasks at once are gathered into one line with a count. A window
// begins with the first event and ends, with what was gathered in it, after reportWindow.
type reporter struct {
	log *slog.Logger

	mu       sync.Mutex
	window   *time.Timer   // nil while there is none
	written  map[*line]int // in this window, also those that were left out
	gathered []*gathering  // in the order in which they began
	closed   bool
	flushing sync.Mutex // held while the end of a window is written
}

// gathering is a line about several tasks that is written at the end of the window.
type gathering struct {
	line  *line
	cause string
	tasks int
	first []string
	attrs []any
}

func newReporter(log *slog.Logger) *reporter {
	return &reporter{log: log, written: map[*line]int{}}
}

// write writes a line at once, without a limit: for what is rare by itself.
func (r *reporter) write(l *line, attrs ...any) {
	r.log.Log(context.Background(), l.level, l.text, attrs...)
}

// each writes a line about one task at once, or counts it when there were too many of its kind in this window.
func (r *reporter) each(l *line, attrs ...any) {
	r.mu.Lock()
	r.begin()
	r.written[l]++
	full := r.written[l] > reportMost && !r.closed
	r.mu.Unlock()
	if !full {
		r.write(l, attrs...)
	}
}

// gather adds a task to the line of its kind and cause, which is written with the attributes of the first one at the
// end of the window.
func (r *reporter) gather(l *line, task uuid.UUID, cause string, attrs ...any) {
	r.mu.Lock()
	r.begin()
	g := r.gathering(l, cause, attrs)
	g.tasks++
	if len(g.first) < reportIDs {
		g.first = append(g.first, task.String())
	}
	closed := r.closed
	r.mu.Unlock()
	if closed { // no window will end
		r.flush()
	}
}

// gathering finds or begins one. r.mu is held.
func (r *reporter) gathering(l *line, cause string, attrs []any) *gathering {
	var last *gathering
	causes := 0
	for _, g := range r.gathered {
		if g.line != l {
			continue
		}
		if g.cause == cause {
			return g
		}
		last = g
		causes++
	}
	if causes == reportCauses {
		return last
	}
	g := &gathering{line: l, cause: cause, attrs: attrs}
	r.gathered = append(r.gathered, g)
	return g
}

// begin begins a window, unless there is one. r.mu is held.
func (r *reporter) begin() {
	if r.window == nil && !r.closed {
		r.window = time.AfterFunc(reportWindow, r.flush)
	}
}

// flush ends the window: it writes what was gathered and counted in it.
func (r *reporter) flush() {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	r.mu.Lock()
	if r.window != nil {
		r.window.Stop()
	}
	gathered, written := r.gathered, r.written
	r.window, r.gathered, r.written = nil, nil, map[*line]int{}
	r.mu.Unlock()
	for _, g := range gathered {
		attrs := append([]any{"tasks", g.tasks, "first", strings.Join(g.first, " ")}, g.attrs...)
		r.write(g.line, attrs...)
	}
	for l, n := range written {
		if n > reportMost {
			r.write(lineRepeated, "line", l.text, "count", n-reportMost)
		}
	}
}

// close writes what was gathered and counted. What comes later, as from a handler that Run did not wait for, is written
// at once.
func (r *reporter) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.flush()
}

// aboutTask are the attributes of a line about one task.
func aboutTask(t *dbq.Task, more ...any) []any {
	return append([]any{"task", t.ID.String(), "kind", t.Kind, "attempt", t.Attempt}, more...)
}

// errorText is an error in a line: never the stack of a panic, and not longer than reportText.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	if p := asPanic(err); p != nil {
		return cutText(p.short())
	}
	return cutText(err.Error())
}

func cutText(text string) string {
	if len(text) <= reportText {
		return text
	}
	cut := reportText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// seconds is a duration in a line: rounded, and text, since a JSON handler would write nanoseconds.
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
