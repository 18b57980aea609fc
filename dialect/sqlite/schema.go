package sqlite

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migrations make the task table, its indexes, and a view that a person can read.
//
// The row id is SQLite's own, so that rows lie in the order of their insertion and the indexes carry 8 bytes instead of
// 16. A row keeps its size while it is taken and completed, so that it is written where it is, without its payload
// where that is on pages of its own: taken_by has room for a holder's name from the start, the lease's end takes the
// place of the due time, and spaces that of the lease's end. holder shows the name as it is on other engines. A row
// that somebody may take has a due time, all others none: one partial index serves checkout whatever the state, and
// finished rows are in no index but those of their id and reference.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	return dialect.ReadSchema(schemaFiles, n, n.Filler())
}
