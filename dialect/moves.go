package dialect

import (
	"strings"

	"github.com/dbq-go/dbq/state"
)

// Moves makes Statements.Movable and Statements.Move of the state table: lock gets the condition on the rows that an
// event moves, and move what it assigns to them besides, for the SET of an update. {now} in it stands for the
// database's clock. set is empty for the event that removes the rows, which is purge; lock may return the zero Batch
// for it. notDue and dueNow are the assignments for a task that is not to be handed out and one that is due at once,
// such as "due = NULL" and "due = {now}". noLease are those for a task without a lease whose row does not say how its
// last attempt ended, such as "lease_until = NULL, taken = NULL".
func Moves(
	notDue, dueNow, noLease string,
	lock func(guard string, purge bool) Batch,
	move func(set, guard string) Batch,
) (movable, moves map[state.Event]Batch) {
	sets := map[state.Event][]string{
		state.Reject:     {"state = 3", notDue},
		state.Revoke:     {"state = 3", notDue, "fence = fence + 1"},
		state.Reenqueue:  {"state = 0", dueNow, "attempt = 0", "lapses = 0"},
		state.Quarantine: {"state = 4", notDue},
		state.Restore:    {"state = 3", notDue},
	}
	movable, moves = map[state.Event]Batch{}, map[state.Event]Batch{}
	for _, t := range state.ByOperator() {
		set, guard, purge := "", state.Guard(t, "due"), t.To == state.None
		if !purge {
			set = strings.Join(append(sets[t.Event], noLease, "updated = {now}"), ", ")
		}
		moves[t.Event] = move(set, guard)
		if first := lock(guard, purge); first.SQL != "" {
			movable[t.Event] = first
		}
	}
	return movable, moves
}
