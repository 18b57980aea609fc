package oracle

import (
	"embed"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// unless wraps DDL so that it can run again: it ignores the error with this code, which reports that the object already
// exists or was already dropped. On Oracle, DDL commits by itself.
func unless(code int, ddl string) string {
	const block = `BEGIN EXECUTE IMMEDIATE '%s';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> %d THEN RAISE; END IF;
END;`
	return fmt.Sprintf(block, strings.ReplaceAll(ddl, "'", "''"), code)
}

// The errors of DDL that has run before.
const (
	exists = -955
	gone   = -942
)

// Migrations returns the steps of the schema: the tables, their indexes, and readable views.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	steps := kit.ReadSchema(schemaFiles, n, n.Filler())
	for _, m := range steps {
		for i, ddl := range m.Statements {
			if !strings.HasPrefix(ddl, "COMMENT") { // which can run again
				m.Statements[i] = unless(exists, ddl)
			}
		}
	}
	return steps
}
