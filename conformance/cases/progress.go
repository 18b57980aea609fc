package cases

import (
	"bytes"
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// progressCases are about the progress that a lease's holder reports, for operators and for the next attempt.
func progressCases() []Case {
	return inGroup("Progress",
		Case{Name: "IsVisibleWhileTheTaskRuns", run: progressSeen,
			Law: "Get and List show the progress that Extend has stored, at once, and an Extend without progress keeps it."},
		Case{Name: "SurvivesTakeover", run: progressTakeover,
			Law: "A checkout that takes a task over, or finds its attempts exhausted, has the expired attempt's progress."},
		Case{Name: "SurvivesRetry", run: progressRetry,
			Law: "The attempt after one that failed has its progress: what Extend has stored, or what the settlement brings."},
		Case{Name: "SurvivesRelease", run: progressRelease,
			Law: "The attempt after one that was released has its progress."},
		Case{Name: "SurvivesOperators", run: progressOperators,
			Law: "A task that an operator takes from its worker and reenqueues has the progress of the attempt."},
		Case{Name: "LostLeaseCannotWrite", run: progressLost,
			Law: "A worker with an outdated fence changes no progress."},
		Case{Name: "EndsWithTheTask", run: progressEnds,
			Law: "A completed task has no progress, and nothing of it is left."},
		Case{Name: "InBatches", run: progressBatch,
			Law: "Calls for many leases store and keep the progress of each."},
		Case{Name: "TooLong", run: progressTooLong,
			Law: "Progress is stored byte by byte up to MaxProgress, and longer progress is refused with ErrProgress."},
		Case{Name: "AtEveryIsolationLevel", Once: true, run: progressLevels,
			Law: "A settlement in a caller's transaction keeps the progress that it brings at every isolation level, whatever " +
				"was renewed since it began."},
	)
}

// report extends a lease with progress, and returns it.
func (t *test) report(q *dbq.Queue, l dbq.Lease, progress string) dbq.Lease {
	l.Progress = []byte(progress)
	return must(q.Extend(t.ctx, l, long))
}

// wantProgress records a failure unless the task has the progress, in Get and in List.
func (t *test) wantProgress(what string, c *dbq.Client, id uuid.UUID, want string) {
	for by, got := range map[string][]byte{"Get": t.get(c, id).Progress, "List": t.listed(c, id).Progress} {
		t.failIf(string(got) != want || want == "" && got != nil,
			"%s: the progress is %q in %s, want %q", what, got, by, want)
	}
}

// listed returns a task as List does.
func (t *test) listed(c *dbq.Client, id uuid.UUID) (task dbq.Task) {
	for _, row := range t.list(c, admin.Filter{}) {
		if row.ID == id {
			task = row
		}
	}
	return task
}

// wantResumed takes the only due task, and records a failure unless it has the progress.
func (t *test) wantResumed(what string, q *dbq.Queue, want string) dbq.Task {
	task := t.take(q, long)
	t.failIf(string(task.Progress) != want, "%s: the checkout has the progress %q, want %q", what, task.Progress, want)
	t.wantProgress(what, q.Client(), task.ID, want)
	return task
}

func progressSeen(t *test) {
	c, other := t.open(), t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	t.failIf(task.Progress != nil, "a new task has the progress %q, want nil", task.Progress)
	t.wantProgress("before", other, task.ID, "")
	l := t.report(q, task.Lease, "10 of 30")
	t.wantProgress("after the first report", other, task.ID, "10 of 30")
	t.report(q, task.Lease, "20 of 30")
	t.wantProgress("after the second report", other, task.ID, "20 of 30")
	l.Progress = nil
	must(q.Extend(t.ctx, l, long))
	l.Progress = []byte{}
	must(q.Extend(t.ctx, l, long))
	t.wantProgress("after renewals without progress", other, task.ID, "20 of 30")
}

// expireNow lets a lease expire.
func (t *test) expireNow(q *dbq.Queue, l dbq.Lease) {
	l.Progress = nil
	must(q.Extend(t.ctx, l, short))
	t.awaitExpiry(q.Client(), l.TaskID)
}

func progressTakeover(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{MaxAttempts: 50}, long)
	t.expireNow(q, t.report(q, task.Lease, "one"))
	task = t.takeOver(q, task.ID, long)
	want := func(what, progress string) {
		t.failIf(string(task.Progress) != progress,
			"%s: the checkout has the progress %q, want %q", what, task.Progress, progress)
		t.wantProgress(what, c, task.ID, progress)
	}
	want("taken over", "one")
	t.expireNow(q, task.Lease)
	task = t.takeOver(q, task.ID, short) // which no renewal follows
	want("taken over again, without a report", "one")
	t.awaitExpiry(c, task.ID)
	task = t.takeOver(q, task.ID, long)
	want("taken over for the third time", "one")
	t.expireNow(q, t.report(q, task.Lease, "two"))
	task = t.takeOver(q, task.ID, long)
	want("taken over after another report", "two")
	t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
	task = t.wantResumed("after a release", q, "two")
	t.report(q, task.Lease, "of an earlier lease")
	task.Lease.Progress = []byte("three")
	t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0))) // which does not know of the renewal
	task = t.take(q, short)
	t.awaitExpiry(c, task.ID)
	task = t.takeOver(q, task.ID, long)
	want("taken over after a release", "three")
	t.must(q.Complete(t.ctx, task.Lease, nil))
	t.wantProgress("completed", c, task.ID, "")

	last := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, long)
	t.expireNow(q, t.report(q, last.Lease, "half"))
	t.awaitExhausted(q, last.ID)
	t.wantProgress("exhausted", c, last.ID, "half")
	t.operate(c, admin.Reenqueue, last.ID)
	t.wantResumed("reenqueued", q, "half")
}

// waysToReport are the ways to end an attempt with the progress "now".
func (t *test) waysToReport(q *dbq.Queue) map[string]func(l dbq.Lease, o dbq.Outcome) {
	return map[string]func(l dbq.Lease, o dbq.Outcome){
		"with the renewed lease": func(l dbq.Lease, o dbq.Outcome) { t.must(q.Settle(t.ctx, t.report(q, l, "now"), o)) },
		"with the lease of the checkout": func(l dbq.Lease, o dbq.Outcome) {
			t.report(q, l, "now")
			t.must(q.Settle(t.ctx, l, o))
		},
		"with the settlement": func(l dbq.Lease, o dbq.Outcome) {
			l = t.report(q, l, "before")
			l.Progress = []byte("now")
			t.must(q.Settle(t.ctx, l, o))
		},
		"with the settlement alone": func(l dbq.Lease, o dbq.Outcome) {
			l.Progress = []byte("now")
			t.must(q.Settle(t.ctx, l, o))
		},
		"in a transaction": func(l dbq.Lease, o dbq.Outcome) {
			l = t.report(q, l, "now")
			t.inTx(q.Client(), func(tx *sql.Tx) error { return q.SettleTx(t.ctx, tx, l, o) })
		},
	}
}

func (t *test) progressAfter(outcomes map[string]dbq.Outcome) {
	c, q := t.openQueue()
	for name, o := range outcomes {
		for by, end := range t.waysToReport(q) {
			what := name + " " + by
			task := t.takeNew(q, dbq.NewTask{}, long)
			end(task.Lease, o)
			t.wantProgress(what, c, task.ID, "now")
			if now := t.get(c, task.ID); now.Ended() {
				t.operate(c, admin.Reenqueue, task.ID)
			}
			task = t.wantResumed(what, q, "now")
			t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom)))
			task = t.wantResumed(what+", and one without a report", q, "now")
			t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted()))
		}
	}
}

func progressRetry(t *test) {
	t.progressAfter(map[string]dbq.Outcome{
		"retried": dbq.RetryIn(0, errBoom), "parked": dbq.Parked(errBoom), "poisoned": dbq.Poisoned(errBoom),
	})
}

func progressRelease(t *test) {
	t.progressAfter(map[string]dbq.Outcome{"released": dbq.Released(0)})
}

func progressOperators(t *test) {
	c, q := t.openQueue()
	for _, op := range []state.Event{admin.Revoke, admin.Cancel} {
		for _, renewed := range []bool{true, false} { // under the last fence
			task := t.takeNew(q, dbq.NewTask{}, long)
			t.must(q.Settle(t.ctx, t.report(q, task.Lease, "now"), dbq.Released(0)))
			task = t.take(q, long)
			if renewed {
				t.report(q, task.Lease, "later")
			}
			want := map[bool]string{true: "later", false: "now"}[renewed]
			t.operate(c, op, task.ID)
			t.wantProgress(string(op), c, task.ID, want)
			t.operate(c, admin.Reenqueue, task.ID)
			task = t.wantResumed(string(op)+" and reenqueue", q, want)
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
	}
}

func progressLost(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{}, long)
	old := t.report(q, task.Lease, "old")
	t.expireNow(q, old)
	task = t.takeOver(q, task.ID, long)
	late := func(what, want string) {
		old.Progress = []byte("late")
		_, err := q.Extend(t.ctx, old, long)
		t.wantErr(what, err, dbq.ErrLeaseLost)
		t.wantErr(what, q.Settle(t.ctx, old, dbq.RetryIn(0, errBoom)), dbq.ErrLeaseLost)
		t.wantProgress(what, c, task.ID, want)
	}
	late("after a takeover", "old")
	l := t.report(q, task.Lease, "new")
	late("after a report of the new holder", "new")
	t.must(q.Settle(t.ctx, l, dbq.RetryIn(0, errBoom)))
	late("after a settlement", "new")
	old = l
	late("under the fence of the settlement", "new")
	task = t.wantResumed("after late reports", q, "new")
	t.must(q.Complete(t.ctx, task.Lease, nil))
	old = task.Lease
	late("after the completion", "")
}

func progressEnds(t *test) {
	c, q := t.openQueue()
	const n = 20 // rows that share most values may have another statement
	for _, end := range []func(ls []dbq.Lease){
		func(ls []dbq.Lease) { t.must(q.Complete(t.ctx, ls[0], nil)) },
		func(ls []dbq.Lease) { t.must(q.Complete(t.ctx, ls[0], []byte("result"))) },
		func(ls []dbq.Lease) {
			t.inTx(c, func(tx *sql.Tx) error { return q.CompleteTx(t.ctx, tx, ls[0], nil) })
		},
		func(ls []dbq.Lease) {
			lost := must(completeAll(t.ctx, q, ls))
			t.failIf(len(lost) > 0, "%d leases are lost", len(lost))
		},
	} {
		tasks := t.takeAll(q, n, long)
		ls := make([]dbq.Lease, len(tasks))
		for i, task := range tasks {
			ls[i] = task.Lease
			ls[i].Progress = []byte("before")
		}
		must(q.SettleMany(t.ctx, allTo(dbq.Released(0), ls...))) // the tasks' rows have it
		for i, task := range t.checkout(q, n, long) {
			ls[i] = task.Lease
			ls[i].Progress = []byte("now")
		}
		ls, lost, err := q.ExtendMany(t.ctx, ls, long)
		t.must(err)
		t.failIf(len(lost) > 0, "%d leases are lost", len(lost))
		end(ls)
		for _, task := range t.list(c, admin.Filter{}) {
			t.failIf(task.State != dbq.StateProcessing && task.Progress != nil,
				"%v task %s has the progress %q, want nil", task.State, task.ID, task.Progress)
		}
		t.wantProgress("completed", c, ls[0].TaskID, "")
		must(q.SettleMany(t.ctx, allTo(dbq.Deleted(), ls...))) // those that are left
	}
	id := dbq.NewID()
	task := t.takeNew(q, dbq.NewTask{ID: id}, long)
	t.report(q, task.Lease, "an earlier life")
	t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted())) // which does not know of the renewal
	task = t.takeNew(q, dbq.NewTask{ID: id}, long)
	t.failIf(task.Progress != nil, "a task whose id is used again has the progress %q, want nil", task.Progress)
	must(q.Extend(t.ctx, task.Lease, long))
	t.wantProgress("in a later life", c, id, "")
}

func progressTooLong(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{}, long)
	most := make([]byte, dbq.MaxProgress)
	for i := range most {
		most[i] = byte(i)
	}
	l := t.report(q, task.Lease, string(most))
	t.wantProgress("the most", c, task.ID, string(most))
	l.Progress = make([]byte, dbq.MaxProgress+1)
	for what, call := range map[string]func() error{
		"Extend":     func() error { _, err := q.Extend(t.ctx, l, long); return err },
		"ExtendMany": func() error { _, _, err := q.ExtendMany(t.ctx, []dbq.Lease{task.Lease, l}, long); return err },
		"Settle":     func() error { return q.Settle(t.ctx, l, dbq.RetryIn(0, errBoom)) },
	} {
		err := call()
		t.wantErr(what, err, dbq.ErrProgress)
		t.wantErr(what, err, dbq.ErrInvalid)
	}
	t.wantState(c, task.ID, dbq.StateProcessing)
	t.wantProgress("after refused calls", c, task.ID, string(most))
	l.Progress = most
	t.must(q.Settle(t.ctx, l, dbq.RetryIn(0, errBoom)))
	t.wantResumed("the most, by a settlement", q, string(most))
}

func progressBatch(t *test) {
	c, q := t.openQueue()
	const n = 600 // more than most engines take in one statement
	ids := t.enqueueMany(q, n, nil)
	long4000 := string(bytes.Repeat([]byte("x"), dbq.MaxProgress-10))
	want := map[uuid.UUID]string{}
	ls := make([]dbq.Lease, 0, n)
	for i, task := range t.checkout(q, n, long) {
		l := task.Lease
		if i%3 > 0 {
			want[l.TaskID] = fmt.Sprintf("%d %s", i, long4000[:i%2*(dbq.MaxProgress-10)])
			l.Progress = []byte(want[l.TaskID])
		}
		ls = append(ls, l)
	}
	check := func(what string) {
		for _, task := range t.list(c, admin.Filter{Queue: "q"}) {
			if string(task.Progress) != want[task.ID] {
				t.Fatalf("%s: a task has %d bytes of progress, want %d", what, len(task.Progress), len(want[task.ID]))
			}
		}
	}
	renewed, lost, err := q.ExtendMany(t.ctx, ls, long)
	t.must(err)
	if len(renewed) != n || len(lost) > 0 {
		t.Fatalf("%d leases are renewed and %d lost, want %d renewed", len(renewed), len(lost), n)
	}
	check("after the renewal")
	ss := make([]dbq.Settlement, n)
	for i, l := range ls { // the leases of the checkout
		if l.Progress = nil; i%5 == 0 {
			want[l.TaskID] = "with the settlement"
			l.Progress = []byte(want[l.TaskID])
		}
		ss[i] = dbq.Settlement{Lease: l, Outcome: dbq.RetryIn(0, errBoom)}
	}
	t.settleAll(q, ss)
	check("after the settlement")
	for _, task := range t.checkout(q, len(ids), long) {
		if string(task.Progress) != want[task.ID] {
			t.Fatalf("the next checkout has %d bytes of progress, want %d", len(task.Progress), len(want[task.ID]))
		}
	}
}

func progressLevels(t *test) {
	c, other := t.open(), t.open()
	q, beats := c.Queue("q"), other.Queue("q")
	side := t.sideTable(c)
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable} {
		t.Logf("at level %v", level)
		task := t.takeNew(q, dbq.NewTask{}, long)
		tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Logf("no transactions: %v", err)
			t.must(q.Complete(t.ctx, task.Lease, nil))
			continue
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		t.rows(tx, side) // its snapshot
		l := task.Lease
		if !c.Info().Server.OneWriter { // on which a renewal waits
			t.report(beats, l, "renewed")
		}
		l.Progress = []byte("now")
		t.must(q.SettleTx(t.ctx, tx, l, dbq.RetryIn(0, errBoom)))
		t.must(tx.Commit())
		task = t.wantResumed(fmt.Sprint("after a transaction at ", level), q, "now")
		t.must(q.Complete(t.ctx, task.Lease, nil))
	}
}
