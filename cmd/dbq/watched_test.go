//go:build unix

package main

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// watched is an output that can be read while it grows.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func newWatched() *watched { return &watched{} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// says waits for a text.
func (w *watched) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, "output says "+text, func() bool { return strings.Contains(w.String(), text) })
}

func itoa(n int) string { return strconv.Itoa(n) }
