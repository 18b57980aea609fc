package conformance

import (
	"github.com/dbq-go/dbq/dialect"
)

// ownRun are laws that run the dialect's private statements, whose values only the dialect can provide.
var ownRun = map[string]string{"one": "Lease/StaleFenceCannotSettle", "uniform": "Lease/ManyCompletedTogether"}

// textMutants have one text that the core could not bind, each in another place.
func textMutants() []mutant {
	var out []mutant
	for place, add := range map[string]func(st *dialect.Statements, more string){
		"held":       func(st *dialect.Statements, more string) { st.Held += more },
		"settle":     func(st *dialect.Statements, more string) { st.Settle.SQL += more },
		"settle-row": func(st *dialect.Statements, more string) { st.Settle.Row += more },
		"movable":    func(st *dialect.Statements, more string) { st.Movable.SQL += more },
		"one":        func(st *dialect.Statements, more string) { addTo(st.Private, "complete one", more) },
		"uniform":    func(st *dialect.Statements, more string) { addTo(st.Private, "complete uniform", more) },
	} {
		for more, defect := range map[string]string{"unknown-value": ":tenant", "question-mark": "?", "list": "{rows}"} {
			if more == "list" && (place == "held" || place == "settle-row") {
				continue // these are no batch, and no text by itself
			}
			law := "Schema/StatementsComplete"
			if run := ownRun[place]; run != "" && more == "unknown-value" {
				law = run
			}
			out = append(out, mutant{name: place + "-with-" + more, caught: []string{law},
				edit: func(st *dialect.Statements, _ dialect.Names) { add(st, " "+defect) }})
		}
	}
	return out
}

// addTo adds to the text of a batch.
func addTo(m map[string]dialect.Batch, key, more string) {
	b := m[key]
	b.SQL += more
	m[key] = b
}
