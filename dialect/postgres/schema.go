package postgres

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migrations make the task table, its indexes, and a view that a person can read.
//
// A row that somebody may take has a due time, all others none: one partial index serves checkout whatever the state,
// and finished rows are in no index but those of their id and reference. The lease's end is in no index; a leased task
// is found by when it was taken, see working. Keys compare byte by byte (COLLATE "C"). Columns are ordered so that none
// is padded.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	return dialect.ReadSchema(schemaFiles, n, n.Filler())
}
