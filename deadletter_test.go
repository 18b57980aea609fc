package dbq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
)

// Each task that goes to POISON has a notice in the dead-letter queue that its queue has then. Cancelled and
// quarantined tasks have none, nor has a notice.
func TestDeadLetterNotices(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx, ops := t.Context(), admin.New(db.Client)
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	deadLetter := func(queue, to string) {
		must(ops.ConfigureQueue(ctx, queue, func(s *admin.QueueSettings) { s.DeadLetter = to }))
	}
	settle := func(queue string, o dbq.Outcome) dbq.Task {
		tasks, err := db.Queue(queue).Checkout(ctx, 1, time.Minute)
		must(err)
		must(db.Queue(queue).Settle(ctx, tasks[0].Lease, o))
		return tasks[0]
	}
	enqueue := func() {
		_, err := db.Queue("q").Enqueue(ctx, dbq.NewTask{})
		must(err)
	}
	poisoned := dbq.Poisoned(errors.New("no"))
	want := map[string]int{"a": 0, "b": 0}
	for _, to := range []string{"", "a", "b", "", "a"} {
		deadLetter("q", to)
		enqueue()
		settle("q", poisoned)
		if to != "" {
			want[to]++
		}
		for queue, n := range want {
			db.WantTasks(queue, dbq.StateCreated, n)
		}
	}
	enqueue()
	must(ops.Operate(ctx, admin.Quarantine, settle("q", dbq.Parked(nil)).ID))
	enqueue()
	_, err := ops.OperateMany(ctx, admin.Cancel, admin.Filter{Queue: "q", Limit: 10})
	must(err)
	deadLetter("a", "q")
	notice := settle("a", poisoned)
	if n, err := (dbq.Kind[dbq.PoisonNotice]{Name: dbq.KindPoison}).Decode(notice); err != nil || n.Queue != "q" {
		t.Errorf("the notice is %+v, %v", n, err)
	}
	db.WantTasks("a", dbq.StateCreated, want["a"]-1)
	db.WantTasks("q", dbq.StateCreated, 0)
}
