package postgres

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dialecttest"
)

// modes are how pgx may send a statement: prepared, and as behind a pooler that cannot prepare.
var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec"}

func TestEveryStatementRuns(t *testing.T) {
	type columns struct {
		dialecttest.Columns
		Lock *string `db:"pg_advisory_xact_lock"`
	}
	one, two := dialecttest.One(), dialecttest.Two()
	one["since"], two["since"] = dialect.FromStart, dialect.FromStart
	one["oldest"], one["late"], one["dead"] = int64(0), int64(0), int64(0)
	onEachServer(t, func(t *testing.T, dsn string) {
		for _, mode := range modes {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				dialecttest.EveryStatementRuns[columns](t, migrated(t, with(dsn, "default_query_exec_mode="+mode)), one, two, nil)
			})
		}
	})
}

func TestMovesAreTheStateTablesAndNoMore(t *testing.T) {
	t.Parallel()
	dialecttest.MovesAreTheStateTables(t, Dialect{})
}

func TestNamesStandInEveryStatement(t *testing.T) {
	t.Parallel()
	dialecttest.NamesStandInEveryStatement(t, Dialect{})
}
