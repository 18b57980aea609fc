package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/state"
)

var events = []state.Event{
	state.Enqueue, state.Checkout, state.Extend, state.Complete, state.Fail, state.PoisonEvent, state.Reject, state.Revoke,
	state.Cancel, state.Release, state.Reenqueue, state.Finish, state.Quarantine, state.Restore, state.Purge,
}

func TestEveryEventHasARow(t *testing.T) {
	t.Parallel()
	for _, e := range events {
		if !slices.ContainsFunc(state.Transitions(), func(row state.Transition) bool { return row.Event == e }) {
			t.Errorf("%s has no row", e)
		}
	}
	for _, row := range state.Transitions() {
		if !slices.Contains(events, row.Event) {
			t.Errorf("%s is not known to this test: add it", row.Event)
		}
	}
}

func TestRowsStayWithinTheStoredStates(t *testing.T) {
	t.Parallel()
	for _, row := range state.Transitions() {
		if len(row.From) == 0 {
			t.Errorf("%s starts nowhere", row.Event)
		}
		for _, src := range row.From {
			if fromNone := src.State == state.None; fromNone != (row.Event == state.Enqueue) {
				t.Errorf("%s starts from %v: enqueue makes tasks, and nothing else does", row.Event, src.State)
			} else if !fromNone && !slices.Contains(state.All(), src.State) {
				t.Errorf("%s starts from %v, which is not stored", row.Event, src.State)
			}
		}
		if toNone := row.To == state.None; toNone != (row.Event == state.Purge) {
			t.Errorf("%s leads to %v: purge removes tasks, and no other row does", row.Event, row.To)
		} else if !toNone && !slices.Contains(state.All(), row.To) {
			t.Errorf("%s leads to %v, which is not stored", row.Event, row.To)
		}
	}
}

func TestEveryRowHasActorAndSources(t *testing.T) {
	t.Parallel()
	type key struct {
		event state.Event
		actor state.Actor
	}
	type source struct {
		event state.Event
		actor state.Actor
		src   state.Source
	}
	seen, from := map[key]bool{}, map[source]bool{}
	for _, row := range state.Transitions() {
		again := false
		for _, src := range row.From {
			again = again || seen[key{row.Event, row.Actor}]
			if k := (source{row.Event, row.Actor, src}); from[k] {
				t.Errorf("%s by %s from %v %s is there twice", row.Event, row.Actor, src.State, src.Requirement)
			} else {
				from[k] = true
			}
		}
		seen[key{row.Event, row.Actor}] = true
		if row.Doc == "" || !strings.HasSuffix(row.Doc, ".") || strings.ContainsAny(row.Doc, "\n|") {
			t.Errorf("%s: the doc is not one sentence that fits into a table: %q", row.Event, row.Doc)
		}
		if operator := row.Actor == state.Operator; operator != (row.Past != "") {
			t.Errorf("%s by %s: the participle is %q", row.Event, row.Actor, row.Past)
		}
		found, ok := state.Find(row.Event, row.Actor)
		if !ok || !again && found.Doc != row.Doc {
			t.Errorf("Find(%s, %s) = %v, %v", row.Event, row.Actor, found, ok)
		}
	}
	if row, ok := state.Find(state.Enqueue, state.Operator); ok {
		t.Errorf("Find of what is not there gave %v", row)
	}
}

// The promises that follow from the table, so that an edit of one cell that breaks a promise is seen here first.
func TestTableUpholdsThePromises(t *testing.T) {
	t.Parallel()
	for _, row := range state.Transitions() {
		changesOwner := row.Event == state.Checkout || row.Event == state.Revoke || row.Event == state.Cancel ||
			row.Event == state.PoisonEvent && row.Actor == state.Worker
		if row.Fence != changesOwner {
			t.Errorf("%s by %s: the fence grows: %v, want %v", row.Event, row.Actor, row.Fence, changesOwner)
		}
		lapse := slices.Contains(row.From, state.Source{State: state.Processing, Requirement: state.IfLapsed})
		if counts := row.Attempts == state.Count; counts != (row.Event == state.Checkout && !lapse) {
			t.Errorf("%s: counts an attempt: %v; only a checkout of a task that did not lapse does", row.Event, counts)
		}
		if lease := row.Actor == state.Operator && row.Allows(state.Processing, true); row.TakesLease() != lease {
			t.Errorf("%s by %s: takes the lease: %v, want %v", row.Event, row.Actor, row.TakesLease(), lease)
		}
		if row.Cancels && (row.Actor != state.Operator || row.To != state.Poison || !row.Result) {
			t.Errorf("%s by %s: only an operator cancels a task, with a reason, and it goes to POISON", row.Event, row.Actor)
		}
		if row.Due == state.DueNow && row.To != state.Created {
			t.Errorf("%s makes a task in %v due at once", row.Event, row.To)
		}
		for _, src := range row.From {
			if row.Actor == state.Holder && src.State != state.Processing {
				t.Errorf("%s: a lease holder acts on a task in %v", row.Event, src.State)
			}
			if row.Actor == state.Worker && src.State == state.Poison {
				t.Errorf("%s hands out a poisoned task", row.Event)
			}
			pending := src.State == state.Created || src.State == state.Processing ||
				src.State == state.Error && src.Requirement != state.IfParked
			if row.Event == state.Purge && pending {
				t.Errorf("purge removes a task that is still to be done: %v %s", src.State, src.Requirement)
			}
		}
	}
}

func TestEveryStateIsReachableAndLeadsToAnEnd(t *testing.T) {
	t.Parallel()
	reached := map[state.State]bool{state.None: true}
	leads := map[state.State]bool{state.None: true} // to the end, by some path
	for range len(state.All()) + 1 {
		for _, row := range state.Transitions() {
			for _, src := range row.From {
				reached[row.To] = reached[row.To] || reached[src.State]
				leads[src.State] = leads[src.State] || leads[row.To]
			}
		}
	}
	for _, s := range state.All() {
		if !reached[s] {
			t.Errorf("no path leads to %v", s)
		}
		if !leads[s] {
			t.Errorf("no path leads out of %v", s)
		}
	}
}

func TestTransitionsAreACopy(t *testing.T) {
	t.Parallel()
	rows := state.Transitions()
	rows[0].To, rows[1].From[0] = state.Poison, state.Source{State: state.Poison}
	if again := state.Transitions(); again[0].To == state.Poison || again[1].From[0].State == state.Poison {
		t.Error("a caller can change the table")
	}
}

func TestByOperatorNeedsNoLease(t *testing.T) {
	t.Parallel()
	var got []state.Event
	for _, row := range state.ByOperator() {
		got = append(got, row.Event)
		if row.Actor != state.Operator {
			t.Errorf("%s is for %s", row.Event, row.Actor)
		}
	}
	want := []state.Event{state.Reject, state.Revoke, state.Cancel, state.Reenqueue, state.Finish, state.Quarantine,
		state.Restore, state.Purge}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event  state.Event
		actor  state.Actor
		from   state.State
		parked bool
		want   bool
	}{
		{state.Purge, state.Operator, state.Error, true, true},
		{state.Purge, state.Operator, state.Error, false, false},
		{state.Purge, state.Operator, state.Completed, false, true},
		{state.Purge, state.Operator, state.Processing, false, false},
		{state.Checkout, state.Worker, state.Created, false, true},
		{state.Checkout, state.Worker, state.Poison, false, false},
		{state.Complete, state.Holder, state.Processing, false, true},
		{state.Complete, state.Holder, state.Completed, false, false},
		{state.Enqueue, state.Anyone, state.None, false, true},
	} {
		row, ok := state.Find(c.event, c.actor)
		if got := row.Allows(c.from, c.parked); !ok || got != c.want {
			t.Errorf("%s from %v (parked: %v): got %v, want %v", c.event, c.from, c.parked, got, c.want)
		}
	}
}
