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

// Condition returns the SQL condition that the column state is one of the given states. It consists of equalities in
// the order of the states, like the predicates of partial indexes: SQLite uses such an index only if it finds one of
// the index's equalities, or all of them in the same order.
func Condition(states ...State) string {
	var or []string
	for _, s := range slices.Sorted(slices.Values(states)) {
		or = append(or, "state = "+Literals(s))
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// Guard returns the SQL condition for the tasks on which an operator's event can start. A task is parked if the
// column named by due is null.
func Guard(t Transition, due string) string {
	var or []string
	for _, src := range t.From {
		cond := "state = " + Literals(src.State)
		if src.Requirement == IfParked {
			cond = "(" + cond + " AND " + due + " IS NULL)"
		}
		or = append(or, cond)
	}
	return "(" + strings.Join(or, " OR ") + ")"
}
