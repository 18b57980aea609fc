package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
)

func leaseCases() []Case {
	return inGroup("Lease",
		Case{Name: "ExpiredIsRedelivered", run: leaseExpired,
			Law: "A checkout hands a task out again after its lease has expired, as the next attempt and under a higher fence."},
		Case{Name: "StaleFenceCannotSettle", run: leaseStaleSettle,
			Law: "Every settling call with the fence of a lease that was taken over returns ErrLeaseLost and changes nothing."},
		Case{Name: "StaleFenceCannotExtend", run: leaseStaleExtend,
			Law: "A lease that was taken over cannot be extended."},
		Case{Name: "ExtendKeepsOthersOut", run: leaseExtend,
			Law: "An extended lease protects the task beyond its first end, and keeps its fence."},
		Case{Name: "ExtendToSameInstant", run: leaseExtendSame,
			Law: "An extension succeeds even when it leaves the row as it was."},
		Case{Name: "ExtendManyReportsLost", run: leaseExtendMany,
			Law: "ExtendMany returns the renewed and the lost leases apart, each in the order given."},
		Case{Name: "LateButNotTakenOverMaySettle", run: leaseLate,
			Law: "A worker whose lease expired may still extend and settle as long as no other worker took the task over."},
		Case{Name: "CrashesExhaustAttempts", run: leaseSpentByExpiry,
			Law: "A task whose every attempt ends in an unreported crash goes to POISON and is never handed out again."},
		Case{Name: "FailuresExhaustAttempts", run: leaseSpentByFail,
			Law: "A task that fails on its last attempt goes to POISON, even when a retry was requested."},
		Case{Name: "ReleaseDoesNotCount", run: leaseRelease,
			Law: "A task may be released and taken again any number of times without using up its attempts."},
		Case{Name: "RevokedIsLost", run: leaseRevoked,
			Law: "After a revoke, every call of the former holder returns ErrLeaseLost and changes nothing, even when the " +
				"task has been handed out again."},
		Case{Name: "HolderIsRecorded", run: leaseHolder,
			Law: "The row names the client that holds the lease, or held it last."},
		Case{Name: "HolderEndsNoLaterThanTheDatabase", run: leaseUntil,
			Law: "The holder considers its lease over no later than the database does."},
		Case{Name: "SettlingTwiceIsLeaseLost", run: leaseTwice,
			Law: "A lease settles once: a second call returns ErrLeaseLost and changes nothing."},
		Case{Name: "OldAndNewLeaseInOneCall", run: leaseOldAndNew,
			Law: "When one call carries both the old and the new lease of a task, the new one is settled and the old one is " +
				"reported lost."},
		Case{Name: "ManyOutcomesInOrder", run: leaseMany,
			Law: "Settle ends each attempt in its own way and reports the results in the order given, beyond the limits of " +
				"one statement."},
		Case{Name: "ManyCompletedTogether", run: leaseManyCompleted,
			Law: "When one call completes many leases, it reports each one that was lost or already settled, and leaves only " +
				"those tasks unchanged."},
		Case{Name: "ReusedIDIsANewTask", run: leaseEarlierLife,
			Law: "When a task is removed and its id enqueued again, no lease of the earlier task settles or extends the new " +
				"one, and the history lists the attempts of both."},
		Case{Name: "FenceOfAnotherTaskIsRefused", Once: true, run: leaseOtherTask,
			Law: "A task's fence is valid for that task only, even when another task has the same number."},
		Case{Name: "RetryWhenDue", run: leaseRetry,
			Law: "A failed task is retried once its retry time has come, and not before."},
	)
}

// endings returns one settlement of each kind, by name.
func endings() map[string]dbq.Outcome {
	return map[string]dbq.Outcome{
		"complete":       dbq.Completed([]byte("stale")),
		"settleDeleted":  dbq.Deleted(),
		"fail and park":  dbq.Parked(errBoom),
		"fail and retry": dbq.RetryIn(0, errBoom),
		"poison":         dbq.Poisoned(errBoom),
		"release":        dbq.Released(0),
	}
}

// wantLost makes every call of a holder with a lease that is not valid any more, and wants ErrLeaseLost and an
// unchanged row.
func (t *test) wantLost(when string, q *dbq.Queue, l dbq.Lease) {
	before := t.get(q.Client(), l.Task)
	for name, ending := range endings() {
		out, err := q.SettleMany(t.ctx, []dbq.Settlement{settlement(l, ending)})
		t.must(err)
		t.wantErr(name+" "+when, out[0].Err, dbq.ErrLeaseLost)
		t.wantUnchanged(name+" "+when, q.Client(), before)
	}
	_, err := q.Extend(t.ctx, l, long)
	t.wantErr("extend "+when, err, dbq.ErrLeaseLost)
	t.wantUnchanged("extend "+when, q.Client(), before)
}

func leaseExpired(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{Payload: []byte("x")})
	first := t.abandon(q)
	second := t.takeOver(t.open().Queue("q"), id, long)
	if second.Attempt != first.Attempt+1 || second.Fence <= first.Fence || string(second.Payload) != "x" {
		t.Errorf("after %s got %s, want one attempt more and a higher fence", show(first), show(second))
	}
	t.wantNone("the task is leased again", q)
}

func leaseStaleSettle(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	t.wantLost("after the task was taken over", q, old.Lease)
	for call, err := range map[string]error{
		"Complete": q.Complete(t.ctx, old.Lease, nil),
		"Deleted":  q.Settle(t.ctx, old.Lease, dbq.Deleted()),
		"RetryIn":  q.Settle(t.ctx, old.Lease, dbq.RetryIn(0, errBoom)),
		"Poisoned": q.Settle(t.ctx, old.Lease, dbq.Poisoned(errBoom)),
		"Released": q.Settle(t.ctx, old.Lease, dbq.Released(0)),
	} {
		t.wantErr(call+" after the task was taken over", err, dbq.ErrLeaseLost)
	}
	lost, err := completeAll(t.ctx, q, []dbq.Lease{old.Lease})
	if err != nil || len(lost) != 1 {
		t.Errorf("SettleMany: got lost %v and error %v, want the lease lost", lost, err)
	}
	t.wantState(c, id, dbq.StateProcessing)
}

func leaseStaleExtend(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	before := t.get(c, id)
	_, err := q.Extend(t.ctx, old.Lease, 2*long)
	t.wantErr("extend by the old holder", err, dbq.ErrLeaseLost)
	t.wantUnchanged("extend by the old holder", c, before)
}

func leaseExtend(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, time.Minute)
	firstEnd := t.get(c, task.ID).LeaseUntil
	renewed, err := q.Extend(t.ctx, task.Lease, long)
	t.must(err)
	row := t.get(c, task.ID)
	if !row.LeaseUntil.After(firstEnd.Add(time.Minute)) || row.Fence != task.Fence || row.Attempt != 1 ||
		row.State != dbq.StateProcessing {
		t.Errorf("after an extension to an hour got %s, want a lease far beyond %v under fence %d", show(row), firstEnd,
			task.Fence)
	}
	if renewed.Fence != task.Lease.Fence || renewed.Task != task.ID || !renewed.Until.After(task.Lease.Until) {
		t.Errorf("extend returned %+v for %+v, want the same fence and a later end", renewed, task.Lease)
	}
	// One that had expired, and is extended before anybody takes it over, keeps others out just so.
	other := t.takeNew(q, dbq.NewTask{}, short)
	t.awaitExpiry(c, other.ID)
	_, err = q.Extend(t.ctx, other.Lease, long)
	t.must(err)
	t.wantNone("both leases were extended to an hour", t.open().Queue("q"))
	t.must(q.Complete(t.ctx, task.Lease, nil)) // the lease as it was before the extension is as good
}

func leaseExtendSame(t *test) {
	q := t.open().Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	for range 30 { // several within one millisecond of a coarse clock
		if _, err := q.Extend(t.ctx, task.Lease, long); err != nil {
			t.Fatalf("extend by the same time again: %v", err)
		}
	}
}

// leaseNew enqueues n tasks and leases them for a minute.
func (t *test) leaseNew(q *dbq.Queue, n int) []dbq.Lease {
	t.enqueueMany(q, n, nil)
	tasks := t.checkout(q, n, time.Minute)
	if len(tasks) != n {
		t.Fatalf("checkout returned %d tasks, want %d", len(tasks), n)
	}
	leases := make([]dbq.Lease, n)
	for i, task := range tasks {
		leases[i] = task.Lease
	}
	return leases
}

func leaseExtendMany(t *test) {
	c := t.open()
	q := c.Queue("q")
	n := min(2*t.statements().Extend.Max+1, 3000)
	leases := t.leaseNew(q, n)
	t.must(q.Complete(t.ctx, leases[0], nil))
	t.must(admin.New(c).Operate(t.ctx, admin.Revoke, leases[n-1].Task))
	leases[n/2].Fence++
	lostAt := []int{0, n / 2, n - 1}
	renewed, lost, err := q.ExtendMany(t.ctx, leases, long)
	t.must(err)
	if len(renewed) != n-len(lostAt) || len(lost) != len(lostAt) {
		t.Fatalf("%d renewed and %d lost, want %d and %d", len(renewed), len(lost), n-len(lostAt), len(lostAt))
	}
	for i, at := range lostAt {
		if lost[i].Task != leases[at].Task {
			t.Errorf("lost lease %d is of task %s, want %s", i, lost[i].Task, leases[at].Task)
		}
	}
	r := 0
	for i, l := range leases {
		if slices.Contains(lostAt, i) {
			continue
		}
		if renewed[r].Task != l.Task || renewed[r].Fence != l.Fence || !renewed[r].Until.After(l.Until) {
			t.Fatalf("renewed lease %d is %+v, want that of %+v with a later end", r, renewed[r], l)
		}
		r++
	}
	if none, lost, err := q.ExtendMany(t.ctx, nil, long); len(none)+len(lost) > 0 || err != nil {
		t.Errorf("ExtendMany of nothing: got %v, %v and error %v", none, lost, err)
	}
}

func leaseLate(t *test) {
	c := t.open()
	q := c.Queue("q")
	for name, ending := range endings() {
		task := t.takeNew(q, dbq.NewTask{}, short)
		t.awaitExpiry(c, task.ID)
		out, err := q.SettleMany(t.ctx, []dbq.Settlement{settlement(task.Lease, ending)})
		if err != nil || out[0].Err != nil {
			t.Errorf("%s after the lease expired: got %v and error %v, want success", name, out, err)
		}
		// out of the next one's way
		if _, err := admin.New(c).OperateMany(t.ctx, state.Reject, admin.Filter{Queue: "q", Limit: 10}); err != nil {
			t.Fatalf("reject: %v", err)
		}
		_, err = admin.New(c).OperateMany(t.ctx, admin.Quarantine, admin.Filter{Queue: "q", Limit: 10})
		t.must(err)
	}
}

func leaseSpentByExpiry(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 3})
	t.abandon(q)
	for attempt := 2; attempt <= 3; attempt++ {
		if task := t.takeOver(q, id, short); task.Attempt != attempt {
			t.Errorf("got attempt %d, want %d", task.Attempt, attempt)
		}
		t.awaitExpiry(c, id)
	}
	t.eventually("a checkout moves the task to POISON", func() bool {
		t.wantNone("the task's attempts are exhausted", q)
		return t.get(c, id).State == dbq.StatePoison
	})
	row := t.get(c, id)
	if row.Attempt != 3 || !row.Due.IsZero() || !row.LeaseUntil.IsZero() {
		t.Errorf("got %s, want 3 attempts, no due time and no lease", show(row))
	}
	t.wantNone("the task is POISON", t.open().Queue("q"))
}

func leaseSpentByFail(t *test) {
	c := t.open()
	q := c.Queue("q")
	for name, retry := range map[string]dbq.Outcome{"at once": dbq.RetryIn(0, errBoom),
		"later": dbq.RetryIn(long, errBoom), "at a time": dbq.RetryAt(t.now(c).Add(long), errBoom),
		"by backoff": dbq.Failed(errBoom)} {
		id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2})
		first := t.take(q, long)
		out, err := q.SettleMany(t.ctx, []dbq.Settlement{settlement(first.Lease, dbq.RetryIn(0, errBoom))})
		t.must(err)
		if out[0].State != dbq.StateError {
			t.Errorf("the first of two attempts failed, to be retried: got %v, want %v", out[0].State, dbq.StateError)
		}
		last := t.take(q, long)
		out, err = q.SettleMany(t.ctx, []dbq.Settlement{settlement(last.Lease, retry)})
		t.must(err)
		row := t.wantState(c, id, dbq.StatePoison)
		if out[0].State != dbq.StatePoison || !row.Due.IsZero() || string(row.Result) != "boom" {
			t.Errorf("failed on the last attempt, to be retried %s: told %v, got %s; want POISON, no due time, and the error",
				name, out[0].State, show(row))
		}
	}
	parked := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, long)
	t.must(q.Settle(t.ctx, parked.Lease, dbq.Parked(errBoom)))
	if row := t.get(c, parked.ID); !row.Parked() {
		t.Errorf("parked on the last attempt: got %s, want it parked for an operator", show(row))
	}
}

func leaseRelease(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 1})
	for range 5 {
		task := t.take(q, long)
		if task.Attempt != 1 {
			t.Errorf("got attempt %d, want 1 each time", task.Attempt)
		}
		t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
		if row := t.wantState(c, id, dbq.StateCreated); row.Attempt != 0 {
			t.Errorf("after the release %d attempts count, want 0", row.Attempt)
		}
	}
	task := t.take(q, long)
	t.must(q.Settle(t.ctx, task.Lease, dbq.Released(long)))
	t.wantNone("released for an hour", q)
}

func leaseRevoked(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	t.must(admin.New(c).Operate(t.ctx, admin.Revoke, task.ID))
	t.wantLost("after the revoke", q, task.Lease)
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, task.ID))
	t.wantLost("after revoke and reenqueue", q, task.Lease)
	again := t.take(q, long)
	t.wantLost("after revoke, reenqueue and a checkout", q, task.Lease)
	t.must(q.Complete(t.ctx, again.Lease, nil))
	t.wantLost("after the new holder completed", q, task.Lease)
}

func leaseHolder(t *test) {
	a, b := t.open(dbq.WithName("Ännie")), t.open(dbq.WithName("bert"))
	id := t.enqueue(a.Queue("q"), dbq.NewTask{})
	want := func(name, holder string) {
		if !strings.HasPrefix(holder, name) {
			t.Errorf("the holder is %q, want one that begins with %q", holder, name)
		}
	}
	task := t.abandon(a.Queue("q"))
	want("Ännie", task.Holder)
	want("Ännie", t.get(b, id).Holder)
	task = t.takeOver(b.Queue("q"), id, long)
	want("bert", task.Holder)
	want("bert", t.get(a, id).Holder)
	t.must(b.Queue("q").Settle(t.ctx, task.Lease, dbq.Parked(errBoom)))
	want("bert", t.get(a, id).Holder)
}

func leaseUntil(t *test) {
	c := t.open()
	q := c.Queue("q")
	check := func(what string, l dbq.Lease) {
		now := t.now(c) // asked first, so what is left there is at least what is left here
		there := t.get(c, l.Task).LeaseUntil.Sub(now)
		if here := time.Until(l.Until); here > there {
			t.Errorf("after %s the holder believes in %v more, the database in %v", what, here, there)
		}
		if there > long {
			t.Errorf("after %s the lease has %v left, want at most %v", what, there, long)
		}
	}
	task := t.takeNew(q, dbq.NewTask{}, long)
	check("checkout", task.Lease)
	l, err := q.Extend(t.ctx, task.Lease, long)
	t.must(err)
	check("extend", l)
}
