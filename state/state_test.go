package state_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

// The numbers are in people's databases.
func TestNumbersAndNamesAreStable(t *testing.T) {
	t.Parallel()
	want := []struct {
		state  state.State
		number int16
		name   string
	}{
		{state.None, -1, "none"},
		{state.Created, 0, "CREATED"},
		{state.Processing, 1, "PROCESSING"},
		{state.Completed, 2, "COMPLETED"},
		{state.Error, 3, "ERROR"},
		{state.Poison, 4, "POISON"},
	}
	var stored []state.State
	for _, w := range want {
		if int16(w.state) != w.number || w.state.String() != w.name {
			t.Errorf("got %d %q, want %d %q", int16(w.state), w.state, w.number, w.name)
		}
		if w.state != state.None {
			stored = append(stored, w.state)
		}
	}
	if !slices.Equal(state.All(), stored) {
		t.Errorf("All() = %v, want %v", state.All(), stored)
	}
	if got := state.State(42).String(); got != "State(42)" {
		t.Errorf("an unknown state prints as %q", got)
	}
}

func TestNamesRoundTripThroughJSON(t *testing.T) {
	t.Parallel()
	for _, s := range state.All() {
		in := map[state.State]state.State{s: s}
		text, err := json.Marshal(in)
		check.OK(t, err)
		if want := `{"` + s.String() + `":"` + s.String() + `"}`; string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
		var out map[state.State]state.State
		if err := json.Unmarshal(text, &out); err != nil || out[s] != s {
			t.Errorf("%s came back as %v, %v", text, out, err)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, s := range state.All() {
		for _, name := range []string{s.String(), strings.ToLower(s.String())} {
			if got, err := state.Parse(name); got != s || err != nil {
				t.Errorf("Parse(%q) = %v, %v", name, got, err)
			}
		}
	}
	for _, name := range []string{"", "none", "ERRORS", "3", " ERROR"} {
		got, err := state.Parse(name)
		if err == nil || got != state.None {
			t.Errorf("Parse(%q) = %v, %v, want an error", name, got, err)
			continue
		}
		for _, s := range state.All() {
			if !strings.Contains(err.Error(), s.String()) {
				t.Errorf("the error does not name %v: %v", s, err)
			}
		}
	}
}

func TestFailedUnmarshalLeavesTheStateAlone(t *testing.T) {
	t.Parallel()
	s := state.Completed
	if err := s.UnmarshalText([]byte("DONE")); err == nil || s != state.Completed {
		t.Errorf("got %v, %v", s, err)
	}
}
