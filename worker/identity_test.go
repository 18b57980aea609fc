package worker

import (
	"context"
	"testing"

	"github.com/dbq-go/dbq"
)

// Runs lead under different names, whatever their clients and they themselves are called: or two would clean a queue
// at a time.
func TestRunsWithOneNameAreDistinctMembers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	nothing := Func(func(context.Context, dbq.Task) error { return nil })
	members, ids := map[string]bool{}, map[string]bool{}
	for _, id := range []string{"mine", "mine", "", ""} {
		r := newRunOf(t, Worker{Queue: q, Handler: nothing, ID: id})
		members[r.cleaner.member.Name] = true
		if id == "" {
			ids[r.cfg.ID] = true
		}
	}
	if len(members) != 4 || len(ids) != 2 {
		t.Errorf("four runs are the members %v, and two without an ID are %v; want them all different", members, ids)
	}
}
