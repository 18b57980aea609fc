package sqlite

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migrations returns the steps of the schema: the tables, their indexes, and views for people.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	return kit.ReadSchema(schemaFiles, n, n.Filler())
}
