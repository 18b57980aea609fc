package sqlite

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unpaused holds for a queue without a note that pauses it.
const unpaused = `NOT EXISTS (SELECT 1 FROM {note} WHERE kind = '` + dialect.NotePause + `' AND name = :queue)`

func addNotes(st *dialect.Statements, t func(string) string) {
	const row = `SELECT kind, name, version, value, updated, expires, {now} AS now FROM {note} WHERE kind = :kind`
	st.Note = t(row + ` AND name = :name`)
	st.Notes = t(row + ` ORDER BY name LIMIT :limit`)
	st.AddNote = t(`INSERT INTO {note} (kind, name, version, value, updated, expires) VALUES (:kind, :name, 1, :value, {now}, {now} + :ttl)
ON CONFLICT DO NOTHING`)
	st.SetNote = t(`UPDATE {note} SET version = version + 1, value = :value, updated = {now}, expires = {now} + :ttl
 WHERE kind = :kind AND name = :name AND version = :version`)
	st.DropNote = t(`DELETE FROM {note} WHERE kind = :kind AND name = :name`)
	st.ExpireNotes = t(`DELETE FROM {note} WHERE kind = :kind AND expires <= {now} - :age`)
}

func addHistory(st *dialect.Statements, t func(string) string, batch func(s, row string) dialect.Batch) {
	st.Record = batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker, error) VALUES {rows} ON CONFLICT DO NOTHING`,
		`(:id, :fence, :queue, :attempt, :outcome, :started, :ended, :worker, :error)`)
	st.RecordAlike = batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker)
SELECT d.column1, d.column2, d.column3, d.column4, :outcome, d.column5, d.column6, :worker FROM (VALUES {rows}) AS d`,
		`(:id, :fence, :queue, :attempt, :started, :ended)`)
	st.Attempts = t(`SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM {attempt} WHERE task = :id ORDER BY fence LIMIT :limit`)
	st.ExpireAttempts = t(`DELETE FROM {attempt} WHERE rowid IN (
  SELECT rowid FROM {attempt} WHERE queue = :queue AND ended <= {now} - :age ORDER BY ended LIMIT :limit)`)
	purge, _ := state.Find(state.Purge, state.Operator)
	st.Archive = batch(`INSERT INTO {archive} (`+stored+`, archived) SELECT t.`+strings.ReplaceAll(stored, ", ", ", t.")+`, {now} FROM (VALUES {rows}) AS d JOIN {task} AS t ON t.id = +d.column1
 WHERE `+state.Guard(purge, "due")+` ON CONFLICT DO NOTHING`, `(:id)`)
	st.ListArchive = t(`SELECT ` + listed + ` FROM {archive} WHERE {where} ORDER BY id LIMIT :limit`)
}

// fleet is the second migration: what all who work on the tables share, the history of attempts, and where tasks go that are kept
// for the record.
func fleet(t func(string) string) dialect.Migration {
	return dialect.Migration{
		Version: 2, Title: "notes, history, archive",
		Statements: []string{
			t(`CREATE TABLE {note} (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER,
  PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID`),
			t(`CREATE TABLE {attempt} (
  task BLOB NOT NULL,
  fence INTEGER NOT NULL,
  queue TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  worker TEXT NOT NULL,
  error BLOB,
  PRIMARY KEY (task, fence)) STRICT`),
			t(`CREATE INDEX {attempt}_ended ON {attempt} (queue, ended)`),
			t(`CREATE VIEW {attempts} AS SELECT lower(hex(task)) AS task, attempt, outcome,
  strftime('%Y-%m-%d %H:%M:%f', started / 1e6, 'unixepoch') AS started,
  strftime('%Y-%m-%d %H:%M:%f', ended / 1e6, 'unixepoch') AS ended,
  worker, queue, fence, CAST(error AS TEXT) AS error FROM {attempt}`),
			t(`CREATE TABLE {archive} (` + columnsOfTask() + `,
  archived INTEGER NOT NULL) STRICT`),
			t(`CREATE UNIQUE INDEX {archive}_id ON {archive} (id)`),
		},
	}
}
