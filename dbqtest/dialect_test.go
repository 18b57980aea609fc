package dbqtest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
)

func TestEveryStatementHasTheMovedClock(t *testing.T) {
	t.Parallel()
	n := dialect.Names{Prefix: "dbq_"}
	now := sqlite.Dialect{}.Statements(n).Now
	st := reflect.ValueOf(movable{}.Statements(n))
	moved := 0
	for _, f := range reflect.VisibleFields(st.Type()) {
		text := ""
		switch v := st.FieldByIndex(f.Index).Interface().(type) {
		case string:
			text = v
		case dialect.Batch:
			text = v.SQL + v.Row
		}
		if n := strings.Count(text, now); n != strings.Count(text, now+" + "+offset) {
			t.Errorf("%s reads the clock that is not moved", f.Name)
		} else if n > 0 {
			moved++
		}
	}
	if moved < 5 {
		t.Errorf("%d statements read the clock", moved)
	}
}
