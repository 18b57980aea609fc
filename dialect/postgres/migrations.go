package postgres

import (
	"fmt"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// Migrations make the task table, its indexes, and a view that a person can read.
//
// A row that somebody may take has a due time, all others none: one partial index serves checkout whatever the state, and
// finished rows are in no index but those of their id and reference. The lease's end is in no index; a task in work is found by when it was taken, see working. Keys compare byte by byte (COLLATE "C"). Columns are ordered so that none is padded.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	t := func(s string) string { return text(n, s) }
	name := n.Prefix + "task" // an index lives in its table's schema and is named without it
	return []dialect.Migration{{
		Version: 1, Title: "tasks",
		Statements: []string{
			t(fmt.Sprintf(`CREATE TABLE {task} (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL DEFAULT 0,
  due bigint,
  was_due bigint,
  lease_until bigint,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  state smallint NOT NULL CHECK (state IN (%s)),
  priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL,
  lapses smallint NOT NULL DEFAULT 0,
  started smallint NOT NULL DEFAULT 0,
  queue varchar(100) COLLATE "C" NOT NULL,
  reference varchar(200) COLLATE "C",
  kind varchar(100) COLLATE "C" NOT NULL,
  holder varchar(200),
  headers text,
  payload bytea,
  result bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05)`, state.Literals(state.All()...))),
			t(leaseTable),
			t(`CREATE UNIQUE INDEX ` + name + `_reference ON {task} (reference, queue) WHERE reference IS NOT NULL`),
			t(`CREATE INDEX ` + name + `_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL`),
			t(`CREATE INDEX ` + name + `_busy ON {task} (queue, updated) WHERE state = 1`),
			t(`CREATE INDEX ` + name + `_failed ON {task} (queue, state, id) WHERE state >= 3`),
			t(`CREATE VIEW {tasks} AS SELECT id, queue, reference, kind,
  CASE state` + state.WhenNames() + ` END AS state,
  priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  to_timestamp(CASE WHEN state = 1 THEN ` + renewed + ` END / 1e6) AS lease_until, holder,
  to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
  headers, octet_length(payload) AS payload_bytes, encode(result, 'escape') AS result FROM {task} t`),
		},
	}, fleet(n, t)}
}
