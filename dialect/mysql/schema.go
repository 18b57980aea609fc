package mysql

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migrations make the task table, its indexes, and a view that a person can read.
//
// Keys are bytes (VARBINARY): the default collations would make 'Ab' and 'ab' one task, and the binary collations that
// both products have ignore trailing spaces. The primary key ends every other index, so both are in the order of the
// ids. DDL commits by itself here, so each statement can be run again.
//
// What changes as a task moves on has the same size in each state, so that InnoDB writes it where it stands: a null
// takes no space in a row, and a row that grows in a full page makes the server arrange the page anew, again and again,
// and split it. So due_at and lease_end are -1 where there is none, taken_by has room for a name from the start, and
// due, lease_until and holder, which show these as they are on other engines, are virtual. A task has one entry in one
// index: by its lane, which is 0 while it waits, the last of all while it is leased, and then its state. While it is
// leased, due_at says when it was taken, less ages: so the entries of that lane are in the order in which they came.
// first_due in sql/checkout.sql says why it is the last lane.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	return dialect.ReadSchema(schemaFiles, n, n.Filler())
}
