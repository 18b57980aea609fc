package engines

import (
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// wrongRows are changes to a correct row, and what the error of an engine contains, of which one is enough.
var wrongRows = []struct {
	old, new string
	names    []string
	only     string // the dialect or the table
}{
	{"0, 3", "5, 3", []string{"dbq_{table}_state"}, ""},
	{"0, 3", "0, 10", []string{"dbq_{table}_priority"}, ""},
	{"'q'", "NULL", []string{"queue"}, ""},
	{"'k'", "NULL", []string{"kind"}, ""},
	{"{id}", "NULL", []string{"id"}, ""},
	{"1, 1", "1, NULL", []string{"updated"}, ""},
	{"{id}", "x'01'", []string{"dbq_{table}_id_length"}, "sqlite"},
	{"{id}", "{taken}", []string{"dbq_{table}_pkey", "PRIMARY", "dbq_{table}.id"}, ""},
	{"'new'", "'taken'", []string{"dbq_{table}_reference", "dbq_{table}.reference"}, "task"},
}

// TestConstraintsNameWhatIsWrong inserts wrong rows by hand: each is refused, with an error that names the constraint
// or the column.
func TestConstraintsNameWhatIsWrong(t *testing.T) {
	onEngines(t, func(t *testing.T, _ target, dsn string) {
		prefix := ownPrefix(t, dsn)
		c, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close()
		insertWrongRows(t, c, prefix, "task")
		insertWrongRows(t, c, prefix, "archive")
	})
}

func insertWrongRows(t *testing.T, c *dbq.Client, prefix, table string) {
	row := `INSERT INTO dbq_task (id, queue, reference, kind, state, priority, max_attempts, attempt, lapses,
		known_started, cancelled, fence, created, updated)
		VALUES ({id}, 'q', 'new', 'k', 0, 3, 10, 7, 7, 7, 7, 7, 1, 1)`
	if table == "archive" {
		row = strings.NewReplacer("task", "archive", "updated", "updated, archived", "1, 1", "1, 1, 1").Replace(row)
	}
	id, taken := "x'01900000000070008000000000000002'", "x'01900000000070008000000000000001'"
	dialect := c.Info().Dialect
	if dialect == "postgres" {
		id, taken = "'01900000-0000-7000-8000-000000000002'", "'01900000-0000-7000-8000-000000000001'"
	}
	insert := func(text string) error {
		text = strings.NewReplacer("dbq_", prefix, "{id}", id, "{taken}", taken).Replace(text)
		_, err := c.DB().ExecContext(t.Context(), text)
		return err
	}
	check.OK(t, insert(strings.NewReplacer("{id}", "{taken}", "'new'", "'taken'").Replace(row)))
	for _, wrong := range wrongRows {
		if wrong.only != "" && wrong.only != dialect && wrong.only != table {
			continue
		}
		err := insert(strings.Replace(row, wrong.old, wrong.new, 1))
		if err == nil || !slices.ContainsFunc(wrong.names, func(name string) bool {
			own := strings.NewReplacer("dbq_", prefix, "{table}", table).Replace(name)
			copied := strings.Replace(own, "_archive_", "_task_", 1) // PostgreSQL's archive has copies of the constraints
			return strings.Contains(err.Error(), own) || dialect == "postgres" && strings.Contains(err.Error(), copied)
		}) {
			t.Errorf("%s with %s instead of %s: got %v, want an error with %s", table, wrong.new, wrong.old, err, wrong.names)
		}
	}
	if err := insert(row); err != nil {
		t.Errorf("the row is not refused for what is changed: %v", err)
	}
}
