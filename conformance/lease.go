package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

func leaseCases() []Case {
	return inGroup("Lease",
		Case{Name: "ExpiredIsRedelivered", Law: "A task whose lease ran out is handed out again by the checkout itself, with one more attempt and a higher fence.",
			run: leaseExpired},
		Case{Name: "StaleFenceCannotSettle", Law: "Every settling call with the fence of a lease that was taken over is ErrLeaseLost and changes nothing.",
			run: leaseStaleSettle},
		Case{Name: "StaleFenceCannotExtend", Law: "A lease that was taken over cannot be extended.",
			run: leaseStaleExtend},
		Case{Name: "ExtendKeepsOthersOut", Law: "An extended lease keeps the task from others past its first end, and its fence stays.",
			run: leaseExtend},
		Case{Name: "ExtendToSameInstant", Law: "A heartbeat that finds the row as it would make it succeeds all the same.",
			run: leaseExtendSame},
		Case{Name: "ExtendManyTellsLost", Law: "ExtendMany tells the leases it renewed from those that are lost, each in the order given.",
			run: leaseExtendMany},
		Case{Name: "LateButNotTakenOverMaySettle", Law: "A worker that is late, but whose task nobody took over, may still extend and settle.",
			run: leaseLate},
		Case{Name: "AttemptsSpentByExpiryIsPoison", Law: "A task whose every attempt ended in a crash that nobody reported goes to POISON and is never handed out again.",
			run: leaseSpentByExpiry},
		Case{Name: "AttemptsSpentByFailIsPoison", Law: "A task that fails on its last attempt goes to POISON, whatever retry was asked for.",
			run: leaseSpentByFail},
		Case{Name: "ReleaseDoesNotCount", Law: "A released task may be taken again any number of times without spending its attempts.",
			run: leaseRelease},
		Case{Name: "RevokedIsLost", Law: "After a revoke every call of the old holder is ErrLeaseLost and changes nothing, also when the task is out again.",
			run: leaseRevoked},
		Case{Name: "HolderIsRecorded", Law: "The row says which client holds the lease, or held it last.",
			run: leaseHolder},
		Case{Name: "UntilIsNotLaterThanTheDatabase", Law: "A lease ends for its holder no later than for the database.",
			run: leaseUntil},
		Case{Name: "SettlingTwiceIsLeaseLost", Law: "A lease settles once: the second call is ErrLeaseLost and changes nothing.",
			run: leaseTwice},
		Case{Name: "OldAndNewLeaseInOneCall", Law: "When one call carries the old and the new lease of a task, the new one counts and the old one is lost.",
			run: leaseOldAndNew},
		Case{Name: "ManyOutcomesInOrder", Law: "Settle ends each attempt its own way and tells what became of each in the order given, over the limits of one statement.",
			run: leaseMany},
		Case{Name: "ManyCompletedTogether",
			Law: "Of many leases that are completed in one call each that was lost or settled is told, and only its task is left as it was.",
			run: leaseManyCompleted},
		Case{Name: "EarlierLifeIsLost", run: leaseEarlierLife,
			Law: "When a task is removed and its id enqueued again, no lease of its earlier life settles or extends it, and the history has both lives."},
		Case{Name: "OtherTasksFence", Law: "The fence of one task opens no other, even when the numbers are equal.",
			run: leaseOtherTask, once: true},
		Case{Name: "RetryWhenDue", Law: "A failed task is tried again once its retry time has come, and not before.",
			run: leaseRetry},
	)
}

// endings are one settlement of each kind.
func endings() map[string]func(l dbq.Lease) dbq.Settlement {
	return map[string]func(l dbq.Lease) dbq.Settlement{
		"complete":          func(l dbq.Lease) dbq.Settlement { return dbq.Completed(l, []byte("stale")) },
		"completeAndDelete": dbq.CompletedAndDeleted,
		"fail and park":     func(l dbq.Lease) dbq.Settlement { return dbq.Failed(l, dbq.Park, errBoom) },
		"fail and retry":    func(l dbq.Lease) dbq.Settlement { return dbq.Failed(l, dbq.RetryIn(0), errBoom) },
		"poison":            func(l dbq.Lease) dbq.Settlement { return dbq.Poisoned(l, errBoom) },
		"release":           func(l dbq.Lease) dbq.Settlement { return dbq.Released(l, 0) },
	}
}

// wantLost tries every call of a holder with a lease that is not valid any more.
func (t *T) wantLost(when string, q *dbq.Queue, l dbq.Lease) {
	before := t.get(q.Client(), l.Task)
	for name, ending := range endings() {
		out, err := q.Settle(t.ctx, []dbq.Settlement{ending(l)})
		t.Must(err)
		t.WantErr(name+" "+when, out[0].Err, dbq.ErrLeaseLost)
		t.wantUnchanged(name+" "+when, q.Client(), before)
	}
	_, err := q.Extend(t.ctx, l, long)
	t.WantErr("extend "+when, err, dbq.ErrLeaseLost)
	t.wantUnchanged("extend "+when, q.Client(), before)
}

func leaseExpired(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{Payload: []byte("x")})
	first := t.abandon(q)
	second := t.takeOver(t.Open().Queue("q"), id, long)
	if second.Attempt != first.Attempt+1 || second.Fence <= first.Fence || string(second.Payload) != "x" {
		t.Errorf("after %s got %s, want one attempt more and a higher fence", show(first), show(second))
	}
	t.wantNone("the task is leased again", q)
}

func leaseStaleSettle(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	t.wantLost("after the task was taken over", q, old.Lease)
	for call, err := range map[string]error{
		"Complete":          q.Complete(t.ctx, old.Lease, nil),
		"CompleteAndDelete": q.CompleteAndDelete(t.ctx, old.Lease),
		"Fail":              q.Fail(t.ctx, old.Lease, dbq.RetryIn(0), errBoom),
		"Poison":            q.Poison(t.ctx, old.Lease, errBoom),
		"Release":           q.Release(t.ctx, old.Lease, 0),
	} {
		t.WantErr(call+" after the task was taken over", err, dbq.ErrLeaseLost)
	}
	lost, err := q.CompleteMany(t.ctx, []dbq.Lease{old.Lease})
	if err != nil || len(lost) != 1 {
		t.Errorf("CompleteMany: got lost %v and error %v, want the lease lost", lost, err)
	}
	t.wantState(c, id, dbq.StateProcessing)
}

func leaseStaleExtend(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	before := t.get(c, id)
	_, err := q.Extend(t.ctx, old.Lease, 2*long)
	t.WantErr("extend by the old holder", err, dbq.ErrLeaseLost)
	t.wantUnchanged("extend by the old holder", c, before)
}

func leaseExtend(t *T) {
	c := t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, time.Minute)
	firstEnd := t.get(c, task.ID).LeaseUntil
	renewed, err := q.Extend(t.ctx, task.Lease, long)
	t.Must(err)
	row := t.get(c, task.ID)
	if !row.LeaseUntil.After(firstEnd.Add(time.Minute)) || row.Fence != task.Fence || row.Attempt != 1 || row.State != dbq.StateProcessing {
		t.Errorf("after an extension to an hour got %s, want a lease far beyond %v under fence %d", show(row), firstEnd, task.Fence)
	}
	if renewed.Fence != task.Lease.Fence || renewed.Task != task.ID || !renewed.Until.After(task.Lease.Until) {
		t.Errorf("extend returned %+v for %+v, want the same fence and a later end", renewed, task.Lease)
	}
	// One that had run out, and is extended before anybody takes it over, keeps others out just so.
	other := t.takeNew(q, dbq.NewTask{}, short)
	t.ranOut(c, other.ID)
	_, err = q.Extend(t.ctx, other.Lease, long)
	t.Must(err)
	t.wantNone("both leases were extended to an hour", t.Open().Queue("q"))
	t.Must(q.Complete(t.ctx, task.Lease, nil)) // the lease as it was before the extension is as good
}

func leaseExtendSame(t *T) {
	q := t.Open().Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	for range 30 { // several within one millisecond of a coarse clock
		if _, err := q.Extend(t.ctx, task.Lease, long); err != nil {
			t.Fatalf("extend by the same time again: %v", err)
		}
	}
}

// newLeases enqueues n tasks and leases them for a minute.
func (t *T) newLeases(q *dbq.Queue, n int) []dbq.Lease {
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

func leaseExtendMany(t *T) {
	c := t.Open()
	q := c.Queue("q")
	n := min(2*t.statements().Extend.Max+1, 3000)
	leases := t.newLeases(q, n)
	t.Must(q.Complete(t.ctx, leases[0], nil))
	t.Must(c.Revoke(t.ctx, leases[n-1].Task))
	leases[n/2].Fence++
	lostAt := []int{0, n / 2, n - 1}
	renewed, lost, err := q.ExtendMany(t.ctx, leases, long)
	t.Must(err)
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

func leaseLate(t *T) {
	c := t.Open()
	q := c.Queue("q")
	for name, ending := range endings() {
		task := t.takeNew(q, dbq.NewTask{}, short)
		t.ranOut(c, task.ID)
		out, err := q.Settle(t.ctx, []dbq.Settlement{ending(task.Lease)})
		if err != nil || out[0].Err != nil {
			t.Errorf("%s after the lease ran out: got %v and error %v, want success", name, out, err)
		}
		if _, err := c.OperateMany(t.ctx, dbq.Operation{Event: state.Reject}, dbq.Filter{Queue: "q", Limit: 10}); err != nil { // out of the next one's way
			t.Fatalf("reject: %v", err)
		}
		_, err = c.QuarantineMany(t.ctx, dbq.Filter{Queue: "q", Limit: 10})
		t.Must(err)
	}
}

func leaseSpentByExpiry(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 3})
	t.abandon(q)
	for attempt := 2; attempt <= 3; attempt++ {
		if task := t.takeOver(q, id, short); task.Attempt != attempt {
			t.Errorf("got attempt %d, want %d", task.Attempt, attempt)
		}
		t.ranOut(c, id)
	}
	t.eventually("a checkout moves the task to POISON", func() bool {
		t.wantNone("the task's attempts are spent", q)
		return t.get(c, id).State == dbq.StatePoison
	})
	row := t.get(c, id)
	if row.Attempt != 3 || !row.Due.IsZero() || !row.LeaseUntil.IsZero() {
		t.Errorf("got %s, want 3 attempts, no due time and no lease", show(row))
	}
	t.wantNone("the task is POISON", t.Open().Queue("q"))
}

func leaseSpentByFail(t *T) {
	c := t.Open()
	q := c.Queue("q")
	for name, retry := range map[string]dbq.Retry{"at once": dbq.RetryIn(0), "later": dbq.RetryIn(long), "at a time": dbq.RetryAt(t.now(c).Add(long))} {
		id := t.enqueue(q, dbq.NewTask{MaxAttempts: 2})
		first := t.take(q, long)
		out, err := q.Settle(t.ctx, []dbq.Settlement{dbq.Failed(first.Lease, dbq.RetryIn(0), errBoom)})
		t.Must(err)
		if out[0].State != dbq.StateError {
			t.Errorf("the first of two attempts failed, to be retried: got %v, want %v", out[0].State, dbq.StateError)
		}
		last := t.take(q, long)
		out, err = q.Settle(t.ctx, []dbq.Settlement{dbq.Failed(last.Lease, retry, errBoom)})
		t.Must(err)
		row := t.wantState(c, id, dbq.StatePoison)
		if out[0].State != dbq.StatePoison || !row.Due.IsZero() || string(row.Result) != "boom" {
			t.Errorf("failed on the last attempt, to be retried %s: told %v, got %s; want POISON, no due time, and the error", name, out[0].State, show(row))
		}
	}
	parked := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, long)
	t.Must(q.Fail(t.ctx, parked.Lease, dbq.Park, errBoom))
	if row := t.get(c, parked.ID); !row.Parked() {
		t.Errorf("parked on the last attempt: got %s, want it parked for an operator", show(row))
	}
}

func leaseRelease(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 1})
	for range 5 {
		task := t.take(q, long)
		if task.Attempt != 1 {
			t.Errorf("got attempt %d, want 1 each time", task.Attempt)
		}
		t.Must(q.Release(t.ctx, task.Lease, 0))
		if row := t.wantState(c, id, dbq.StateCreated); row.Attempt != 0 {
			t.Errorf("after the release %d attempts count, want 0", row.Attempt)
		}
	}
	task := t.take(q, long)
	t.Must(q.Release(t.ctx, task.Lease, long))
	t.wantNone("released for an hour", q)
}

func leaseRevoked(t *T) {
	c := t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	t.Must(c.Revoke(t.ctx, task.ID))
	t.wantLost("after the revoke", q, task.Lease)
	t.Must(c.Reenqueue(t.ctx, task.ID))
	t.wantLost("after revoke and reenqueue", q, task.Lease)
	again := t.take(q, long)
	t.wantLost("after revoke, reenqueue and a checkout", q, task.Lease)
	t.Must(q.Complete(t.ctx, again.Lease, nil))
	t.wantLost("after the new holder completed", q, task.Lease)
}

func leaseHolder(t *T) {
	a, b := t.Open(dbq.WithName("Ännie")), t.Open(dbq.WithName("bert"))
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
	t.Must(b.Queue("q").Fail(t.ctx, task.Lease, dbq.Park, errBoom))
	want("bert", t.get(a, id).Holder)
}

func leaseUntil(t *T) {
	c := t.Open()
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
	t.Must(err)
	check("extend", l)
}
