package console

import (
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// TestUncountedTasksAreNotShownAsNone: where no index has the tasks of a state, a count can stop before it finds any of
// a queue.
func TestUncountedTasksAreNotShownAsNone(t *testing.T) {
	t.Parallel()
	q := queueRow{Stats: admin.QueueStats{Count: map[dbq.State]int64{dbq.StateError: 12_345, dbq.StateCreated: 7}},
		atLeast: map[dbq.State]bool{dbq.StateCompleted: true, dbq.StateError: true}}
	for state, want := range map[dbq.State]string{
		dbq.StateCompleted: "–", dbq.StateError: "12,345+", dbq.StateCreated: "7", dbq.StatePoison: "0",
	} {
		if got := q.Count(state); got != want {
			t.Errorf("%v: %q, want %q", state, got, want)
		}
	}
}
