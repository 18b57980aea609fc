package admin_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/series"
)

// TestFailingFindsMoreFailuresThanUsual has queues with many and few failures, in the last minutes and in the day
// before.
func TestFailingFindsMoreFailuresThanUsual(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	now, err := q.db.Client.Now(t.Context())
	check.OK(t, err)
	report := func(queue string, ago time.Duration, failed, completed int64) {
		t.Helper()
		check.OK(t, access.Of(q.db.Client).Store.AddReport(t.Context(), dbq.NewID().String(), series.Period{Queue: queue,
			Since:  now.Add(-ago).Truncate(time.Minute).UnixMicro(),
			Counts: series.Counts{Failed: failed, Completed: completed}}))
	}
	for queue, n := range map[string]struct{ failed, completed, failedBefore, completedBefore int64 }{
		"mail":    {60, 140, 20, 980},
		"new":     {10, 0, 0, 0},
		"few":     {9, 1, 0, 1000},    // attempts
		"rare":    {99, 901, 0, 1000}, // under a tenth
		"usual":   {60, 140, 200, 800},
		"healthy": {0, 200, 300, 700},
	} {
		report(queue, 5*time.Minute, n.failed, n.completed)
		report(queue, 3*time.Hour, n.failedBefore, n.completedBefore)
	}
	all, err := q.ops.Failing(t.Context())
	check.OK(t, err)
	want := []admin.Failing{
		{Queue: "mail", Failed: 60, Ended: 200, FailedBefore: 20, EndedBefore: 1000}, {Queue: "new", Failed: 10, Ended: 10},
	}
	if len(all) != len(want) || all[0] != want[0] || all[1] != want[1] {
		t.Fatalf("the queues that fail more often than usual are %+v, want %+v", all, want)
	}
	const text = "30% of 200 attempts failed in the last 15 minutes, and 2% in the day before."
	if got := all[0].String(); got != text {
		t.Errorf("it says %q, want %q", got, text)
	}
	if got := all[1].String(); got != "100% of 10 attempts failed in the last 15 minutes." {
		t.Errorf("of a queue without a day before, it says %q", got)
	}
	q.is(admin.CauseEmpty, text)
	if some, err := q.ops.Failing(t.Context(), "new", "usual"); err != nil || len(some) != 1 || some[0] != want[1] {
		t.Errorf("of two queues, %+v fail more often than usual, want new: %v", some, err)
	}
}
