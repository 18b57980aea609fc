package acme

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// stored are the columns of a row, named where it is copied, since a later version may add to them.
const stored = "id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due, lease_until, holder, " +
	"created, updated, headers, payload, result"

// keepingSchema makes the tables beside the tasks: notes that all workers share, the history of attempts, and the archive.
func keepingSchema(t func(string) string) dialect.Migration {
	return dialect.Migration{Version: 2, Title: "notes, history, archive", Statements: []string{
		t(`CREATE TABLE {note} (kind TEXT, name TEXT, version INTEGER NOT NULL, value TEXT NOT NULL, updated INTEGER NOT NULL, expires INTEGER,
  PRIMARY KEY (kind, name)) STRICT`),
		t(`CREATE TABLE {attempt} (task BLOB, fence INTEGER, queue TEXT NOT NULL, attempt INTEGER NOT NULL, outcome TEXT NOT NULL,
  started INTEGER NOT NULL, ended INTEGER NOT NULL, worker TEXT NOT NULL, error BLOB, PRIMARY KEY (task, fence)) STRICT`),
		t(`CREATE INDEX {attempt}_ended ON {attempt} (queue, ended)`),
		t(`CREATE TABLE {archive} AS SELECT *, 0 AS archived FROM {task} WHERE false`),
		t(`CREATE UNIQUE INDEX {archive}_id ON {archive} (id)`),
	}}
}

// addKeeping adds the statements about these tables.
func addKeeping(st *dialect.Statements, t func(string) string, batch func(text, row string) dialect.Batch) {
	note := `SELECT *, {now} AS now FROM {note} WHERE kind = :kind`
	st.Note = t(note + ` AND name = :name`)
	st.Notes = t(note + ` ORDER BY name LIMIT :limit`)
	st.AddNote = t(`INSERT INTO {note} VALUES (:kind, :name, 1, :value, {now}, {now} + :ttl) ON CONFLICT DO NOTHING`)
	// The version says whether somebody else has changed it since it was read.
	st.SetNote = t(`UPDATE {note} SET version = version + 1, value = :value, updated = {now}, expires = {now} + :ttl
WHERE kind = :kind AND name = :name AND version = :version`)
	st.DropNote = t(`DELETE FROM {note} WHERE kind = :kind AND name = :name`)
	st.ExpireNotes = t(`DELETE FROM {note} WHERE kind = :kind AND expires <= {now} - :age`)

	st.Record = batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker, error) VALUES {rows} ON CONFLICT DO NOTHING`,
		`(:id, :fence, :queue, :attempt, :outcome, :started, :ended, :worker, :error)`)
	st.Attempts = t(`SELECT * FROM {attempt} WHERE task = :id ORDER BY fence LIMIT :limit`)
	st.ExpireAttempts = t(`DELETE FROM {attempt} WHERE rowid IN (
  SELECT rowid FROM {attempt} WHERE queue = :queue AND ended <= {now} - :age LIMIT :limit)`)

	// Purge follows in the same transaction, and goes by the same guard.
	purge, _ := state.Find(state.Purge, state.Operator)
	st.Archive = batch(`INSERT INTO {archive} (`+stored+`, archived) SELECT `+stored+`, {now} FROM {task}
 WHERE id IN (VALUES {rows}) AND `+state.Guard(purge, "due")+` ON CONFLICT DO NOTHING`, `(:id)`)
	st.ListArchive = t(`SELECT {listed} FROM {archive} WHERE {where} ORDER BY id LIMIT :limit`)
}
