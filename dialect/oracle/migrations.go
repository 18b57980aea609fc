package oracle

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unless wraps DDL so that it can be run again: what the error says is there, or gone, already is no error. DDL commits by itself here.
func unless(code int, ddl string) string {
	return "BEGIN EXECUTE IMMEDIATE '" + strings.ReplaceAll(ddl, "'", "''") + "';\nEXCEPTION WHEN OTHERS THEN IF SQLCODE <> " +
		fmt.Sprint(code) + " THEN RAISE; END IF;\nEND;"
}

// What DDL says when it has been done before.
const (
	exists = -955
	gone   = -942
)

// Migrations make the task table, its indexes, and a view that a person can read.
//
// Oracle has no partial indexes, but leaves keys out of an index that are null altogether: the ready_ columns are null together with due, busy_queue
// is null unless the task is in work. A unique key of a null reference and a queue would take one task of each queue, so the queue is null there, too.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	t := func(s string) string { return text(n, s) }
	return []dialect.Migration{{
		Version: 1, Title: "tasks",
		Statements: []string{
			unless(exists, t(`CREATE TABLE {task} (`+columnsOfTask()+`,
  ready_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN queue END) VIRTUAL,
  ready_priority NUMBER(1) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN priority END) VIRTUAL,
  ready_id RAW(16) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN id END) VIRTUAL,
  busy_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN state = 1 THEN queue END) VIRTUAL,
  CONSTRAINT {prefix}task_pk PRIMARY KEY (id)
) INITRANS 16`)),
			unless(exists, t(leaseTable)),
			unless(exists, t(`CREATE UNIQUE INDEX {owner}task_ref ON {task} (reference, CASE WHEN reference IS NOT NULL THEN queue END) INITRANS 16`)),
			unless(exists, t(`CREATE INDEX {owner}task_ready ON {task} (ready_queue, ready_priority, due, ready_id) INITRANS 16`)),
			unless(exists, t(`CREATE INDEX {owner}task_busy ON {task} (busy_queue) INITRANS 16`)),
			unless(exists, t(`CREATE OR REPLACE VIEW {tasks} AS SELECT LOWER(RAWTOHEX(id)) AS id, queue, reference, kind,
  CASE state`+state.WhenNames()+` END AS state,
  priority, attempt, max_attempts, lapses, fence,`+moment("due", "due")+","+
				moment("CASE WHEN t.state = 1 THEN "+renewed+" END", "lease_until")+`,
  holder,`+moment("created", "created")+","+moment("updated", "updated")+`,
  headers, payload_size AS payload_bytes, result FROM {task} t`)),
		},
	}, fleet(t)}
}

// moment shows an expression of microseconds since 1970 as a time in UTC, under a name.
func moment(micros, name string) string {
	return "\n  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(" + micros + " / 1000000, 'SECOND') AS " + name
}
