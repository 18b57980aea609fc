package sqlrun

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

// The defaults are the fields of dialect.Defaulted, and no others. A dialect's own text stays.
func TestDefaults(t *testing.T) {
	t.Parallel()
	n := dialect.Names{Prefix: "q_"}
	st := withDefaults(dialect.Statements{Settle: dialect.Batch{SQL: "UPDATE", Max: 7}}, n)
	filled := reflect.ValueOf(st)
	for _, field := range reflect.VisibleFields(filled.Type()) {
		if field.Anonymous {
			continue
		}
		want := FieldOf(field.Name).Default || field.Name == "Settle" || field.Name == "Purgeable"
		if got := !filled.FieldByIndex(field.Index).IsZero(); got != want {
			t.Errorf("%s has a text: %v, want %v", field.Name, got, want)
		}
		if b, ok := filled.FieldByIndex(field.Index).Interface().(dialect.Batch); ok && want && b.Max < 1 {
			t.Errorf("%s takes no rows", field.Name)
		}
	}
	own := reflect.ValueOf(withDefaults(st, n))
	for _, field := range reflect.VisibleFields(own.Type()) {
		if got, want := own.FieldByIndex(field.Index), filled.FieldByIndex(field.Index); !reflect.DeepEqual(
			got.Interface(), want.Interface()) {
			t.Errorf("%s: %v became %v", field.Name, want, got)
		}
	}
}

func TestDefaultsLockAndReturn(t *testing.T) {
	t.Parallel()
	st := withDefaults(dialect.Statements{ForUpdate: "FOR UPDATE", Returning: true}, dialect.Names{})
	for _, b := range []dialect.Batch{st.LockKeys, st.LockWaiting, st.Movable, st.Purgeable} {
		if !strings.HasSuffix(b.SQL, "id\n   FOR UPDATE") {
			t.Errorf("it locks nothing: %s", b.SQL)
		}
	}
	for _, b := range []dialect.Batch{st.Remove, st.Start, st.Purge} {
		if !strings.Contains(b.SQL, "\nRETURNING id") {
			t.Errorf("it returns nothing: %s", b.SQL)
		}
	}
}

func TestPrivateStatementsAreChecked(t *testing.T) {
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
		"a filled name":    {dialect.Batch{SQL: "-- {name}\nIN ({rows})", Row: ":id", Max: 5}, true},
		"a misspelling":    {dialect.Batch{SQL: "WHERE {unpuased}"}, false},
		"no bound":         {dialect.Batch{SQL: "IN ({rows})", Row: ":id"}, false},
	} {
		texts := Texts{Statements: dialect.Statements{Private: map[string]dialect.Batch{"take": c.own}}}
		if err := texts.CheckPrivate(); (err == nil) != c.sound {
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
