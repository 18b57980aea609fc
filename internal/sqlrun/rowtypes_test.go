package sqlrun

import "testing"

func TestNullIsTheEmptyText(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{"": nil, "a": "a", "b": []byte("b")} {
		got := "what was read before"
		if err := (textOrNull{&got}).Scan(v); err != nil || got != want {
			t.Errorf("%v is read as %q %v, want %q", v, got, err, want)
		}
	}
}

func TestTerminatedEndsStatements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"SELECT 1": "SELECT 1;\n", "BEGIN NULL; END;": "BEGIN NULL; END;\n/\n"} {
		if got := Terminated(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
