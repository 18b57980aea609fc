package postgres

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migrations returns the steps of the schema: the tables, their indexes, and views for people. Step 0 checks whether
// the schema exists, because CREATE SCHEMA IF NOT EXISTS needs the right to create schemas in any case.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	return kit.ReadSchema(schemaFiles, n, n.Filler())
}
