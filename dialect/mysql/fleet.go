package mysql

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unpaused holds for a queue without a note that pauses it.
const unpaused = `NOT EXISTS (SELECT 1 FROM {note} AS n WHERE n.kind = '` + dialect.NotePause + `' AND n.name = :queue)`

func addNotes(st *dialect.Statements, t func(string) string) {
	const row = `SELECT kind, name, version, value, updated, expires, {now} AS now FROM {note} WHERE kind = :kind`
	st.Note = t(row + ` AND name = :name`)
	st.Notes = t(row + ` ORDER BY name LIMIT :limit`)
	st.AddNote = t(`INSERT IGNORE INTO {note} (kind, name, version, value, updated, expires) VALUES (:kind, :name, 1, :value, {now}, {now} + :ttl)`)
	st.SetNote = t(`UPDATE {note} SET version = version + 1, value = :value, updated = {now}, expires = {now} + :ttl
 WHERE kind = :kind AND name = :name AND version = :version`)
	st.DropNote = t(`DELETE FROM {note} WHERE kind = :kind AND name = :name`)
	st.ExpireNotes = t(`DELETE FROM {note} WHERE kind = :kind AND expires <= {now} - :age`)
}

func addHistory(st *dialect.Statements, t func(string) string) {
	st.Record = dialect.Batch{
		SQL: t(`INSERT IGNORE INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker, error) VALUES {rows}`),
		Row: `(:id, :fence, :queue, :attempt, :outcome, :started, :ended, :worker, :error)`, Sep: ", ", Max: maxRows,
	}
	st.Attempts = t(`SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM {attempt} WHERE task = :id ORDER BY fence LIMIT :limit`)
	st.ExpireAttempts = t(`DELETE FROM {attempt} WHERE queue = :queue AND ended <= {now} - :age ORDER BY ended LIMIT :limit`)
	purge, _ := state.Find(state.Purge, state.Operator)
	st.Archive = dialect.Batch{
		SQL: t(`INSERT IGNORE INTO {archive} ({stored}, archived) SELECT {stored}, {now} FROM {task} AS t FORCE INDEX (PRIMARY) WHERE t.id IN ({rows}) AND ` + state.Guard(purge, "due") + ` FOR UPDATE`),
		Row: `:id`, Sep: ", ", Max: maxRows,
	}
	st.ListArchive = t(`SELECT {columns}, {now} AS now FROM {archive} AS t WHERE {where} ORDER BY t.id LIMIT :limit`)
}

// fleet is the second migration: what all who work on the tables share, the history of attempts, and where tasks go that are kept
// for the record.
func fleet(t func(string) string) dialect.Migration {
	return dialect.Migration{
		Version: 2, Title: "notes, history, archive",
		Statements: []string{
			t(`CREATE TABLE IF NOT EXISTS {note} (
  kind VARBINARY(20) NOT NULL,
  name VARBINARY(800) NOT NULL,
  version BIGINT NOT NULL,
  value TEXT NOT NULL,
  updated BIGINT NOT NULL,
  expires BIGINT,
  PRIMARY KEY (kind, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`),
			t(`CREATE TABLE IF NOT EXISTS {attempt} (
  task BINARY(16) NOT NULL,
  fence BIGINT NOT NULL,
  queue VARBINARY(400) NOT NULL,
  attempt SMALLINT NOT NULL,
  outcome VARBINARY(20) NOT NULL,
  started BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  worker VARBINARY(800) NOT NULL,
  error BLOB,
  PRIMARY KEY (task, fence),
  KEY {prefix}attempt_ended (queue, ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`),
			t(`CREATE OR REPLACE VIEW {attempts} AS SELECT lower(hex(task)) AS task, attempt, CONVERT(outcome USING utf8mb4) AS outcome,
  '1970-01-01' + INTERVAL started MICROSECOND AS started, '1970-01-01' + INTERVAL ended MICROSECOND AS ended,
  CONVERT(worker USING utf8mb4) AS worker, CONVERT(queue USING utf8mb4) AS queue, fence, CONVERT(error USING utf8mb4) AS error FROM {attempt}`),
			t(`CREATE TABLE IF NOT EXISTS {archive} (` + columnsOfTask() + `
  archived BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`),
		},
	}
}
