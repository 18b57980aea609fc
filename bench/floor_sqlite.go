package main

import (
	"context"
	"database/sql"
)

const sqliteInsert = `
INSERT INTO {task}
       (id, queue, kind, state, priority, max_attempts, due, created, updated, payload)
WITH RECURSIVE g (i) AS (SELECT ? UNION ALL SELECT i + 1 FROM g WHERE i + 1 < ?)
SELECT unhex(printf('%012x70008000%012x', {now} / 1000, i)),
       'bench', '', {state}, 0, 10, {due}, {now}, {now},
       CAST('{"number":' || i || ',"text":"' || printf('%.*c', 179 - length(i), 'x') || '"}' AS BLOB)
  FROM g`

func (p *sqlitePlace) connect(context.Context) (*sql.DB, error) { return p.db(1) }

func (p *sqlitePlace) floorSQL() floorSQL {
	return floorSQL{
		task:   "dbq_task",
		now:    "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
		insert: func(int) string { return sqliteInsert },
		mark: `
UPDATE {task}
   SET state = 1, due = NULL, attempt = attempt + 1, fence = fence + 1,
       lease_until = {now} + 300000000, taken_by = printf('%-48s', 'floor'), updated = {now}
 WHERE queue = 'bench' AND due <= {now}`,
		finish: `
UPDATE {task}
   SET state = 2, lease_until = NULL, updated = {now}, result = NULL, taken_by = taken_by || '       '
 WHERE queue = 'bench' AND state = 1`,
		remove: "DELETE FROM {task} WHERE queue = 'bench' AND state = 1",
	}
}
