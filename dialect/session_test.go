package dialect

import "testing"

func TestPrivateStatementsAreFoundByName(t *testing.T) {
	t.Parallel()
	s := Session{Statements: Statements{Private: map[string]Batch{"take": {SQL: "UPDATE", Max: 5}}}}
	if b := s.Private("take"); b.SQL != "UPDATE" || b.Max != 5 {
		t.Errorf("got %+v", b)
	}
	defer func() {
		if got := recover(); got != `dialect: Statements.Private has no "tkae"` {
			t.Errorf("a misspelled name: got %v", got)
		}
	}()
	s.Private("tkae")
}
