package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/stdlib"
)

// The ids are made as a client's: ordered by time, with version and variant.
const pgInsert = `
INSERT INTO {task}
       (id, queue, kind, state, priority, max_attempts, due, created, updated, payload)
SELECT CAST(lpad(to_hex({now} / 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0') AS uuid),
       'bench', '', {state}, 0, 10, {due}, {now}, {now},
       convert_to(rpad('{"number":' || i || ',"text":"', 198, 'x') || '"}', 'UTF8')
  FROM generate_series(CAST($1 AS integer), CAST($2 AS integer) - 1) AS i
 ORDER BY i`

func (p *pgPlace) connect(context.Context) (*sql.DB, error) {
	return stdlib.OpenDBFromPool(p.pool), nil
}

func (p *pgPlace) floorSQL() floorSQL {
	return floorSQL{
		task:   p.schema + ".dbq_task",
		now:    "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)",
		insert: func(int) string { return pgInsert },
		mark: `
UPDATE {task}
   SET state = 1, due = NULL, attempt = attempt + 1, fence = fence + 1,
       lease_until = {now} + 300000000, holder = 'floor', updated = {now}
 WHERE queue = 'bench' AND due <= {now}`,
		finish: `
UPDATE {task}
   SET state = 2, lease_until = NULL, updated = {now}, result = NULL
 WHERE queue = 'bench' AND state = 1`,
		remove: "DELETE FROM {task} WHERE queue = 'bench' AND state = 1",
		tidy:   "VACUUM ANALYZE {task}",
	}
}
