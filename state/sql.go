package state

import (
	"fmt"
	"slices"
	"strings"
)

// Literals returns states as a SQL list such as "0, 3". SQL texts use literals, never bound values, because a generic
// plan of PostgreSQL cannot use a partial index for a bound value.
func Literals(states ...State) string {
	var b strings.Builder
	for i, s := range states {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", int16(s))
	}
	return b.String()
}

// Condition returns the SQL condition that the column state is one of the given states. If all of them are ERROR or
// above, it repeats the predicate of the partial index on these states, because SQLite uses such an index only then.
func Condition(states ...State) string {
	return "state IN (" + Literals(states...) + ")" + failedOnly(states)
}

// Guard returns the SQL condition on the tasks that an operator's event may start from. A task is parked when the
// column named by due is null.
func Guard(t Transition, due string) string {
	var or []string
	for _, src := range t.From {
		cond := "state = " + Literals(src.State)
		if src.When == IfParked {
			cond = "(" + cond + " AND " + due + " IS NULL)"
		}
		or = append(or, cond)
	}
	return "(" + strings.Join(or, " OR ") + ")" + failedOnly(t.FromStates())
}

func failedOnly(states []State) string {
	if slices.Min(states) < Error {
		return ""
	}
	return " AND state >= " + Literals(Error)
}
