package oracle

import (
	"embed"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// unless wraps DDL so that it can be run again: the error of this code, which says that the object is there already, or
// gone already, is ignored. DDL commits by itself on Oracle.
func unless(code int, ddl string) string {
	const block = `BEGIN EXECUTE IMMEDIATE '%s';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> %d THEN RAISE; END IF;
END;`
	return fmt.Sprintf(block, strings.ReplaceAll(ddl, "'", "''"), code)
}

// What DDL says when it has been done before.
const (
	exists = -955
	gone   = -942
)

// Migrations make the task table, its indexes, and a view that a person can read.
//
// Oracle has no partial indexes, but leaves keys out of an index that are null altogether: the ready_ columns are null
// together with due, busy_queue is null unless the task is leased. A unique key of a null reference and a queue would
// take one task of each queue, so the queue is null there, too.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	steps := dialect.ReadSchema(schemaFiles, n, n.Filler())
	for _, m := range steps {
		for i, ddl := range m.Statements {
			m.Statements[i] = unless(exists, ddl)
		}
	}
	return steps
}
