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

A task is in exactly one of five states. What leads from one to another is written down in one table, ` + "`state/table.go`" + `; the
guards in each engine's SQL, the conformance cases, the command line's verbs and this page are made from it. Whatever is not in the
table is refused and changes nothing.

"Due" and "lease ran out" are by the database's clock. "Parked" is a task in ERROR without a due time: nothing retries it until an
operator acts. The fence is a number that grows when a task changes its owner; a worker's settling call carries the one of its lease.
`

// statesPage is docs/states.md. The sentences on the states are the comments on the constants in source, the file state/state.go.
func statesPage(source string) (string, error) {
	comments, err := constComments(source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(statesIntro + "\n| state | number | |\n|---|---|---|\n")
	for _, s := range state.All() {
		name := goName(s)
		text, ok := strings.CutPrefix(comments[name], name+" ")
		if !ok {
			return "", fmt.Errorf("%s: the constant %s has no comment that begins with its name", source, name)
		}
		for _, other := range state.All() { // the constants' names are not what a reader sees elsewhere
			text = strings.ReplaceAll(text, " "+goName(other)+" ", " "+other.String()+" ")
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", s, int16(s), strings.ToUpper(text[:1])+text[1:])
	}
	b.WriteString("\nThe numbers are what the database holds. They never change.\n\n## What leads where\n\n" + state.Markdown())
	b.WriteString("\n## The same as a picture\n\n```mermaid\n" + state.Mermaid() + "```\n")
	return b.String(), nil
}

// goName is the name of a state's constant.
func goName(s state.State) string { return s.String()[:1] + strings.ToLower(s.String()[1:]) }

// constComments are the comments on a file's constants, each as one line, by the constant's name.
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
