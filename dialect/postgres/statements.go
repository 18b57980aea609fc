package postgres

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// maxRows in one statement; more would hold its locks for long.
const maxRows = 5000

// Statements are PostgreSQL's texts, which are in the directory sql with comments on each.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	home := "coalesce(current_schema(), '')" // of tables that are yet to be made
	if n.Schema != "" {
		home = "'" + n.Schema + "'"
	}
	fill := n.Filler("{home}", home)
	st := kit.ReadStatements(sqlFiles, maxRows, fill)
	st.Style = dialect.Dollar
	st.Indexes = map[state.State]dialect.Index{
		// Every priority is in the range. On a table that was analyzed while it was empty, PostgreSQL 15 expects more of a
		// queue's tasks without it, and sorts them all instead of reading the first ones by the index.
		state.Created:    {Where: "due IS NOT NULL AND priority BETWEEN 0 AND 9", Order: "priority, due, id"},
		state.Processing: {Where: "state = 1", Order: "updated"},
		state.Completed:  {Newest: true},
		state.Error:      {Where: "state = 3", Order: "id", IDs: dialect.IDsOrdered},
		state.Poison:     {Where: "state = 4", Order: "id", IDs: dialect.IDsOrdered},
	}
	st.ForUpdate = "FOR UPDATE"
	st.Returning, st.NestedSavepoints = true, true
	st.Begin = []string{"BEGIN ISOLATION LEVEL READ COMMITTED"}
	return st
}
