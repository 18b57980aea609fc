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
	for name, want := range map[string]bool{"Batches": true, "Notify": true, "Insert": false, "Get": false} {
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
