package conformance

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/state"
)

// Markdown is the page docs/conformance.md: every group with its cases and their laws. The generated cases of the state table are
// shown as that table.
func Markdown() string {
	var b strings.Builder
	cases := Cases()
	fmt.Fprintf(&b, `# What the conformance suite checks

Generated from the suite; do not edit. Each of the %d cases has a law that must hold on every engine. Those marked * are run under
each strategy of the server, the others once.
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
			if c.once {
				each = ""
			}
			fmt.Fprintf(&b, "| %s%s | %s |\n", c.Name, each, strings.ReplaceAll(c.Law, "|", `\|`))
		}
	}
	return b.String()
}

// transitionTable shows where each action leads from each situation. What is empty is refused.
func transitionTable() string {
	var b strings.Builder
	b.WriteString("Each action from each situation that a task can be in, generated from package state. A cell says where it must lead;\n" +
		"an empty one must be refused, with the documented error and without a change to the row. The cases are named action/situation;\n" +
		"those of checkout are run under each strategy.\n\n| situation |")
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
