package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/state"
)

const statesIntro = `# The states of a task

Generated from package state by ` + "`go generate ./...`" + `; do not edit.

A task is always in exactly one of five states. One table, ` + "`state/table.go`" + `, lists every transition. The
guards in each engine's SQL, the conformance cases, the verbs of the command line and this page are derived from it. A
transition that is not in the table is refused and changes nothing.

A task is *due*, and a lease *expired*, by the database's clock. A task is *parked* when it is in ERROR without a due
time: it is not retried until an operator acts. The *fence* is a number that grows whenever the task changes owner; each
call that settles a task carries the fence of its lease. The [glossary](glossary.md) defines the other terms.
`

// statesPage returns docs/states.md. It describes each state by the comment on its constant in source, the path of
// state/state.go.
func statesPage(source string) (string, error) {
	comments, err := constComments(source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(statesIntro + "\n| state | number | meaning |\n|---|---|---|\n")
	for _, s := range state.All() {
		name := goName(s)
		text, ok := strings.CutPrefix(comments[name], name+" ")
		if !ok {
			return "", fmt.Errorf("%s: constant %s has no comment that begins with its name", source, name)
		}
		for _, other := range state.All() { // the page shows CREATED, not Created
			text = strings.ReplaceAll(text, " "+goName(other)+" ", " "+other.String()+" ")
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", s, int16(s), strings.ToUpper(text[:1])+text[1:])
	}
	b.WriteString("\nThe numbers are stored in the database and never change.\n")
	b.WriteString("\n## Transitions\n\n" + transitionTable())
	b.WriteString("\n## Diagram\n\n" + fullDiagram())
	return b.String(), nil
}

// goName returns the name of a state's constant.
func goName(s state.State) string { return s.String()[:1] + strings.ToLower(s.String()[1:]) }

// constComments returns the comments on a file's constants, each on one line, by the constant's name.
func constComments(source string) (map[string]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Doc != nil {
			out[v.Names[0].Name] = strings.Join(strings.Fields(v.Doc.Text()), " ")
		}
		return true
	})
	return out, nil
}

// usual lists the events in the README's diagram. An operator's other events are in docs/states.md.
var usual = []state.Event{
	state.Enqueue, state.Checkout, state.Complete, state.Fail, state.PoisonEvent, state.Release, state.Reenqueue,
}

// diagram draws the transitions of the given events as a Mermaid state diagram, one arrow for each pair of states and
// event. With detail, each condition on a source state has its own arrow with the condition.
func diagram(events []state.Event, detail bool) string {
	lines := []string{"stateDiagram-v2"}
	for _, t := range state.Transitions() {
		for _, src := range t.From {
			label := string(t.Event)
			if detail {
				label += condition(src)
			}
			line := strings.ReplaceAll(fmt.Sprintf("    %v --> %v: %s", src.State, t.To, label), state.None.String(), "[*]")
			if slices.Contains(events, t.Event) && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return "```mermaid\n" + strings.Join(lines, "\n") + "\n```\n"
}

// condition returns a source state's condition in brackets, or "" if there is none.
func condition(src state.Source) string {
	if src.Requirement == state.Always {
		return ""
	}
	return " (" + string(src.Requirement) + ")"
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
	b.WriteString("| event | from | to | caused by | attempt | fence | due | result | meaning |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range state.Transitions() {
		var from []string
		for _, src := range t.From {
			from = append(from, src.State.String()+condition(src))
		}
		fence, result := "", ""
		if t.Fence {
			fence = "+1"
			if slices.ContainsFunc(t.From, func(src state.Source) bool { return !t.GrowsFence(src.State) }) {
				fence = "+1 from PROCESSING"
			}
		}
		if t.Result {
			result = "new"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", t.Event, strings.Join(from, ", "), t.To, t.Actor,
			t.Attempts, fence, t.Due, result, t.Doc)
	}
	return b.String()
}
