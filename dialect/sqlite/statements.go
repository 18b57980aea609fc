package sqlite

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// maxRows keeps a batch far below SQLite's limit of 32766 values in a statement.
const maxRows = 500

// Statements are SQLite's texts, which are in the directory sql with comments on each.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	st := kit.ReadStatements(sqlFiles, maxRows, n.Filler())
	st.Style = dialect.Question
	st.Indexes = map[state.State]dialect.Index{
		state.Created:    {Where: "due IS NOT NULL", Order: "priority, due, id"},
		state.Processing: {Where: "state = 1"},
		state.Completed:  {Newest: true},
		state.Error:      {Where: "state = 3", Order: "id", IDs: dialect.IDsOrdered},
		state.Poison:     {Where: "state = 4", Order: "id", IDs: dialect.IDsOrdered},
	}
	st.Returning, st.NestedSavepoints = true, true
	st.Begin = []string{"BEGIN IMMEDIATE"}
	st.Assignments = []string{"taken = NULL", "taken_at = -1"}
	for name, b := range st.Private {
		if b.Max > 0 && b.Row == "" { // SQLite takes no arrays: it is for a single row
			b.Max = 1
			st.Private[name] = b
		}
	}
	return st
}
