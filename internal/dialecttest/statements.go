package dialecttest

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// MovesAreTheStateTables holds that each operator's event has a statement with the guard and the effects that the state table says, and
// nothing else has one.
func MovesAreTheStateTables(t *testing.T, d dialect.Dialect) {
	t.Helper()
	moves := d.Statements(dialect.Names{Prefix: "dbq_"}).Move
	for _, row := range state.ByOperator() {
		b := moves[row.Event]
		for _, text := range []string{b.First, b.SQL} {
			if text == "" && b.SQL != "" {
				continue // there is no First
			}
			if !strings.Contains(text, state.Guard(row, "due")) {
				t.Errorf("%s is not guarded as the state table says: %s", row.Event, text)
			}
		}
		if row.To == state.None {
			continue
		}
		if to := "state = " + state.Literals(row.To) + ","; !strings.Contains(b.SQL, to) {
			t.Errorf("%s does not lead to %v: %s", row.Event, row.To, b.SQL)
		}
		if strings.Contains(b.SQL, "fence = fence + 1") != row.Fence {
			t.Errorf("%s: the fence should grow: %v: %s", row.Event, row.Fence, b.SQL)
		}
		if strings.Contains(b.SQL, "attempt = 0") != (row.Attempts == state.Reset) {
			t.Errorf("%s: the attempts should start over: %v: %s", row.Event, row.Attempts == state.Reset, b.SQL)
		}
	}
	if len(moves) != len(state.ByOperator()) {
		t.Errorf("there are %d moves, the state table has %d", len(moves), len(state.ByOperator()))
	}
}

// NamesStandInEveryStatement holds that statements are about the tables of the schema and the prefix that they are asked for, and that all
// names are written in.
func NamesStandInEveryStatement(t *testing.T, d dialect.Dialect) {
	t.Helper()
	st := d.Statements(dialect.Names{Schema: "jobs", Prefix: "q_"})
	for name, b := range map[string]dialect.Batch{
		"Get": {SQL: st.Get}, "Insert": st.Insert, "Checkout": {SQL: st.Checkout["ready"]}, "Settle": st.Settle, "Version": {SQL: st.Version},
		"Drop": {SQL: strings.Join(st.Drop, ";")},
	} {
		text := b.SQL
		if b.Row != "" {
			text = strings.Replace(text, "{rows}", "", 1)
		}
		if !strings.Contains(text, " jobs.q_") || strings.Contains(text, "dbq_") || strings.Contains(text, "{") {
			t.Errorf("%s is not about the tables it was asked for: %s", name, b.SQL)
		}
	}
}
