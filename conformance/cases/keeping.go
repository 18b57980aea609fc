package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// keepingCases are about the history of attempts, and the retention of tasks that have ended.
func keepingCases() []Case {
	return inGroup("Keeping",
		Case{Name: "AttemptsRoundTrip", Once: true, run: keepingAttempts,
			Law: "Recorded attempts are returned in order with every field, and recording them again changes nothing."},
		Case{Name: "TakeoverReportsCrash", run: keepingTakenOver,
			Law: "A checkout that takes a task over reports which attempt crashed, which client made it, and when."},
		Case{Name: "EveryAttemptIsRecorded", run: historyOfATask,
			Law: "All attempts of a task are known as soon as they have ended, however they ended: the last one by the task's " +
				"row, those before it by the history."},
		Case{Name: "CleanRemovesWhatIsOld", Once: true, run: keepingClean,
			Law: "Cleaning removes a queue's ended tasks that are older than their state's retention, and nothing else."},
		Case{Name: "CleanFindsWhatEndsLate", Once: true, run: keepingLate,
			Law: "A task that ends after cleaning has passed it is removed at most a quarter of its retention late."},
		Case{Name: "ArchiveKeepsEverything", Once: true, run: keepingArchive,
			Law: "Cleaning into the archive keeps every column of a task, even when it is repeated or interrupted."},
		Case{Name: "WhatStaysIsCounted", Once: true, run: keepingCounted,
			Law: "Archived tasks and audit entries, which stay until removed by hand, are counted, up to a limit."},
		Case{Name: "ArchiveKeepsEachTaskOfAnID", Once: true, run: keepingArchiveOfID,
			Law: "If an id is used again after its task was archived, the archive keeps both tasks, and pages list each once."},
		Case{Name: "CleanManyBatches", Once: true, run: keepingManyBatches,
			Law: "Cleaning takes as many batches as it needs, and several clients may clean at once."},
		Case{Name: "CleanBesideWorkers", Slow: true, Once: true, Alone: true, run: keepingBesideWorkers,
			Law: "Cleaning beside busy workers removes no task that has not ended, and makes no call of theirs fail."},
	)
}

// record adds attempts to the history.
func (t *test) record(q *dbq.Queue, as ...dbq.Attempt) {
	rows := make([]sqlrun.AttemptRow, len(as))
	for i, a := range as {
		rows[i] = sqlrun.AttemptRow{Task: a.TaskID, Attempt: int64(a.Number), Fence: a.Fence, Outcome: string(a.Outcome),
			Taken: a.Taken.UnixMicro(), Ended: a.Ended.UnixMicro(), Worker: a.Worker, Error: []byte(a.Error)}
	}
	t.must(access.Of(q.Client()).Store.Record(t.ctx, q.Name(), rows))
}

func keepingAttempts(t *test) {
	c, q := t.openQueue()
	id, other := dbq.NewID(), dbq.NewID()
	at := time.Date(2026, 3, 29, 1, 59, 59, 123456000, time.UTC)
	want := []dbq.Attempt{
		{TaskID: id, Queue: "q", Number: 1, Fence: 1, Outcome: dbq.AttemptFailed, Taken: at, Ended: at.Add(time.Second),
			Worker: "wörker 1", Error: "no \xff' \"mail\""},
		{TaskID: id, Queue: "q", Number: 2, Fence: 2, Outcome: dbq.AttemptReleased, Taken: at, Ended: at, Worker: "w"},
		{TaskID: id, Queue: "q", Number: 2, Fence: 3, Outcome: dbq.AttemptCrashed, Taken: at, Ended: at.Add(time.Hour),
			Worker: ""},
		{TaskID: id, Queue: "q", Number: 3, Fence: 4, Outcome: dbq.AttemptPoisoned, Taken: at, Ended: at, Worker: "w",
			Error: "x"},
	}
	t.record(q, want[2],
		dbq.Attempt{TaskID: other, Number: 1, Fence: 1, Outcome: dbq.AttemptCompleted, Taken: at, Ended: at}, want[0])
	t.record(q, want[3], want[1], want[0])
	changed := want[0]
	changed.Error, changed.Outcome = "another story", dbq.AttemptCompleted
	t.record(q, changed)
	t.record(q)
	got := t.attemptsOf(t.open(), id)
	t.failIf(fmt.Sprint(got) != fmt.Sprint(want), "got  %v\nwant %v", got, want)
	if got := t.attemptsOf(c, dbq.NewID()); len(got) != 0 {
		t.Errorf("a task without history has %v", got)
	}
	long := want[0]
	long.Fence, long.Error = 9, strings.Repeat("é", dbq.MaxResult)
	t.record(q, long)
	if got := t.attemptsOf(c, id); len(got) != 5 || len(got[4].Error) > dbq.MaxResult {
		t.Errorf("a long error was not cut to %d bytes", dbq.MaxResult)
	}
}

func keepingTakenOver(t *test) {
	c, q := t.openQueue(dbq.WithName("the first"))
	before := t.now(c)
	first := t.takeNew(q, dbq.NewTask{MaxAttempts: 2}, short)
	t.failIf(first.TakenOver != nil, "a new task was taken over from %+v", first.TakenOver)
	row := t.get(c, first.ID)
	t.awaitExpiry(c, first.ID)
	second := t.takeOver(t.open(dbq.WithName("the second")).Queue("q"), first.ID, short)
	was := second.TakenOver
	if was == nil {
		t.Fatalf("the checkout does not report that it took the task over")
	}
	if was.TaskID != first.ID || was.Queue != "q" || was.Number != 1 || was.Fence != first.Fence ||
		was.Outcome != dbq.AttemptCrashed ||
		was.Worker != c.Info().ID || !strings.HasPrefix(row.Holder, was.Worker+"#") || !was.Taken.Equal(row.Updated) ||
		!was.Ended.Equal(row.LeaseUntil) || was.Taken.Before(before.Add(-time.Second)) {
		t.Errorf("got %+v of a task that was %+v", was, row)
	}
	for _, worker := range []string{"mail/1", strings.Repeat("😀", dbq.MaxWorkerID), c.Info().ID + "/7", "#"} {
		q := access.ForWorker(c.Queue(fmt.Sprintf("of %d", len(worker))), worker)
		id := t.takeNew(q, dbq.NewTask{}, short).ID
		t.awaitExpiry(c, id)
		if task := t.takeOver(q, id, long); task.TakenOver == nil || task.TakenOver.Worker != worker {
			t.Errorf("a task of the worker %q was taken over from %+v", worker, task.TakenOver)
		}
		t.operate(c, admin.Revoke, id)
		as := t.attemptsOf(c, id)
		t.failIf(len(as) != 2 || as[0].Worker != worker || as[1].Worker != worker,
			"a task of the worker %q was revoked, and the history has %+v", worker, as)
	}
	_, err := access.ForWorker(c.Queue("q"), strings.Repeat("x", dbq.MaxWorkerID+1)).Checkout(t.ctx, 1, long)
	t.wantErr("a worker's id that is too long", err, dbq.ErrOption)
	if got := t.attemptsOf(c, first.ID); fmt.Sprint(got) != fmt.Sprint([]dbq.Attempt{*was}) {
		t.Errorf("the history has %v, want what the checkout reported: %v", got, *was)
	}
}

// tasksToKeepAndClean puts tasks of every state into a queue: completed, poisoned, parked, and living ones that have
// not ended.
func (t *test) tasksToKeepAndClean(q *dbq.Queue) (completed, poison, parked uuid.UUID, living []uuid.UUID) {
	settle := func(o dbq.Outcome, nt dbq.NewTask) uuid.UUID { return t.settleNew(q, nt, o).ID }
	full := dbq.NewTask{Kind: "kïnd", Payload: []byte("\x00\xffpayload"), Priority: 3, MaxAttempts: 5,
		Headers: map[string]string{"k": "v"}}
	full.Reference = "completed"
	completed = settle(dbq.Completed([]byte("\xfe result")), full)
	full.Reference = "poison"
	poison = settle(dbq.Poisoned(errBoom), full)
	full.Reference = "parked"
	parked = settle(dbq.Parked(errBoom), full)
	living = []uuid.UUID{
		settle(dbq.RetryIn(long, errBoom), dbq.NewTask{}),
		t.takeNew(q, dbq.NewTask{}, long).ID,
		t.enqueue(q, dbq.NewTask{Delay: long}),
	}
	return completed, poison, parked, living
}

// awaitAge waits until a task has been in its state for longer than a duration.
func (t *test) awaitAge(c *dbq.Client, id uuid.UUID, while time.Duration) {
	task := t.get(c, id)
	t.eventually("the task is old enough",
		func() bool { return t.now(c).After(task.Updated.Add(while + 2*c.Info().Server.Precision)) })
}

func keepingClean(t *test) {
	const keep = 50 * time.Millisecond
	c := t.open()
	q, other := c.Queue("q"), c.Queue("other")
	completed, poison, parked, living := t.tasksToKeepAndClean(q)
	cancelled := t.enqueue(q, dbq.NewTask{Delay: long})
	t.operate(c, admin.Cancel, cancelled)
	kept := t.settleNew(other, dbq.NewTask{}, dbq.Completed(nil))
	t.record(q, dbq.Attempt{TaskID: completed, Number: 1, Fence: 1, Outcome: dbq.AttemptCompleted, Ended: t.now(c)})
	t.awaitAge(c, kept.ID, keep)
	clean := func(r dbq.Retention, tasks, attempts int) {
		done := t.clean(q, r)
		t.failIf(done != (admin.Cleaned{Tasks: tasks, Attempts: attempts}),
			"cleaning %+v did %+v, want %d tasks and %d attempts", r, done, tasks, attempts)
	}
	clean(dbq.Retention{}, 0, 0)
	clean(dbq.Retention{Completed: time.Hour, Poison: time.Hour, Cancelled: time.Hour, Parked: time.Hour,
		Attempts: time.Hour}, 0, 0)
	clean(dbq.Retention{Poison: keep}, 1, 0)
	t.wantGone(c, poison)
	t.get(c, cancelled)
	clean(dbq.Retention{Cancelled: keep}, 1, 0)
	t.wantGone(c, cancelled)
	t.wantAttempts(c, poison, "1 poisoned")
	t.get(c, completed)
	clean(dbq.Retention{Completed: keep, Parked: keep, Attempts: keep}, 2, 3)
	t.wantGone(c, completed)
	t.wantGone(c, parked)
	if left := t.attemptsOf(c, completed); len(left) != 0 {
		t.Errorf("the history still has %v", left)
	}
	for _, id := range append(living, kept.ID) {
		t.get(c, id)
	}
	_, err := admin.New(c).Clean(t.ctx, q.Name(), dbq.Retention{Completed: -1})
	t.wantErr("a negative retention", err, dbq.ErrOption)
}

func keepingLate(t *test) {
	const keep = 400 * time.Millisecond
	// so that cleaning passes the ids at once
	c, q := t.openQueue(access.WithClock(func() time.Time { return time.Now().Add(-time.Hour) }))
	early, late := t.takeNew(q, dbq.NewTask{}, long), t.takeNew(q, dbq.NewTask{}, long)
	t.must(q.Complete(t.ctx, early.Lease, nil))
	t.awaitAge(c, early.ID, keep)
	clean := func() int { return t.clean(q, dbq.Retention{Completed: keep}).Tasks }
	if n := clean(); n != 1 {
		t.Errorf("%d tasks were removed, want the one that had ended", n)
	}
	begin := time.Now()
	t.must(q.Complete(t.ctx, late.Lease, nil))
	n := clean()
	if soon := time.Since(begin) < keep; soon && n != 0 { // a loaded machine may need longer
		t.Errorf("%d tasks were removed before their time", n)
	}
	t.awaitAge(c, late.ID, keep+keep/4)
	if n += clean(); n != 1 {
		t.Errorf("%d tasks were removed, want the one that ended late", n)
	}
}

func keepingArchive(t *test) {
	const keep = 20 * time.Millisecond
	c, q := t.openQueue()
	completed, poison, parked, _ := t.tasksToKeepAndClean(q)
	var want []dbq.Task
	for _, id := range []uuid.UUID{completed, poison, parked} {
		task := t.get(c, id)
		task.Payload = nil // listings leave it out
		want = append(want, task)
	}
	t.awaitAge(c, parked, keep)
	cut, cancel := context.WithCancel(t.ctx)
	cancel()
	if done, err := admin.New(c).Clean(cut, q.Name(), dbq.Retention{Completed: keep, Archive: true}); err == nil ||
		done.Tasks != 0 {
		t.Errorf("a cancelled clean did %+v, %v", done, err)
	}
	all := dbq.Retention{Completed: keep, Poison: keep, Parked: keep, Archive: true}
	for _, want := range []int{3, 0} {
		done := t.clean(q, all)
		t.failIf(done.Tasks != want, "cleaned %+v, want %d tasks", done, want)
	}
	got := must(admin.New(c).Archived(t.ctx, admin.Filter{Queue: "q"})).Tasks
	t.failIf(fmt.Sprint(got) != fmt.Sprint(want), "the archive has %v\nwant %v", got, want)
	t.wantAttempts(c, completed, "1 completed")
	t.wantAttempts(c, poison, "1 poisoned")
	t.wantAttempts(c, parked, "1 failed")
	got = must(admin.New(c).Archived(t.ctx, admin.Filter{Queue: "q", States: []dbq.State{dbq.StatePoison}})).Tasks
	t.failIf(len(got) != 1 || got[0].ID != poison, "got %v, want the poison one", got)
	for _, task := range want { // the reference is free again
		t.wantGone(c, task.ID)
		t.enqueue(q, dbq.NewTask{Reference: task.Reference})
	}
}

func keepingManyBatches(t *test) {
	const n = 1234
	c, q := t.openQueue()
	t.enqueueMany(q, n, nil)
	for done := 0; done < n; {
		tasks := t.checkout(q, 500, long)
		ls := leasesOf(tasks)
		lost := must(completeAll(t.ctx, q, ls))
		done += len(ls) - len(lost)
	}
	last := t.list(c, admin.Filter{Queue: "q", Limit: n})
	t.awaitAge(c, last[len(last)-1].ID, time.Second)
	sums := make([]int, 3)
	t.concurrently(len(sums), func(ctx context.Context, i int) {
		sums[i] = must(admin.New(c).Clean(ctx, q.Name(), dbq.Retention{Completed: time.Millisecond})).Tasks
	})
	if sum := sums[0] + sums[1] + sums[2]; sum != n {
		t.Errorf("%v were cleaned, want %d in all", sums, n)
	}
}

func keepingBesideWorkers(t *test) {
	const n, workers = 600, 3
	c, q := t.openQueue()
	ids := t.enqueueMany(q, n, nil)
	stop := make(chan struct{})
	cleaned := make(chan int, 1)
	go func() {
		sum := 0
		defer func() { cleaned <- sum }()
		for {
			done, err := admin.New(c).Clean(t.ctx, q.Name(), dbq.Retention{Completed: time.Millisecond, Archive: true})
			if err != nil {
				t.Errorf("cleaning: %v", err)
				return
			}
			sum += done.Tasks
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	t.concurrently(workers, func(ctx context.Context, _ int) { t.completeUntilEmpty(ctx, t.open().Queue("q")) })
	close(stop)
	sum := <-cleaned
	left := len(t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateCompleted}, Limit: n}))
	archived := must(admin.New(c).Archived(t.ctx, admin.Filter{Queue: "q", Limit: n})).Tasks
	t.failIf(sum+left != len(ids) || len(archived) != sum,
		"of %d tasks %d were cleaned, %d are in the archive and %d are COMPLETED", len(ids), sum, len(archived), left)
}

// completeUntilEmpty completes tasks until three checkouts were empty.
func (t *test) completeUntilEmpty(ctx context.Context, q *dbq.Queue) {
	for empty := 0; empty < 3 && ctx.Err() == nil; {
		tasks := must(q.Checkout(ctx, 7, long))
		if len(tasks) == 0 {
			empty++
			time.Sleep(5 * time.Millisecond)
		}
		for _, task := range tasks {
			t.must(q.Complete(ctx, task.Lease, nil))
		}
	}
}

// wantAttempts compares the attempts of a task, each as its number and how it ended.
func (t *test) wantAttempts(c *dbq.Client, id uuid.UUID, want string) []dbq.Attempt {
	as := t.attemptsOf(c, id)
	var got []string
	for i, a := range as {
		got = append(got, fmt.Sprintf("%d %s", a.Number, a.Outcome))
		t.failIf(a.Worker != c.Info().ID || a.Queue == "" || a.Taken.IsZero() || a.Ended.Before(a.Taken),
			"%+v: want its queue, its worker, and when it began and ended", a)
		if i > 0 && a.Fence <= as[i-1].Fence {
			t.Errorf("%+v comes after %+v", a, as[i-1])
		}
	}
	t.failIf(strings.Join(got, ", ") != want, "the attempts are %q, want %q", strings.Join(got, ", "), want)
	return as
}

// historyOfATask ends the attempts of one task in every way but one, and reads them after each.
func historyOfATask(t *test) {
	c, q := t.openQueue()
	id := t.enqueue(q, dbq.NewTask{MaxAttempts: 5})
	want := ""
	then := func(attempt string) {
		if want != "" && attempt != "" {
			want += ", "
		}
		want += attempt
		t.wantAttempts(c, id, want)
	}
	take := func() dbq.Lease {
		then("")
		l := t.take(q, long).Lease
		then("") // one that has not ended is none
		return l
	}
	before := t.now(c)
	settle := func(o dbq.Outcome) { t.must(q.Settle(t.ctx, take(), o)) }
	settle(dbq.RetryIn(0, errBoom))
	then("1 failed")
	if a := t.wantAttempts(c, id, want)[0]; a.Error != "boom" || a.Taken.Before(before) || a.Ended.After(t.now(c)) {
		t.Errorf("got %+v, want its error, and the database's times", a)
	}
	release := func(opts access.SettleOptions) {
		out := must(q.SettleMany(t.ctx, []dbq.Settlement{access.Settlement(take(), dbq.Released(0), opts)}))
		t.must(out[0].Err)
	}
	release(access.SettleOptions{Cause: errBoom})
	then("2 released")
	if a := t.wantAttempts(c, id, want)[1]; a.Error != "boom" {
		t.Errorf("got %+v, want why it was released", a)
	}
	release(access.SettleOptions{Unrecorded: true})
	then("")
	first := t.take(q, short)
	t.awaitExpiry(c, first.ID)
	l := t.takeOver(q, id, long).Lease
	then("2 crashed")
	t.must(q.Settle(t.ctx, l, dbq.Parked(errBoom)))
	then("3 failed")
	for _, event := range []state.Event{admin.Quarantine, admin.Restore, admin.Reenqueue} {
		t.operate(c, event, id, admin.Reason("a law"))
		then("")
	}
	take()
	t.operate(c, admin.Revoke, id)
	then("1 revoked")
	t.operate(c, admin.Reenqueue, id)
	settle(dbq.Poisoned(errBoom))
	then("1 poisoned")
	t.operate(c, admin.Reenqueue, id)
	settle(dbq.Completed([]byte("no error")))
	then("1 completed")
	t.operate(c, admin.Purge, id)
	then("")
}

// wantEveryAttempt records a failure unless each fence of a task that still exists has its attempt, except for a
// running one. A revocation takes a fence without one, and so does a checkout that finds the attempts exhausted.
func (t *test) wantEveryAttempt(c *dbq.Client, task dbq.Task) {
	as := t.attemptsOf(c, task.ID)
	next := int64(1)
	switch chosen := task.Fence > 1e12; { // its producer chose the id, so that its fences begin at the clock
	case chosen && len(as) == 0 && task.Attempt <= 1:
		return
	case chosen && len(as) > 0:
		next = as[0].Fence
	}
	for _, a := range as {
		if a.Fence > next {
			break
		}
		next = a.Fence + 1
		exhausted := a.Outcome == dbq.AttemptCrashed && a.Number >= task.MaxAttempts
		if a.Outcome == dbq.AttemptRevoked || a.Outcome == dbq.AttemptCancelled || exhausted {
			next++
		}
	}
	if task.State == dbq.StateProcessing {
		next++
	}
	t.failIf(next <= task.Fence,
		"the attempt of task %s under fence %d of %d is not known: %+v", task.ID, next, task.Fence, as)
}

// keepingArchiveOfID archives three tasks of one id, one after the other, among others.
func keepingArchiveOfID(t *test) {
	const keep = 20 * time.Millisecond
	c := t.open()
	q, id := c.Queue("q"), dbq.NewID()
	want := []string{"first", "second", "third"}
	for _, round := range want {
		t.enqueue(q, dbq.NewTask{})
		t.enqueue(q, dbq.NewTask{ID: id})
		for _, task := range t.checkout(q, 10, long) {
			t.must(q.Complete(t.ctx, task.Lease, []byte(round)))
			t.awaitAge(c, task.ID, keep)
		}
		done := t.clean(q, dbq.Retention{Completed: keep, Archive: true})
		t.failIf(done.Tasks != 2, "%s: cleaned %+v, want 2 tasks", round, done)
	}
	archived := must(admin.New(c).Archived(t.ctx, admin.Filter{Queue: "q"})).Tasks
	var got []string
	for _, task := range archived {
		if task.ID == id {
			got = append(got, string(task.Result))
		}
	}
	t.failIf(len(archived) != 6 || !slices.Equal(got, want),
		"the archive has %d tasks, and %q of the id; want 6 and %q", len(archived), got, want)
	for size := 1; size < len(archived); size++ {
		paged := t.pages(admin.Filter{Queue: "q", Limit: size}, admin.New(c).Archived)
		t.failIf(!slices.EqualFunc(paged, archived, func(a, b dbq.Task) bool { return a.ID == b.ID && a.Fence == b.Fence }),
			"pages of %d have %d tasks, want the same as the list: %d", size, len(paged), len(archived))
	}
	t.wantAttempts(c, id, "1 completed, 1 completed, 1 completed")
}

func keepingCounted(t *test) {
	c, q := t.openQueue()
	ops := admin.New(c)
	const keep, n = time.Millisecond, 3
	for range n {
		t.settleNew(q, dbq.NewTask{}, dbq.Completed(nil))
	}
	t.eventually("the tasks are archived", func() bool {
		t.clean(q, dbq.Retention{Completed: keep, Archive: true})
		return must(ops.CountKept(t.ctx)).Archived == n
	})
	entries := must(ops.Audit(t.ctx, admin.AuditFilter{})).Entries
	t.must(ops.PauseQueue(t.ctx, "q"))
	t.must(ops.ResumeQueue(t.ctx, "q"))
	kept := must(ops.CountKept(t.ctx, admin.CountAll()))
	t.failIf(kept.Archived != n || kept.Audit != int64(len(entries))+2,
		"got %+v, want %d tasks and %d entries", kept, n, len(entries)+2)
	kept = must(ops.CountKept(t.ctx, admin.CountUpTo(1)))
	t.failIf(kept.Archived != 1 || kept.Audit != 1, "got %+v, want 1 of each", kept)
}
