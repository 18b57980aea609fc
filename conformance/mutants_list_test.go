package conformance

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

// listMutants are of the statements that complete or remove what a list of ids names. The case for them must meet each
// of them by a list.
func listMutants() []mutant {
	const fence, state = ` AND \+fence = :fence`, ` AND \+state = 1`
	var out []mutant
	for _, name := range []string{"complete uniform", "remove uniform"} {
		for without, pattern := range map[string]string{"fence": fence, "state": state} {
			out = append(out, mutant{name: strings.ReplaceAll(name, " ", "-") + "-without-" + without,
				caught: []string{"Lease/ManyCompletedTogether"},
				edit: func(st *dialect.Statements, _ dialect.Names) {
					mustIn(st.Private, name, pattern, "")
					mustIn(st.Private, "lock uniform", pattern, "")
				}})
		}
	}
	return out
}
