package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestRepeatedSubqueriesAreOmitted(t *testing.T) {
	t.Parallel()
	search := func(p int) string { return fmt.Sprintf("SELECT 1 FROM t WHERE lane = 0 AND priority = %d", p) }
	var each []string
	for p := range 10 {
		each = append(each, search(p))
	}
	const more = "\n  UNION ALL SELECT 2\n  UNION ALL\n  SELECT 3"
	got := withoutRepeats("SELECT x FROM (\n  " + strings.Join(each, "\n  UNION ALL ") + ")" + more)
	want := "SELECT x FROM (\n  " + search(0) + "\n  UNION ALL " + search(1) +
		"\n  -- and so on for the priorities 2 to 8\n  UNION ALL " + search(9) + ")" + more
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	each[5] += "0"
	if other := strings.Join(each, "\nUNION ALL "); withoutRepeats(other) != other {
		t.Error("a search that differs in more than its priority is left out")
	}
}

func TestFoldedBreaksLongLines(t *testing.T) {
	t.Parallel()
	literal := "'" + strings.Repeat("a b ", 30) + "'"
	for line, want := range map[string]string{
		"  SELECT 1": "  SELECT 1",
		"  SELECT " + strings.Repeat("x", 100) + ", y AS last": "  SELECT " + strings.Repeat("x", 100) + ",\n    y AS last",
		"  SELECT " + strings.Repeat("x", 90) + " AND y <= z ORDER BY due": "  SELECT " + strings.Repeat("x", 90) +
			" AND y <= z\n    ORDER BY due",
		"  SELECT " + literal: "  SELECT\n    " + literal,
	} {
		if got := folded(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
