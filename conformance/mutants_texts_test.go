package conformance

import "github.com/dbq-go/dbq/dialect"

// textMutants have one text that the core could not bind, each in another place.
func textMutants() []mutant {
	var out []mutant
	for place, text := range map[string]func(*dialect.Statements) *string{
		"get":          func(st *dialect.Statements) *string { return &st.Get },
		"complete":     func(st *dialect.Statements) *string { return &st.Complete.SQL },
		"complete-row": func(st *dialect.Statements) *string { return &st.Complete.Row },
		"first":        func(st *dialect.Statements) *string { return &st.Complete.First },
		"complete-one": func(st *dialect.Statements) *string { return &st.Complete.One },
	} {
		for more, defect := range map[string]string{"unknown-value": ":tenant", "question-mark": "?", "list": "{rows}"} {
			if more == "list" && (place == "get" || place == "complete-row") {
				continue // these are no batch, and no text by itself
			}
			out = append(out, mutant{name: place + "-with-" + more, caught: []string{"Schema/StatementsComplete"},
				edit: func(st *dialect.Statements, _ dialect.Names) { *text(st) += " " + defect }})
		}
	}
	return out
}
