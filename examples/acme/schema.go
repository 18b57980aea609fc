package acme

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// now is the database's clock: microseconds since 1970, the same for a whole statement, in milliseconds' steps.
const now = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"

// columns are a whole row; a list leaves out the payload. The sizes are there because the driver reads an empty value like none.
const (
	listed = "id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, " +
		"created, updated, headers, result, length(result) AS result_size, " + now + " AS now"
	columns = listed + ", payload, length(payload) AS payload_size"
)

// filler writes names into a text.
func filler(n dialect.Names) func(text string) string {
	return strings.NewReplacer("{task}", n.Table("task"), "{tasks}", n.Table("tasks"), "{migration}", n.Table("migration"),
		"{note}", n.Table("note"), "{attempt}", n.Table("attempt"), "{archive}", n.Table("archive"),
		"{now}", now, "{listed}", listed, "{columns}", columns).Replace
}

// Migrations make the tables. A step that was released never changes; what comes later is a step of its own.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	t := filler(n)
	return []dialect.Migration{{Version: 1, Title: "tasks", Statements: []string{
		t(`CREATE TABLE {task} (
  id BLOB NOT NULL PRIMARY KEY, queue TEXT NOT NULL, reference TEXT, kind TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (state IN (` + state.Literals(state.All()...) + `)),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0,
  lapses INTEGER NOT NULL DEFAULT 0, started INTEGER NOT NULL DEFAULT 0,
  due INTEGER, lease_until INTEGER, holder TEXT, created INTEGER NOT NULL, updated INTEGER NOT NULL,
  headers TEXT, payload BLOB, result BLOB, UNIQUE (reference, queue)) STRICT`), // nulls are never equal
		t(`CREATE INDEX {task}_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL`),
		t(`CREATE INDEX {task}_busy ON {task} (queue) WHERE state = 1`),
		t(`CREATE VIEW {tasks} AS SELECT hex(id) AS id, queue, reference, kind, CASE state` + state.WhenNames() + ` END AS state, attempt,
  datetime(due / 1e6, 'unixepoch') AS due, datetime(lease_until / 1e6, 'unixepoch') AS lease_until, holder FROM {task}`),
	}}, keepingSchema(t)}
}
