//go:build unix

package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// watched is an output that can be read while it grows.
type watched struct{ check.Log }

func newWatched() *watched { return &watched{} }

// waitFor waits for a text.
func (w *watched) waitFor(t *testing.T, text string) {
	t.Helper()
	check.Eventually(t, "output contains "+text, func() bool { return strings.Contains(w.String(), text) })
}

func itoa(n int) string { return strconv.Itoa(n) }
