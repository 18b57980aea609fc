package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/state"
)

func TestFullDiagramHasAnArrowForEachSource(t *testing.T) {
	t.Parallel()
	drawn := fullDiagram()
	arrows := 0
	for _, row := range state.Transitions() {
		for _, src := range row.From {
			arrow := fmt.Sprintf("%v --> %v: %s", src.State, row.To, row.Event)
			if src.Requirement != state.Always {
				arrow += fmt.Sprintf(" (%s)", src.Requirement)
			}
			arrow = "    " + strings.ReplaceAll(arrow, "none", "[*]")
			if got := strings.Count(drawn, "\n"+arrow+"\n"); got != 1 {
				t.Errorf("the diagram contains %q %d times, want once", arrow, got)
			}
			arrows++
		}
	}
	if got := strings.Count(drawn, "-->"); got != arrows {
		t.Errorf("the diagram has %d arrows, want %d", got, arrows)
	}
}

func TestUsualDiagramReachesEveryState(t *testing.T) {
	t.Parallel()
	drawn := diagram(usual, false)
	for _, s := range state.All() {
		if !strings.Contains(drawn, fmt.Sprintf("--> %v:", s)) {
			t.Errorf("no arrow leads to %v", s)
		}
	}
}

func TestTransitionTableHasALineForEachRow(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(transitionTable()), "\n")
	rows := state.Transitions()
	if len(lines) != len(rows)+2 {
		t.Fatalf("got %d lines, want a head of 2 and %d rows", len(lines), len(rows))
	}
	columns := strings.Count(lines[0], "|")
	for i, row := range rows {
		line := lines[i+2]
		if strings.Count(line, "|") != columns {
			t.Errorf("this line has a different number of columns than the head: %s", line)
		}
		if !strings.HasPrefix(line, "| "+string(row.Event)+" |") || !strings.Contains(line, row.Doc) {
			t.Errorf("row %d is not about %s: %s", i, row.Event, line)
		}
	}
}
