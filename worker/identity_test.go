package worker

import (
	"context"
	"testing"

	"github.com/dbq-go/dbq"
)

// Runs lead under different names, whatever their clients and they themselves are called: or two would clean a queue at a time.
func TestRunsOfOneNameAreTwoMembers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	nothing := HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) { return nil, nil })
	members, ids := map[string]bool{}, map[string]bool{}
	for _, id := range []string{"mine", "mine", "", ""} {
		r, err := (&Worker{Queue: q, Handler: nothing, ID: id}).newRun(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		members[r.member] = true
		if id == "" {
			ids[r.cfg.ID] = true
		}
	}
	if len(members) != 4 || len(ids) != 2 {
		t.Errorf("four runs are the members %v, and two without an ID are %v; want them all different", members, ids)
	}
}
