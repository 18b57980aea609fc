package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/state"
)

// usual lists the events in the README's diagram. An operator's other events are in docs/states.md.
var usual = []state.Event{
	state.Enqueue, state.Checkout, state.Complete, state.Fail, state.PoisonIt, state.Release, state.Reenqueue,
}

// diagram draws the transitions of the given events as a Mermaid state diagram, one arrow for each pair of states and
// event. With detail, each condition on a source state has an arrow of its own, which names the condition.
func diagram(events []state.Event, detail bool) string {
	point := func(s state.State) string {
		if s == state.None {
			return "[*]"
		}
		return s.String()
	}
	lines := []string{"stateDiagram-v2"}
	for _, t := range state.Transitions() {
		if !slices.Contains(events, t.Event) {
			continue
		}
		for _, src := range t.From {
			label := string(t.Event)
			if src.When != state.Always && detail {
				label += " (" + string(src.When) + ")"
			}
			line := fmt.Sprintf("    %s --> %s: %s", point(src.State), point(t.To), label)
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return "```mermaid\n" + strings.Join(lines, "\n") + "\n```\n"
}

// fullDiagram draws the whole table.
func fullDiagram() string {
	var all []state.Event
	for _, t := range state.Transitions() {
		all = append(all, t.Event)
	}
	return diagram(all, true)
}

// transitionTable returns the table of transitions as Markdown.
func transitionTable() string {
	var b strings.Builder
	b.WriteString("| event | from | to | caused by | attempt | fence | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, t := range state.Transitions() {
		var from []string
		for _, src := range t.From {
			f := src.State.String()
			if src.When != state.Always {
				f += " (" + string(src.When) + ")"
			}
			from = append(from, f)
		}
		fence := ""
		if t.Fence {
			fence = "+1"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			t.Event, strings.Join(from, ", "), t.To, t.Who, t.Attempts, fence, t.Doc)
	}
	return b.String()
}
