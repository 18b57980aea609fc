package oracle

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unpaused holds for a queue without a record that pauses it.
const unpaused = `NOT EXISTS (SELECT 1 FROM {kv} n WHERE n.kind = '` + dialect.PauseKind + `' AND n.name = :queue)`

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
	st.RecordLast = dialect.Batch{
		SQL: t(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, started, ended, worker, error)
SELECT t.id, t.fence, t.queue, CASE t.state WHEN 0 THEN t.attempt + 1 ELSE t.attempt END,
  CASE t.state WHEN 0 THEN 'released' WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  t.taken, t.updated, SUBSTR(t.holder, 1, INSTR(t.holder, '#', -1) - 1),
  CASE WHEN :error_size IS NOT NULL THEN :error WHEN t.state IN (3, 4) THEN t.result END
  FROM {task} t WHERE t.id = :id AND t.taken IS NOT NULL AND t.state <> 1
   AND NOT EXISTS (SELECT 1 FROM {attempt} a WHERE a.task = t.id AND a.fence = t.fence)`),
		Max: maxRows,
	}
	st.ExpireAttempts = t(`DELETE FROM {attempt} WHERE queue = :queue AND ended <= {now} - :age AND ROWNUM <= :limit`)
	purge, _ := state.Find(state.Purge, state.Operator)
	st.Archive = dialect.Batch{
		SQL: t(`INSERT INTO {archive} (` + kept + `, archived) SELECT ` + kept + `, {now} FROM {task} t
 WHERE id IN ({rows}) AND ` + state.Guard(purge, "due") + `
   AND NOT EXISTS (SELECT 1 FROM {archive} a WHERE a.id = t.id)`),
		Row: `:id`, Sep: ", ", Max: maxRows,
	}
}

// kept are the columns of a task that the archive has, too: all but those that Oracle computes.
const kept = "id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due, " +
	"was_due, lease_until, taken, holder, created, updated, headers, payload_size, result_size, payload, result"
