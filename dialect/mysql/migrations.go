package mysql

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// Migrations make the task table, its indexes, and a view that a person can read.
//
// Keys are bytes (VARBINARY): the default collations would make 'Ab' and 'ab' one task, and the binary collations that both products
// have ignore trailing spaces. The primary key ends every other index, so both are in the order of the ids. DDL commits by itself
// here, so each statement can be run again.
//
// What changes as a task moves on has the same size in each state, so that InnoDB writes it where it stands: a null takes no space in a row, and a
// row that grows in a full page makes the server arrange the page anew, again and again, and split it. So due_at and lease_end are -1 where there is none,
// taken_by has room for a name from the start, and due, lease_until and holder, which show these as they are on other engines, are virtual.
// A task has one entry in one index: by its lane, which is 0 while it waits, the last of all while it is in work, and then its state. While it is in work, due_at says when it
// was taken, less ages: so the entries of that lane are in the order in which they came. See first for why it is the last lane.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	t := func(s string) string { return text(n, s) }
	return []dialect.Migration{{
		Version: 1, Title: "tasks",
		Statements: []string{
			t(`CREATE TABLE IF NOT EXISTS {task} (` + columnsOfTask() + `
  UNIQUE KEY {prefix}task_reference (reference, queue),
  KEY {prefix}task_lane (queue, lane, priority, due_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`),
			t(leaseTable),
			t(`CREATE OR REPLACE VIEW {tasks} AS SELECT lower(hex(id)) AS id, CONVERT(queue USING utf8mb4) AS queue,
  CONVERT(reference USING utf8mb4) AS reference, CONVERT(kind USING utf8mb4) AS kind,
  CASE state` + state.WhenNames() + ` END AS state,
  priority, attempt, max_attempts, lapses, fence,
  '1970-01-01' + INTERVAL due MICROSECOND AS due,
  '1970-01-01' + INTERVAL (CASE WHEN state = 1 THEN ` + renewed + ` END) MICROSECOND AS lease_until,
  CONVERT(holder USING utf8mb4) AS holder,
  '1970-01-01' + INTERVAL created MICROSECOND AS created, '1970-01-01' + INTERVAL updated MICROSECOND AS updated,
  CONVERT(headers USING utf8mb4) AS headers, length(payload) AS payload_bytes, CONVERT(result USING utf8mb4) AS result FROM {task} AS t`),
		},
	}, fleet(t)}
}

func columnsOfTask() string {
	return fmt.Sprintf(`
  id BINARY(16) NOT NULL PRIMARY KEY,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800),
  kind VARBINARY(400) NOT NULL,
  state TINYINT NOT NULL CHECK (state IN (%s)),
  priority TINYINT NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt SMALLINT NOT NULL DEFAULT 0,
  max_attempts SMALLINT NOT NULL,
  lapses TINYINT NOT NULL DEFAULT 0,
  started TINYINT NOT NULL DEFAULT 0,
  fence BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL DEFAULT -1,
  lease_end BIGINT NOT NULL DEFAULT -1,
  taken_by VARBINARY(800) NOT NULL DEFAULT '%s',
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  payload_size INT UNSIGNED,
  headers BLOB,
  payload LONGBLOB,
  result BLOB,
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL,
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL,
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL,
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN %s ELSE state END) STORED,`, state.Literals(state.All()...), strings.Repeat(" ", room), working)
}
