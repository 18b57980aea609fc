package dbqtest

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// logWriter writes the lines of a log to a test, until it ends.
type logWriter struct {
	mu    sync.Mutex
	t     testing.TB
	ended bool
}

// Write writes a line.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.t.Logf("%s", bytes.TrimSpace(line))
	}
	return len(line), nil
}

func (w *logWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// logger returns a logger of the test. A fuzz test has none: its target may not log to the F.
func (w *logWriter) logger() *slog.Logger {
	if _, fuzz := w.t.(*testing.F); fuzz {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
