package sqlite

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// maxRows keeps a batch far below SQLite's limit of 32766 values in a statement.
const maxRows = 500

// Statements are SQLite's texts, which are in the folder sql with comments on each.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	purge, _ := state.Find(state.Purge, state.Operator)
	fill := n.Filler("{pause}", dialect.PauseKind, "{purgeable}", state.Guard(purge, "due"), "{spent}", dialect.Spent(""),
		"{next_attempt}", dialect.NextAttempt(""), "{next_lapses}", dialect.NextLapses(""))
	st := dialect.ReadStatements(sqlFiles, maxRows, fill)
	st.Style = dialect.Question
	st.Begin = []string{"BEGIN IMMEDIATE"}
	st.Newest = []state.State{state.Completed}
	for name, b := range st.Batches {
		if b.Row == "" { // SQLite takes no arrays: it is for a single row
			b.Max = 1
			st.Batches[name] = b
		}
	}
	return st
}
