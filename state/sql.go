package state

import (
	"fmt"
	"slices"
	"strings"
)

// Literals writes states as a SQL list such as "0, 3". Literals, never binds: a generic plan of PostgreSQL cannot use a
// partial index for a bound value.
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

// WhenNames are the branches of a CASE over a state's number that give its name, for the view that a person reads.
func WhenNames() string {
	var b strings.Builder
	for _, s := range All() {
		fmt.Fprintf(&b, " WHEN %s THEN '%v'", Literals(s), s)
	}
	return b.String()
}

// Condition is the SQL condition for a list of states on a column named state. For states that all lie at ERROR or above it
// repeats the predicate of the partial index on these, which SQLite wants to see word by word.
func Condition(states ...State) string {
	return "state IN (" + Literals(states...) + ")" + failedOnly(states)
}

// Guard is the SQL condition on the rows that an operator's event may take; due names the column whose null means parked.
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
