package dialect

import (
	"reflect"
	"testing"
)

func TestOnlyFieldsOfStatementsMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, name := range optional {
		if _, ok := reflect.TypeFor[Statements]().FieldByName(name); !ok {
			t.Errorf("Statements has no field %s", name)
		}
	}
	for name, want := range map[string]bool{"Batches": true, "Notify": true, "Insert": false, "Get": false} {
		if got := (Statements{}).MayBeEmpty(name); got != want {
			t.Errorf("%s may be empty: %v, want %v", name, got, want)
		}
	}
}
