package oracle

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unpaused holds for a queue without a note that pauses it.
const unpaused = `NOT EXISTS (SELECT 1 FROM {note} n WHERE n.kind = '` + dialect.NotePause + `' AND n.name = :queue)`

func addNotes(st *dialect.Statements, t func(string) string) {
	const row = `SELECT kind, name, version, value, updated, expires, {now} AS now FROM {note} WHERE kind = :kind`
	st.Note = t(row + ` AND name = :name`)
	st.Notes = t(row + ` ORDER BY name FETCH FIRST :limit ROWS ONLY`)
	// Of two who add the same one at once, one gets an error of class Duplicate.
	st.AddNote = t(`INSERT INTO {note} (kind, name, version, value, updated, expires)
SELECT :kind, :name, 1, :value, {now}, {now} + :ttl FROM dual WHERE NOT EXISTS (SELECT 1 FROM {note} WHERE kind = :kind AND name = :name)`)
	st.SetNote = t(`UPDATE {note} SET version = version + 1, value = :value, updated = {now}, expires = {now} + :ttl
 WHERE kind = :kind AND name = :name AND version = :version`)
	st.DropNote = t(`DELETE FROM {note} WHERE kind = :kind AND name = :name`)
	st.ExpireNotes = t(`DELETE FROM {note} WHERE kind = :kind AND expires <= {now} - :age`)
}

func addHistory(st *dialect.Statements, t func(string) string) {
	st.Record = dialect.Batch{
		SQL: t("BEGIN\n  {rows}\nEND;"),
		Row: t(`BEGIN
    INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker, error)
    VALUES (:id, :fence, :queue, :attempt, :outcome, :started, :ended, :worker, :error);
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;`),
		Sep: "\n  ", Max: maxTasks,
	}
	st.Attempts = t(`SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM {attempt}
 WHERE task = :id ORDER BY fence FETCH FIRST :limit ROWS ONLY`)
	st.ExpireAttempts = t(`DELETE FROM {attempt} WHERE queue = :queue AND ended <= {now} - :age AND ROWNUM <= :limit`)
	purge, _ := state.Find(state.Purge, state.Operator)
	guard := ` AND ` + state.Guard(purge, "due")
	st.Archive = dialect.Batch{ // an INSERT cannot lock what it reads
		First: t(`SELECT id FROM {task} WHERE id IN ({rows})` + guard + ` ORDER BY id FOR UPDATE`),
		Row:   `:id`, Sep: ", ", Max: maxRows,
		SQL: t(`INSERT INTO {archive} (` + strings.Join(kept, ", ") + `, archived) SELECT ` + strings.Join(kept, ", ") + `, {now} FROM {task} t
 WHERE id IN ({rows})` + guard + ` AND NOT EXISTS (SELECT 1 FROM {archive} a WHERE a.id = t.id)`),
	}
	st.ListArchive = t(`SELECT {columns}, {now} AS now FROM {archive} t WHERE {where} ORDER BY t.id FETCH FIRST :limit ROWS ONLY`)
}

// kept are the columns of a task that the archive has, too: all but those that Oracle computes.
var kept = []string{"id", "queue", "reference", "kind", "state", "priority", "attempt", "max_attempts", "lapses", "started", "fence", "due", "was_due", "lease_until",
	"holder", "created", "updated", "headers", "payload_size", "result_size", "payload", "result"}

// fleet is the second migration: what all who work on the tables share, the history of attempts, and where tasks go that are kept
// for the record.
func fleet(t func(string) string) dialect.Migration {
	return dialect.Migration{
		Version: 2, Title: "notes, history, archive",
		Statements: []string{
			unless(exists, t(`CREATE TABLE {note} (
  kind VARCHAR2(20 BYTE) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  version NUMBER(19) NOT NULL,
  value VARCHAR2(4000 BYTE) NOT NULL,
  updated NUMBER(19) NOT NULL,
  expires NUMBER(19),
  CONSTRAINT {prefix}note_pk PRIMARY KEY (kind, name)
)`)),
			unless(exists, t(`CREATE TABLE {attempt} (
  task RAW(16) NOT NULL,
  fence NUMBER(19) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  attempt NUMBER(5) NOT NULL,
  outcome VARCHAR2(20 BYTE) NOT NULL,
  started NUMBER(19) NOT NULL,
  ended NUMBER(19) NOT NULL,
  worker VARCHAR2(800 BYTE),
  error BLOB,
  CONSTRAINT {prefix}att_pk PRIMARY KEY (task, fence)
)`)),
			unless(exists, t(`CREATE INDEX {owner}att_ended ON {attempt} (queue, ended)`)),
			unless(exists, t(`CREATE OR REPLACE VIEW {attempts} AS SELECT LOWER(RAWTOHEX(task)) AS task, attempt, outcome,`+moment("started", "started")+","+moment("ended", "ended")+`,
  worker, queue, fence, error FROM {attempt}`)),
			unless(exists, t(`CREATE TABLE {archive} (`+columnsOfTask()+`,
  archived NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}arch_pk PRIMARY KEY (id)
)`)),
		},
	}
}

func columnsOfTask() string {
	return fmt.Sprintf(`
  id RAW(16) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  reference VARCHAR2(800 BYTE),
  kind VARCHAR2(400 BYTE),
  state NUMBER(1) NOT NULL CHECK (state IN (%s)),
  priority NUMBER(1) NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt NUMBER(5) DEFAULT 0 NOT NULL,
  max_attempts NUMBER(5) NOT NULL,
  lapses NUMBER(3) DEFAULT 0 NOT NULL,
  started NUMBER(1) DEFAULT 0 NOT NULL,
  fence NUMBER(19) DEFAULT 0 NOT NULL,
  due NUMBER(19),
  was_due NUMBER(19),
  lease_until NUMBER(19),
  holder VARCHAR2(800 BYTE),
  created NUMBER(19) NOT NULL,
  updated NUMBER(19) NOT NULL,
  headers VARCHAR2(4000 BYTE),
  payload_size NUMBER(10),
  result_size NUMBER(10),
  payload BLOB,
  result BLOB`, state.Literals(state.All()...))
}
