package state

import (
	"fmt"
	"strings"
)

// Mermaid draws the table as a Mermaid state diagram, one arrow for each source of each row.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	point := func(s State) string {
		if s == None {
			return "[*]"
		}
		return s.String()
	}
	for _, t := range table {
		for _, src := range t.From {
			label := string(t.Event)
			if src.When != Always {
				label += " (" + string(src.When) + ")"
			}
			fmt.Fprintf(&b, "    %s --> %s: %s\n", point(src.State), point(t.To), label)
		}
	}
	return b.String()
}

// Markdown is the table as the page docs/states.md shows it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| event | from | to | who | attempt | fence | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, t := range table {
		var from []string
		for _, src := range t.From {
			f := src.State.String()
			if src.When != Always {
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
