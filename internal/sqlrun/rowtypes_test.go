package sqlrun

import "testing"

func TestTerminatedIsWhatAClientReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"SELECT 1": "SELECT 1;\n", "BEGIN NULL; END;": "BEGIN NULL; END;\n/\n"} {
		if got := Terminated(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
