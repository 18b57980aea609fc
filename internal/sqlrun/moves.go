package sqlrun

import (
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// setMoves sets the statements of operators' events, one for each such row of the state table.
func (t *Texts) setMoves(fill func(string) string) {
	t.Move, t.Movable = map[state.Event]dialect.Batch{}, map[state.Event]dialect.Batch{}
	for _, row := range state.ByOperator() {
		move, movable := t.Statements.Move, t.Statements.Movable
		if row.To == state.None {
			move, movable = t.Statements.Purge, t.Statements.Purgeable
		}
		holes := map[string]string{"{set}": fill(assigned(row, t.Statements)), "{guard}": state.Guard(row, "due")}
		for hole, text := range holes {
			move.SQL, movable.SQL = fillHole(move.SQL, hole, text), fillHole(movable.SQL, hole, text)
		}
		t.Move[row.Event], t.Movable[row.Event] = move, movable
	}
}

// assigned returns the assignments of a transition, one column in a line.
func assigned(row state.Transition, st dialect.Statements) string {
	var set []string
	if row.Fence { // before the state is set: MySQL assigns in the order that is written
		set = append(set, grown(row))
	}
	due, cancelled := "due = NULL", "cancelled = 0"
	if row.Due == state.DueNow {
		due = "due = {now}"
	}
	if row.Cancels {
		cancelled = "cancelled = 1"
	}
	set = append(set, "state = "+state.Literals(row.To), due, cancelled)
	if row.Attempts == state.Reset {
		set = append(set, "attempt = 0", "lapses = 0")
	}
	set = append(set, "lease_until = NULL", "taken = NULL", "updated = {now}")
	return strings.NewReplacer(st.Assignments...).Replace(strings.Join(set, ",\n"))
}

// grown returns the assignment that increases the fence.
func grown(row state.Transition) string {
	from := row.FromStates()
	owned := slices.DeleteFunc(slices.Clone(from), func(s state.State) bool { return !row.GrowsFence(s) })
	if len(owned) == len(from) {
		return "fence = fence + 1"
	}
	return "fence = fence + CASE WHEN " + state.Condition(owned...) + " THEN 1 ELSE 0 END"
}

// fillHole replaces a hole of a text. All lines begin in the column of the hole.
func fillHole(text, hole, lines string) string {
	before, after, found := strings.Cut(text, hole)
	if !found {
		return text
	}
	column := len(before) - 1 - strings.LastIndex(before, "\n")
	return before + strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", column)) + after
}
