package admin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestStatsFindsQueuesThatComeAndGo counts more queues than one statement does, again and again, while queues get their
// first task and others lose their last one.
func TestStatsFindsQueuesThatComeAndGo(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	ops, want := admin.New(client), map[string]int64{}
	enqueue := func(n int, format string, args ...any) {
		t.Helper()
		queue := fmt.Sprintf(format, args...)
		if _, err := client.Queue(queue).EnqueueMany(t.Context(), make([]dbq.NewTask, n)); err != nil {
			t.Fatal(err)
		}
		want[queue] += int64(n)
	}
	check := func(step string) {
		t.Helper()
		stats, err := ops.Stats(t.Context(), admin.CountUpTo(1000))
		check.OK(t, err)
		if !slices.IsSortedFunc(stats, func(a, b admin.QueueStats) int {
			if a.Queue < b.Queue {
				return -1
			}
			return 1
		}) {
			t.Errorf("%s: the queues are not in order", step)
		}
		for _, q := range stats {
			if n := q.Count[dbq.StateCreated]; n != want[q.Queue] || q.Due != n || q.Parked != 0 || len(q.AtLeast) > 0 {
				t.Errorf("%s: queue %s has %d tasks, want %d; %+v", step, q.Queue, n, want[q.Queue], q)
			}
		}
		if len(stats) != len(want) {
			t.Errorf("%s: %d queues were found, want %d", step, len(stats), len(want))
		}
	}
	check("no queue")
	for i := range 120 {
		enqueue(1+i%7, "q%03d", 2*i)
	}
	check("120 queues")
	check("the same queues")
	enqueue(3, "a") // before all
	enqueue(4, "q003")
	enqueue(5, "q003x")
	enqueue(6, "z") // after all
	check("four more")
	for _, gone := range []string{"a", "q000", "q120", "z"} {
		if _, err := ops.OperateMany(t.Context(), admin.Cancel, admin.Filter{Queue: gone, Limit: 100}); err != nil {
			t.Fatal(err)
		}
		if _, err := ops.OperateMany(t.Context(), admin.Purge, admin.Filter{Queue: gone, Limit: 100}); err != nil {
			t.Fatal(err)
		}
		delete(want, gone)
	}
	check("four fewer")
	if _, err := client.Queue("q002").Checkout(t.Context(), 1, time.Minute); err != nil {
		t.Fatal(err)
	}
	want["q002"]--
	check("one leased")
}
