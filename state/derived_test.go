package state_test

import (
	"testing"

	"github.com/dbq-go/dbq/state"
)

func TestLiterals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states []state.State
		want   string
	}{
		{nil, ""},
		{[]state.State{state.Error}, "3"},
		{[]state.State{state.Created, state.Error}, "0, 3"},
		{state.All(), "0, 1, 2, 3, 4"},
	} {
		if got := state.Literals(c.states...); got != c.want {
			t.Errorf("Literals(%v) = %q, want %q", c.states, got, c.want)
		}
	}
}

func TestCondition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states []state.State
		want   string
	}{
		{[]state.State{state.Created}, "(state = 0)"},
		{[]state.State{state.Completed, state.Poison}, "(state = 2 OR state = 4)"},
		{[]state.State{state.Error}, "(state = 3)"},
		{[]state.State{state.Poison, state.Error}, "(state = 3 OR state = 4)"},
	} {
		if got := state.Condition(c.states...); got != c.want {
			t.Errorf("Condition(%v) = %q, want %q", c.states, got, c.want)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	want := map[state.Event]string{
		state.Reject:     "(state = 0)",
		state.Revoke:     "(state = 1)",
		state.Cancel:     "(state = 0 OR state = 1 OR state = 3)",
		state.Reenqueue:  "(state = 3 OR state = 4)",
		state.Finish:     "(state = 0 OR state = 3 OR state = 4)",
		state.Quarantine: "(state = 3)",
		state.Restore:    "(state = 4)",
		state.Purge:      "(state = 2 OR state = 4 OR (state = 3 AND t.due IS NULL))",
	}
	for _, row := range state.ByOperator() {
		if got := state.Guard(row, "t.due"); got != want[row.Event] {
			t.Errorf("%s: got %q, want %q", row.Event, got, want[row.Event])
		}
	}
}
