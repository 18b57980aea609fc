package cases

import (
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
)

// lapseCases are about leases that expire before their attempts are known to have started.
func lapseCases() []Case {
	return inGroup("Lease",
		Case{Name: "UnstartedAttemptDoesNotCount", run: lapseUncounted,
			Law: "When a worker's lease expires before its attempt was marked as started, the attempt does not count, " +
				"except for every hundredth time."},
		Case{Name: "StartedAttemptCounts", run: lapseStarted,
			Law: "When a worker's lease expires after its attempt was marked as started, the attempt counts; a lost lease " +
				"cannot be marked."})
}

// lapsed records n earlier lapses of each task of a queue.
func (t *test) lapsed(c *dbq.Client, q *dbq.Queue, n int) {
	_, err := c.DB().ExecContext(t.ctx,
		fmt.Sprintf("UPDATE %stask SET lapses = %d WHERE queue = '%s'", t.Prefix, n, q.Name()))
	t.must(err)
}

func lapseUncounted(t *test) {
	c := t.open()
	q := access.ForWorker(c.Queue("q"), "w")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2})
	want := func(task dbq.Task, attempt, lapses int, was dbq.AttemptOutcome, wasAttempt int) {
		row := t.get(c, id)
		if task.Attempt != attempt || row.Attempt != attempt || task.Lapses != lapses || row.Lapses != lapses {
			t.Errorf("checkout says attempt %d after %d lapses, the row %d after %d; want %d after %d",
				task.Attempt, task.Lapses, row.Attempt, row.Lapses, attempt, lapses)
		}
		if a := task.TakenOver; was != "" && (a == nil || a.Outcome != was || a.Attempt != wasAttempt || a.Worker != "w") {
			t.Errorf("the attempt before is %+v, want attempt %d of w, %s", a, wasAttempt, was)
		}
		t.awaitExpiry(c, id)
	}
	want(t.take(q, short), 1, 0, "", 0)
	want(t.takeOver(q, id, short), 1, 1, dbq.AttemptLapsed, 1)
	want(t.takeOver(q, id, short), 1, 2, dbq.AttemptLapsed, 1)
	t.lapsed(c, q, dialect.LapsesPerAttempt-2)
	want(t.takeOver(q, id, short), 1, dialect.LapsesPerAttempt-1, dbq.AttemptLapsed, 1)
	want(t.takeOver(q, id, short), 2, 0, dbq.AttemptCrashed, 1)
	want(t.takeOver(q, id, short), 2, 1, dbq.AttemptLapsed, 2)
	t.lapsed(c, q, dialect.LapsesPerAttempt-1)
	t.eventually("the last attempt is exhausted", func() bool {
		t.wantNone("the last attempt is exhausted", q)
		return t.get(c, id).State == dbq.StatePoison
	})
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, id))
	want(t.take(q, short), 1, 0, "", 0)
}

func lapseStarted(t *test) {
	c := t.open()
	q := access.ForWorker(c.Queue("q"), "w")
	n := min(2*t.statements().Start.Max+1, 1200)
	leases := t.leaseNew(q, n)
	t.must(q.Complete(t.ctx, leases[0], nil))
	leases[n/2].Fence++
	for range 2 { // marking twice is marking once
		marked, lost, err := access.MarkStarted(t.ctx, q, leases)
		t.must(err)
		if len(marked) != n-2 || len(lost) != 2 || lost[0].Task != leases[0].Task || lost[1].Task != leases[n/2].Task {
			t.Fatalf("%d marked and %d lost, want %d and the 2 that are not held", len(marked), len(lost), n-2)
		}
	}
	other := access.ForWorker(c.Queue("other"), "w")
	id := t.enqueue(other, dbq.NewTask{MaxAttempts: 2})
	first := t.take(other, short)
	mark := func(l dbq.Lease) (lost int) {
		_, gone, err := access.MarkStarted(t.ctx, other, []dbq.Lease{l})
		t.must(err)
		return len(gone)
	}
	if mark(first.Lease) != 0 {
		t.Errorf("the lease was lost, though nobody had taken it")
	}
	t.awaitExpiry(c, id)
	second := t.takeOver(other, id, short)
	if second.Attempt != 2 || second.Lapses != 0 || second.TakenOver.Outcome != dbq.AttemptCrashed {
		t.Errorf("got attempt %d after %d lapses, want 2 after none", second.Attempt, second.Lapses)
	}
	if mark(first.Lease) != 1 {
		t.Errorf("a lease that was taken over was marked")
	}
	t.awaitExpiry(c, id)
	third := t.takeOver(other, id, short) // its lease was not marked, as the mark of the first is gone
	if third.Attempt != 2 || third.Lapses != 1 {
		t.Errorf("got attempt %d after %d lapses, want 2 after 1", third.Attempt, third.Lapses)
	}
	if mark(third.Lease) != 0 {
		t.Errorf("the lease was lost, though nobody had taken it")
	}
	t.awaitExpiry(c, id)
	t.eventually("the last attempt is exhausted", func() bool {
		t.wantNone("the last attempt is exhausted", other)
		return t.get(c, id).State == dbq.StatePoison
	})
}
