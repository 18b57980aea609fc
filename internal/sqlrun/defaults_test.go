package sqlrun

import (
	"reflect"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

func TestOnlyFieldsOfStatementsMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, name := range optional {
		if _, ok := reflect.TypeFor[dialect.Statements]().FieldByName(name); !ok {
			t.Errorf("Statements has no field %s", name)
		}
	}
	for name, want := range map[string]bool{"Dual": true, "Notify": true, "Insert": false, "Get": false} {
		if got := MayBeEmpty(name); got != want {
			t.Errorf("%s may be empty: %v, want %v", name, got, want)
		}
	}
}

// A dialect's own text stays; an empty one is filled.
func TestDefaults(t *testing.T) {
	t.Parallel()
	own := dialect.Statements{Held: "SELECT 1", Insert: dialect.Batch{Max: 7}}
	st := withDefaults(own, dialect.Names{Prefix: "q_"})
	if st.Held != "SELECT 1" || st.Peek.Max != 7 || st.NextQueue == "" || st.SetResult.Max != 1 {
		t.Errorf("got %+v", st)
	}
}

func TestOwnStatementsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own   dialect.Batch
		sound bool
	}{
		"a text":           {dialect.Batch{SQL: "SELECT 1"}, true},
		"arrays":           {dialect.Batch{SQL: "SELECT :id", Max: 5}, true},
		"a list":           {dialect.Batch{SQL: "IN ({rows})", Row: ":id", Max: 5}, true},
		"no text":          {dialect.Batch{Row: ":id", Max: 5}, false},
		"no place":         {dialect.Batch{SQL: "IN (:id)", Row: ":id", Max: 5}, false},
		"two places":       {dialect.Batch{SQL: "{rows} {rows}", Row: ":id", Max: 5}, false},
		"a place too many": {dialect.Batch{SQL: "IN ({rows})", Max: 5}, false},
		"no bound":         {dialect.Batch{SQL: "IN ({rows})", Row: ":id"}, false},
	} {
		texts := Texts{Statements: dialect.Statements{Own: map[string]dialect.Batch{"take": c.own}}}
		if err := texts.CheckOwn(); (err == nil) != c.sound {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestMissingTextIsReported(t *testing.T) {
	t.Parallel()
	var b binder
	none := map[string]dialect.Batch{}
	if _, _, err := b.bind(none["tkae"].SQL, nil); err != errNoText {
		t.Errorf("a text: got %v", err)
	}
	if _, _, err := b.bindBatch(none["tkae"], nil, 0, 1); err != errNoText {
		t.Errorf("a batch: got %v", err)
	}
}
