package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/state"
)

func TestLiterals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states []state.State
		want   string
	}{
		{nil, ""},
		{[]state.State{state.Error}, "3"},
		{[]state.State{state.Created, state.Error}, "0, 3"},
		{state.All(), "0, 1, 2, 3, 4"},
	} {
		if got := state.Literals(c.states...); got != c.want {
			t.Errorf("Literals(%v) = %q, want %q", c.states, got, c.want)
		}
	}
}

func TestConditionRepeatsThePartialIndexsPredicate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states []state.State
		want   string
	}{
		{[]state.State{state.Created}, "state IN (0)"},
		{[]state.State{state.Completed, state.Poison}, "state IN (2, 4)"},
		{[]state.State{state.Error}, "state IN (3) AND state >= 3"},
		{[]state.State{state.Poison, state.Error}, "state IN (4, 3) AND state >= 3"},
	} {
		if got := state.Condition(c.states...); got != c.want {
			t.Errorf("Condition(%v) = %q, want %q", c.states, got, c.want)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	want := map[state.Event]string{
		state.Reject:     "(state = 0)",
		state.Revoke:     "(state = 1)",
		state.Reenqueue:  "(state = 3 OR state = 4) AND state >= 3",
		state.Quarantine: "(state = 3) AND state >= 3",
		state.Restore:    "(state = 4) AND state >= 3",
		state.Purge:      "(state = 2 OR state = 4 OR (state = 3 AND t.due IS NULL))",
	}
	for _, row := range state.ByOperator() {
		if got := state.Guard(row, "t.due"); got != want[row.Event] {
			t.Errorf("%s: got %q, want %q", row.Event, got, want[row.Event])
		}
	}
}

func TestMermaidHasAnArrowForEachSource(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(state.Mermaid()), "\n")
	if lines[0] != "stateDiagram-v2" {
		t.Errorf("the diagram begins with %q", lines[0])
	}
	arrows := 0
	for _, row := range state.Transitions() {
		for _, src := range row.From {
			arrow := fmt.Sprintf("%v --> %v: %s", src.State, row.To, row.Event)
			if src.When != state.Always {
				arrow += fmt.Sprintf(" (%s)", src.When)
			}
			arrow = "    " + strings.ReplaceAll(arrow, "none", "[*]")
			if got := strings.Count("\n"+state.Mermaid(), "\n"+arrow+"\n"); got != 1 {
				t.Errorf("the diagram has %d times %q, want it once", got, arrow)
			}
			arrows++
		}
	}
	if len(lines)-1 != arrows {
		t.Errorf("the diagram has %d arrows, want %d", len(lines)-1, arrows)
	}
}

func TestMarkdownHasALineForEachRow(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(state.Markdown()), "\n")
	rows := state.Transitions()
	if len(lines) != len(rows)+2 {
		t.Fatalf("got %d lines, want a head of 2 and %d rows", len(lines), len(rows))
	}
	columns := strings.Count(lines[0], "|")
	for i, row := range rows {
		line := lines[i+2]
		if strings.Count(line, "|") != columns {
			t.Errorf("this line has other columns than the head: %s", line)
		}
		if !strings.HasPrefix(line, "| "+string(row.Event)+" |") || !strings.Contains(line, row.Doc) {
			t.Errorf("row %d is not about %s: %s", i, row.Event, line)
		}
	}
}
