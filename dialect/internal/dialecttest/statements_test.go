package dialecttest

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// movesFollowStateTable checks that each operator's event has a statement with the guard and the effects that the state
// table says, and nothing else has one.
func movesFollowStateTable(t *testing.T, d dialect.Dialect) {
	t.Helper()
	st := sqlrun.NewTexts(d, dialect.Names{Prefix: "dbq_"})
	moves := st.Move
	for _, row := range state.ByOperator() {
		b := moves[row.Event]
		for _, text := range []string{st.Movable[row.Event].SQL, b.SQL} {
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
		if strings.Contains(b.SQL, "fence = fence + ") != row.Fence {
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

// table finds the name of a table or view under the prefix that names are asked for with, and what stands before it.
var table = regexp.MustCompile(`(\w+\.)?\bq_(task|tasks|lease|kv|attempt|attempts|archive|migration)\b`)

// later takes out what the core writes into a text for each call or event.
var later = strings.NewReplacer(
	"{rows}", "", "{where}", "", "{matches}", "", "{order}", "", "{hint}", "", "{name}", "", "{set}", "", "{guard}", "",
	"due = {now}", "", "due_at = {now}", "", // of Assignments
)

// statementsNameTheirTables checks that statements are about the tables of the schema and the prefix that they are
// asked for, and that all names are written in.
func statementsNameTheirTables(t *testing.T, d dialect.Dialect) {
	t.Helper()
	named := map[string]bool{}
	var look func(field string, v reflect.Value)
	look = func(field string, v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			text := v.String()
			for _, found := range table.FindAllStringSubmatch(text, -1) {
				if named[found[2]] = true; found[1] != "jobs." {
					t.Errorf("%s is about %s, which is not in the schema that it was asked for: %s", field, found[0], text)
				}
			}
			left := later.Replace(text)
			if strings.Contains(left, "dbq_") || strings.Contains(left, "{") {
				t.Errorf("%s has names that are not written in: %s", field, text)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				look(field, v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				look(field, v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				look(field, v.MapIndex(key))
			}
		}
	}
	st := reflect.ValueOf(sqlrun.NewTexts(d, dialect.Names{Schema: "jobs", Prefix: "q_"}))
	for i := range st.NumField() {
		look(st.Type().Field(i).Name, st.Field(i))
	}
	want := 7
	if d.Statements(dialect.Names{Prefix: "q_"}).DropLeases.SQL != "" {
		want++
	}
	if len(named) != want {
		t.Errorf("only the tables %v are named", slices.Sorted(maps.Keys(named)))
	}
}

// schemaHasEveryState checks that the frozen schema has every state of the state table, in its CHECK and in its view.
func schemaHasEveryState(t *testing.T, d dialect.Dialect) {
	t.Helper()
	var all strings.Builder
	for _, m := range d.Migrations(dialect.Names{Prefix: "dbq_"}) {
		all.WriteString(strings.Join(m.Statements, ";\n"))
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(all.String(), "''", "'")), " ")
	names, each := "CASE state", []string(nil)
	for _, s := range state.All() {
		names += fmt.Sprintf(" WHEN %s THEN '%v'", state.Literals(s), s)
		each = append(each, "state = "+state.Literals(s))
	}
	for _, want := range []string{names + " END", "priority BETWEEN 0 AND 9"} {
		if !strings.Contains(text, want) {
			t.Errorf("the schema has no %q", want)
		}
	}
	list := "CHECK (state IN (" + state.Literals(state.All()...) + "))"
	if !strings.Contains(text, list) && !strings.Contains(text, "CHECK ("+strings.Join(each, " OR ")+")") {
		t.Errorf("the schema has no %q", list)
	}
}
