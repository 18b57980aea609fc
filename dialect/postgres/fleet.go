package postgres

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unpaused holds for a queue without a note that pauses it; it is looked up once for a statement.
const unpaused = `NOT EXISTS (SELECT 1 FROM {note} n WHERE n.kind = '` + dialect.NotePause + `' AND n.name = :queue)`

func addNotes(st *dialect.Statements, t func(string) string) {
	const row = `SELECT kind, name, version, value, updated, expires, {now} AS now FROM {note} WHERE kind = :kind`
	st.Note = t(row + ` AND name = :name`)
	st.Notes = t(row + ` ORDER BY name LIMIT :limit`)
	st.AddNote = t(`INSERT INTO {note} (kind, name, version, value, updated, expires)
VALUES (:kind, :name, 1, :value, {now}, {now} + CAST(:ttl AS bigint)) ON CONFLICT DO NOTHING`)
	st.SetNote = t(`UPDATE {note} SET version = version + 1, value = :value, updated = {now}, expires = {now} + CAST(:ttl AS bigint)
 WHERE kind = :kind AND name = :name AND version = :version`)
	st.DropNote = t(`DELETE FROM {note} WHERE kind = :kind AND name = :name`)
	st.ExpireNotes = t(`DELETE FROM {note} WHERE kind = :kind AND expires <= {now} - CAST(:age AS bigint)`)
}

func addHistory(st *dialect.Statements, t func(string) string, batch func(string) dialect.Batch) {
	st.Record = batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker, error)
SELECT d.id, d.fence, CAST(:queue AS text), d.attempt, d.outcome, d.started, d.ended, d.worker, d.error
  FROM unnest(CAST(:id AS uuid[]), CAST(:fence AS bigint[]), CAST(:attempt AS smallint[]), CAST(:outcome AS text[]), CAST(:started AS bigint[]),
       CAST(:ended AS bigint[]), CAST(:worker AS text[]), CAST(:error AS bytea[])) AS d (id, fence, attempt, outcome, started, ended, worker, error)
ON CONFLICT DO NOTHING`)
	st.RecordAlike = batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker)
SELECT d.id, d.fence, CAST(:queue AS text), d.attempt, CAST(:outcome AS text), d.started, d.ended, CAST(:worker AS text)
  FROM (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:fence AS bigint[])) AS fence, unnest(CAST(:attempt AS smallint[])) AS attempt,
               unnest(CAST(:started AS bigint[])) AS started, unnest(CAST(:ended AS bigint[])) AS ended) AS d`)
	st.Attempts = t(`SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM {attempt} WHERE task = :id ORDER BY fence LIMIT :limit`)
	st.ExpireAttempts = t(`DELETE FROM {attempt} WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM {attempt} WHERE queue = :queue AND ended <= {now} - CAST(:age AS bigint) ORDER BY ended LIMIT :limit))`)
	purge, _ := state.Find(state.Purge, state.Operator)
	st.Archive = batch(`INSERT INTO {archive} (` + stored + `, archived)
SELECT ` + stored + `, {now} FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[])) AND ` + state.Guard(purge, "due") + ` FOR UPDATE ON CONFLICT DO NOTHING`)
	st.ListArchive = t(`SELECT {columns}, {now} AS now FROM {archive} t WHERE {where} ORDER BY t.id LIMIT :limit`)
}

// fleet is the second migration: what all who work on the tables share, the history of attempts, and where tasks go that are kept
// for the record.
func fleet(n dialect.Names, t func(string) string) dialect.Migration {
	name := n.Prefix + "attempt"
	return dialect.Migration{
		Version: 2, Title: "notes, history, archive",
		Statements: []string{
			t(`CREATE TABLE {note} (
  kind varchar(20) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  PRIMARY KEY (kind, name))`),
			t(`CREATE TABLE {attempt} (
  task uuid NOT NULL,
  fence bigint NOT NULL,
  started bigint NOT NULL,
  ended bigint NOT NULL,
  attempt smallint NOT NULL,
  outcome varchar(20) NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  worker varchar(200) NOT NULL,
  error bytea,
  PRIMARY KEY (task, fence))`),
			t(`CREATE INDEX ` + name + `_ended ON {attempt} (queue, ended)`),
			t(`CREATE VIEW {attempts} AS SELECT task, attempt, outcome, to_timestamp(started / 1e6) AS started, to_timestamp(ended / 1e6) AS ended,
  worker, queue, fence, encode(error, 'escape') AS error FROM {attempt}`),
			t(`CREATE TABLE {archive} (LIKE {task} INCLUDING CONSTRAINTS, archived bigint NOT NULL, PRIMARY KEY (id))`),
		},
	}
}
