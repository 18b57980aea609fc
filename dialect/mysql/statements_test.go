package mysql

import (
	"maps"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dialecttest"
)

func TestEveryStatementRuns(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) { runEach(t, migrated(t, dsn)) })
}

func runEach(t *testing.T, s *dialect.Session) {
	one, two := dialecttest.One(), dialecttest.Two()
	one["priority"], two["now"] = 5, int64(1)
	maps.Copy(one, searchArgs("q"))
	locks := map[string]string{"queue lock": "queue free", "turn": "turn over"}
	dialecttest.EveryStatementRuns[dialecttest.Columns](t, s, one, two, locks)
}

// searchArgs are where searches begin, besides what the core binds.
func searchArgs(queue string) dialect.Args {
	args := sinceArgs(queue, dialect.FromStart)
	args["since"], args["oldest"], args["late"] = int64(0), int64(0), int64(0)
	return args
}

func TestMovesAreTheStateTablesAndNoMore(t *testing.T) {
	t.Parallel()
	dialecttest.MovesAreTheStateTables(t, Dialect{})
}

func TestNamesStandInEveryStatement(t *testing.T) {
	t.Parallel()
	dialecttest.NamesStandInEveryStatement(t, Dialect{})
}
