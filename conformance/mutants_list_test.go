package conformance

import "github.com/dbq-go/dbq/dialect"

// listMutants are of the statements that complete or remove what a list of ids names. The case for them must meet each of them by a list.
func listMutants() []mutant {
	const fence, state = ` AND \+fence = :fence`, ` AND \+state = 1`
	var out []mutant
	for name, batch := range map[string]func(*dialect.Statements) *dialect.Batch{
		"complete":     func(st *dialect.Statements) *dialect.Batch { return &st.Complete },
		"remove-alike": func(st *dialect.Statements) *dialect.Batch { return &st.RemoveAlike },
	} {
		for without, pattern := range map[string]string{"fence": fence, "state": state} {
			out = append(out, mutant{name: name + "-without-" + without, caught: []string{"Lease/ManyCompletedTogether"},
				edit: func(st *dialect.Statements, _ dialect.Names) {
					b := batch(st)
					must(&b.SQL, pattern, "")
					must(&b.First, pattern, "")
				}})
		}
	}
	return out
}
