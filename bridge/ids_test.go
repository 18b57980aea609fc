package bridge_test

import (
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestForwardFindsItsIDInAnotherQueue forwards a task whose far id another queue of the far database has, as a caller
// of that queue can arrange. The task is not there, so the near one must not be completed.
func TestForwardFindsItsIDInAnotherQueue(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"direct", "HTTP"} {
		far, task := dbqtest.New(t), dbq.NewTask{ID: dbq.NewID()}
		for _, to := range []string{"other", "in"} {
			near := dbqtest.New(t)
			_, err := near.Queue("out").Enqueue(t.Context(), task)
			check.OK(t, err)
			f := newForwarder(t, bridge.ForwarderConfig{To: farSides(t, far.Queue(to))[way]})
			near.Run(f.Worker(near.Queue("out")))
			if got := near.Tasks("out")[0]; got.Parked() != (to == "in") {
				t.Errorf("%s, to %s: the near task is %v: %s", way, to, got.State, got.Result)
			}
		}
		far.WantTasks("other", dbq.StateCreated, 1)
		if n := len(far.Tasks("in")); n != 0 {
			t.Errorf("%s: %d tasks are in the far queue, want none", way, n)
		}
	}
}
