package sqlite_test

import (
	"database/sql"
	"errors"
	"regexp"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// TestSingleRowWriteNeedsNoTemporaryTable: a check by a list of more than two values has SQLite make a table of them,
// with a page cache of its own, for each row that is written.
func TestSingleRowWriteNeedsNoTemporaryTable(t *testing.T) {
	t.Parallel()
	s := planSession(t)
	own := s.Statements.Private
	for _, name := range []string{"insert one", "insert one new", "complete one", "remove one"} {
		text := own[name].SQL
		names := regexp.MustCompile(`:[a-z_]+`)
		values := make([]any, len(names.FindAllString(text, -1)))
		steps, err := s.Pool.Write.QueryContext(t.Context(), "EXPLAIN "+names.ReplaceAllString(text, "?"), values...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, step := range operations(t, steps) {
			if step == "OpenEphemeral" {
				t.Errorf("%s makes a table", name)
			}
		}
	}
}

// operations are the operations of an explained statement.
func operations(t *testing.T, rows *sql.Rows) []string {
	t.Helper()
	defer rows.Close()
	var out []string
	for rows.Next() {
		var step string
		unused := []any{new(any), &step, new(any), new(any), new(any), new(any), new(any), new(any)}
		check.OK(t, rows.Scan(unused...))
		out = append(out, step)
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		t.Fatalf("nothing is explained: %v", err)
	}
	return out
}

func TestRowHasAKnownState(t *testing.T) {
	t.Parallel()
	s := planSession(t)
	fill(t, s, 1, "'work', '', 0, 5, 10, 0, 0, 1, NULL, ''")
	for _, c := range []struct {
		state string
		good  bool
	}{{"-1", false}, {"0", true}, {"1", true}, {"2", true}, {"3", true}, {"4", true}, {"5", false}, {"NULL", false}} {
		_, err := s.Pool.Write.ExecContext(t.Context(), "UPDATE plan_task SET state = "+c.state)
		var e *sqlite.Error
		refused := errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT
		if c.good && err != nil || !c.good && !refused {
			t.Errorf("state %s: %v", c.state, err)
		}
	}
}
