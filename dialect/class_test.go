package dialect

import "testing"

// The numbers may be in people's metrics.
func TestClassNumbersAndNamesNeverChange(t *testing.T) {
	t.Parallel()
	for number, want := range []struct {
		class Class
		name  string
	}{
		{Unknown, "unknown"}, {Duplicate, "duplicate"}, {Conflict, "conflict"}, {Unavailable, "unavailable"},
		{Ambiguous, "ambiguous"}, {Missing, "missing"}, {Denied, "denied"}, {Invalid, "invalid"}, {Class(8), "class(8)"},
	} {
		if int(want.class) != number || want.class.String() != want.name {
			t.Errorf("got %d %q, want %d %q", want.class, want.class, number, want.name)
		}
	}
}
