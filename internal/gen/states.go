package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"

	"github.com/dbq-go/dbq/state"
)

const statesIntro = `# The states of a task

Generated from package state by ` + "`go generate ./...`" + `; do not edit.

A task is always in exactly one of five states. One table, ` + "`state/table.go`" + `, lists every transition. The
guards in each engine's SQL, the conformance cases, the verbs of the command line and this page are derived from it. A
transition that is not in the table is refused and changes nothing.

A task is *due*, and a lease *ran out*, by the database's clock. A task is *parked* when it is in ERROR without a due
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
