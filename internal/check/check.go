// Package check has helpers for the tests of all packages.
package check

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// OK ends a test that got an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Patience is how long Eventually waits: several times as long as a busy machine needs.
const Patience = time.Minute

// Eventually waits until something is so. It ends the test if that takes longer than Patience.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for begin := time.Now(); !so(); {
		waited := time.Since(begin)
		if waited > Patience {
			t.Fatalf("not in %v: %s", Patience, what)
		}
		time.Sleep(min(max(waited/20, 2*time.Millisecond), 200*time.Millisecond)) // so may be costly, such as a process
	}
}

// Start runs something until the test ends or stop is called. stop returns run's error.
func Start(t testing.TB, run func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(2 * Patience):
			t.Errorf("it did not stop in %v", 2*Patience)
			return nil
		}
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// Log collects the lines of a logger, and a test can read them meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns the lines so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Says waits until the log has a text.
func (l *Log) Says(t testing.TB, text string) {
	t.Helper()
	Eventually(t, "the log says "+text, func() bool { return strings.Contains(l.String(), text) })
}
