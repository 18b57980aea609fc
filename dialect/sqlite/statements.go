package sqlite

import (
	"embed"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// maxRows keeps a batch far below SQLite's limit of 32766 values in a statement.
const maxRows = 500

// noLease are the assignments for a row that has no lease, and does not say how its last attempt ended.
const noLease = "lease_until = NULL, taken_at = -1"

// Statements are SQLite's texts, which are in the folder sql with comments on each.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	purge, _ := state.Find(state.Purge, state.Operator)
	fill := n.Filler("{pause}", dialect.PauseKind, "{purgeable}", state.Guard(purge, "due"), "{spent}", dialect.Spent(""),
		"{next_attempt}", dialect.NextAttempt(""), "{next_lapses}", dialect.NextLapses(""))
	st := dialect.ReadStatements(sqlFiles, maxRows, fill)
	st.Style = dialect.Question
	st.Begin = []string{"BEGIN IMMEDIATE"}
	st.Newest = []state.State{state.Completed}
	for name, b := range st.Batches {
		if b.Row == "" { // SQLite takes no arrays: it is for a single row
			b.Max = 1
			st.Batches[name] = b
		}
	}
	st.Movable, st.Move = moves(n.Filler("{now}", st.Now))
	return st
}

// moves are the statements of the operators' events.
func moves(fill func(string) string) (movable, moves map[state.Event]dialect.Batch) {
	batch := func(s string) dialect.Batch {
		return dialect.Batch{SQL: fill(s), Row: `(:id)`, Sep: ", ", Max: maxRows}
	}
	pick := func(guard string) string {
		return `
 WHERE {task}.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN {task} AS t ON t.id = +d.column1)
   AND ` + guard
	}
	return dialect.Moves("due = NULL", "due = {now}", noLease, func(guard string, purge bool) dialect.Batch {
		if purge {
			return dialect.Batch{}
		}
		return batch(`SELECT id, queue, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM {task}` + pick(guard) + "\n ORDER BY id")
	}, func(set, guard string) dialect.Batch {
		if set == "" {
			return batch(`DELETE FROM {task}` + pick(guard) + "\nRETURNING id")
		}
		return batch(`UPDATE {task}
   SET ` + strings.ReplaceAll(set, ", ", ",\n       ") + pick(guard))
	})
}
