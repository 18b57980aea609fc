package cases

import (
	"fmt"
	"strings"
)

// Markdown returns the page docs/conformance.md: the groups with the names of their cases. The cases that are generated
// from the state table are named by their parts.
func Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What the conformance suite checks

Generated from the suite by `+"`go generate ./...`"+`; do not edit.

Each of the %d cases checks a law that a dialect could break: one sentence, which a failed case prints. `+
		"`dbq conform"+`
--list`+"`"+` prints all of them, and `+"`--list --run '^Lease/'`"+` those of a group. A case marked * runs under each
strategy of the server, any other case once. [Engines](engines.md) has the results.

| group | laws | names |
|---|--:|---|
`, len(All()))
	for _, group := range groups() {
		var names []string
		for _, c := range group {
			name := c.Name
			if !c.Once {
				name += "*"
			}
			names = append(names, name)
		}
		if group[0].Group == transitionGroup {
			names = []string{"each action of the [state table](states.md) in each situation of a task, as action/situation"}
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", group[0].Group, len(group), strings.Join(names, ", "))
	}
	return b.String()
}
