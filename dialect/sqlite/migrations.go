package sqlite

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// Migrations make the task table, its indexes, and a view that a person can read.
//
// The row id is SQLite's own, so that rows lie in the order of their insertion and the indexes carry 8 bytes instead of 16. A row
// keeps its size while it is taken and completed, so that it is written where it is, without its payload where that is on pages of its own:
// taken_by has room for a holder's name from the start, the lease's end takes the place of the due time, and spaces that of the lease's end.
// holder shows the name as it is on other engines. A row
// that somebody may take has a due time, all others none: one partial index serves checkout whatever the state, and finished
// rows are in no index but those of their id and reference.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	t := func(s string) string { return text(n, s) }
	return []dialect.Migration{{
		Version: 1, Title: "tasks",
		Statements: []string{
			t(`CREATE TABLE {task} (` + columnsOfTask() + `) STRICT`),
			t(`CREATE UNIQUE INDEX {task}_id ON {task} (id)`),
			t(`CREATE UNIQUE INDEX {task}_reference ON {task} (reference, queue) WHERE reference IS NOT NULL`),
			t(`CREATE INDEX {task}_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL`),
			t(`CREATE INDEX {task}_busy ON {task} (queue) WHERE state = 1`),
			t(`CREATE INDEX {task}_failed ON {task} (queue, state, id) WHERE state >= 3`),
			t(`CREATE VIEW {tasks} AS SELECT lower(hex(id)) AS id, queue, reference, kind,
  CASE state` + state.WhenNames() + ` END AS state,
  priority, attempt, max_attempts, lapses, fence,
  strftime('%Y-%m-%d %H:%M:%f', due / 1e6, 'unixepoch') AS due,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1e6, 'unixepoch') AS lease_until, holder,
  strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch') AS updated,
  headers, length(payload) AS payload_bytes, CAST(result AS TEXT) AS result FROM {task}`),
		},
	}, fleet(t)}
}

func columnsOfTask() string {
	return fmt.Sprintf(`
  id BLOB NOT NULL CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (%s),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  lapses INTEGER NOT NULL DEFAULT 0,
  started INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  due INTEGER,
  lease_until INTEGER,
  taken_by TEXT NOT NULL DEFAULT '%s',
  holder TEXT AS (nullif(rtrim(taken_by), '')) VIRTUAL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  headers TEXT,
  payload BLOB,
  result BLOB`, known(), strings.Repeat(" ", room))
}

// known says that a state is one of those there are. SQLite makes a table of a list of more than two in a check, anew for each row that is written.
func known() string {
	var each []string
	for _, s := range state.All() {
		each = append(each, "state = "+state.Literals(s))
	}
	return strings.Join(each, " OR ")
}
