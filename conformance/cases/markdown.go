package cases

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/state"
)

// Markdown returns the page docs/conformance.md: every group with its cases and their laws. The cases that are
// generated from the state table are shown as that table.
func Markdown() string {
	var b strings.Builder
	cases := All()
	fmt.Fprintf(&b, `# What the conformance suite checks

Generated from the suite by `+"`go generate ./...`"+`; do not edit.

Each of the %d cases checks a law that every engine must keep. A case marked * runs under each strategy of the server,
any other case once. A failed case prints its law.
`, len(cases))
	for _, group := range groups() {
		if len(group) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", group[0].Group)
		if group[0].Group == transitionGroup {
			b.WriteString(transitionTable())
			continue
		}
		b.WriteString("| case | law |\n|---|---|\n")
		for _, c := range group {
			each := "*"
			if c.Once {
				each = ""
			}
			fmt.Fprintf(&b, "| %s%s | %s |\n", c.Name, each, strings.ReplaceAll(c.Law, "|", `\|`))
		}
	}
	return b.String()
}

// transitionTable shows where each action leads from each situation. An empty cell is a refusal.
func transitionTable() string {
	var b strings.Builder
	b.WriteString(`Every action on a task in every situation, generated from package state. A cell names the state
that the action must lead to. An empty cell means that the action must be refused with the documented error, and must
leave the row unchanged. The cases are named action/situation; those of checkout run under each strategy.

| situation |`)
	list := actions()
	for _, a := range list {
		fmt.Fprintf(&b, " %s |", a.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(list)) + "\n")
	for _, s := range situations() {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, a := range list {
			text := ""
			if _, to, allowed := a.from(s); allowed && to == state.None {
				text = "removed"
			} else if allowed {
				text = to.String()
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	return b.String()
}
