package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// uniqueCases are the promises about unique keys.
func uniqueCases() []Case {
	return inGroup("Unique",
		Case{Name: "OnlyOneWaits", Once: true, run: uniqueOnlyOneWaits,
			Law: "A unique task is a duplicate while another with its key waits, also for a retry, but not once that starts."},
		Case{Name: "OnlyOneIsUnfinished", Once: true, run: uniqueOnlyOneUnfinished,
			Law: "A task that is unique until it ends is a duplicate while another one with its key waits or runs."},
		Case{Name: "KeyIsFreeWhenTheTaskEnds", Once: true, run: uniqueFreed,
			Law: "A key is free as soon as its task is completed, removed, poisoned, cancelled or parked."},
		Case{Name: "OneForEachPeriod", Once: true, run: uniqueByPeriod,
			Law: "Of the unique tasks due in a period, in UTC, only the first is added, even if it is removed meanwhile."},
		Case{Name: "OneInAWindow", Once: true, run: uniqueInWindow,
			Law: "Of the unique tasks that are enqueued within a window, the first is added, even if that task is removed or " +
				"is due later; after the window another one is."},
		Case{Name: "ReplacesTheWaitingTask", Once: true, run: uniqueReplace,
			Law: "UniqueReplace replaces the kind, key, payload, headers, priority and due time of a waiting task, clears " +
				"its progress and raises its fence, but keeps its identity, its attempts, and the time of its retry."},
		Case{Name: "DebouncePostponesTheDueTime", Once: true, run: uniqueDebounce,
			Law: "UniqueDebounce postpones a waiting task to the delay from now, never moves it earlier, keeps its payload."},
		Case{Name: "DoesNotChangeRunningOrEndedTasks", Once: true, run: uniqueNeverLeased,
			Law: "An enqueue with a key never changes a task that runs or has ended, whatever OnConflict says."},
		Case{Name: "KeysOfOtherScopesDoNotConflict", Once: true, run: uniqueApart,
			Law: "Equal keys of other queues, scopes, periods and windows do not conflict; keys are compared byte by byte."},
		Case{Name: "RollbackFreesTheKey", Once: true, run: uniqueRolledBack,
			Law: "When a transaction rolls back, its unique tasks' keys are free again, and tasks it changed are restored."},
		Case{Name: "TakenReferenceLeavesKeyFree", Once: true, run: uniqueReference,
			Law: "If a unique task's key is free and its reference is taken, it is a duplicate and its key stays free."},
		Case{Name: "SameKeyInOneCall", Once: true, run: uniqueInOneCall,
			Law: "The tasks of one call with the same key take effect one after the other, beside any number of others."},
		Case{Name: "ReturnedTaskBesideNewOne", Once: true, run: uniqueReturned,
			Law: "A task that returns to the queue after another has taken its key runs beside it; that one keeps the key."},
		Case{Name: "CleanRemovesOldKeys", Once: true, run: uniqueClean,
			Law: "Cleaning removes the expired keys of tasks that are completed or removed, and no key of one that can still " +
				"run, such as one in POISON, which an operator may reenqueue."},
		Case{Name: "RefusedEnqueueLeavesKeyFree", Once: true, run: refusedLeavesKeyFree,
			Law: "An enqueue refused because of its id takes no key, neither for a waiting task, nor a period or window."},
		Case{Name: "KeyIsOfItsQueue", Once: true, run: keyIsOfItsQueue,
			Law: "A key is of its queue alone: a task that moved to another queue neither has it nor is changed by it."},
		Case{Name: "IDOfAnotherQueue", Once: true, run: idOfAnotherQueue,
			Law: "An enqueue with the id of another queue's task is refused with ErrWrongQueue and adds none of its tasks, " +
				"and a caller's transaction stays usable."},
		Case{Name: "IDTakenMeanwhile", Once: true, run: idTakenMeanwhile,
			Law: "Of two concurrent enqueues of one id, one adds the task. The other reports a duplicate or, for another " +
				"queue, ErrWrongQueue; a transaction that cannot see the task may get ErrConflict. With an error it adds none of " +
				"its tasks, and a caller's transaction stays usable."},
		Case{Name: "OnlyOneIsAdded", Once: true, run: uniqueRace,
			Law: "Of many concurrent enqueues with one key, exactly one adds a task and the others get its id, whether the " +
				"key is new or that of a task that has ended."},
		Case{Name: "ConcurrentBatches", Once: true, run: uniqueMany,
			Law: "Concurrent batches with common keys, in any order, by any rules, all succeed and leave one task per key."},
		Case{Name: "OnlyOneRuns", run: uniqueOnlyOneRuns,
			Law: "Beside workers, two tasks with one key that is held until its task ends never run at the same time."},
		Case{Name: "ReplacedWhileCheckedOut", run: uniqueReplacedRace,
			Law: "If a task is replaced while a checkout leases it, the replacement still runs: as that task or as a new one."},
		Case{Name: "WaitsForTheTransaction", Once: true, run: uniqueWaits,
			Law: "An enqueue with a key that an open transaction took is a duplicate if that commits, else adds a task."},
		Case{Name: "DoesNotStartBeforeTheCommit", run: uniqueKeptTaskWaits,
			Law: "A waiting task that makes a transaction's enqueue a duplicate does not start before the transaction ends."},
		Case{Name: "AtEveryIsolationLevel", Once: true, run: uniqueLevels,
			Law: "At every isolation level, a transaction adds unique tasks by the state at its commit, or gets ErrConflict."},
		Case{Name: "CompleteAndEnqueueSuccessor", Once: true, run: uniqueSuccessor,
			Law: "A transaction can complete a task and enqueue its successor with its key while others enqueue it, too."},
	)
}

// pending, unfinished and the others are unique rules of one key.
func pending(key string) *dbq.Unique { return &dbq.Unique{Key: key} }

func unfinished(key string) *dbq.Unique {
	return &dbq.Unique{Key: key, While: dbq.UniqueUnfinished}
}

func replacing(key string) *dbq.Unique {
	return &dbq.Unique{Key: key, OnConflict: dbq.UniqueReplace}
}

func debouncing(key string) *dbq.Unique {
	return &dbq.Unique{Key: key, OnConflict: dbq.UniqueDebounce}
}

// enqueueOne enqueues a task by EnqueueMany, for its whole outcome.
func (t *test) enqueueOne(q *dbq.Queue, nt dbq.NewTask) dbq.Enqueued {
	return must(q.EnqueueMany(t.ctx, []dbq.NewTask{nt}))[0]
}

// wantDuplicate records a failure unless a task is a duplicate of another one.
func (t *test) wantDuplicate(when string, q *dbq.Queue, nt dbq.NewTask, of uuid.UUID) {
	id, err := q.Enqueue(t.ctx, nt)
	t.wantErr(when, err, dbq.ErrDuplicate)
	t.failIf(id != of, "%s: the id is %s, want that of the task with the key, %s", when, id, of)
}

func uniqueOnlyOneWaits(t *test) {
	c, q := t.openQueue()
	nt := dbq.NewTask{Payload: []byte("1"), Unique: pending("k")}
	first := t.enqueue(q, nt)
	before := t.get(c, first)
	t.wantDuplicate("while it is due", q, nt, first)
	t.wantUnchanged("the duplicate", c, before)
	task := t.take(q, long)
	t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom)))
	t.wantDuplicate("while it waits for a retry", q, nt, first)
	t.take(q, long)
	second := t.enqueue(q, nt)
	t.wantDuplicate("while the second one waits", q, nt, second)
	t.enqueue(q, dbq.NewTask{Unique: pending("other")})
}

func uniqueOnlyOneUnfinished(t *test) {
	q := t.open().Queue("q")
	nt := dbq.NewTask{Unique: unfinished("k")}
	first := t.enqueue(q, nt)
	t.wantDuplicate("while it waits", q, nt, first)
	task := t.take(q, long)
	t.wantDuplicate("while it runs", q, nt, first)
	t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
	t.wantDuplicate("while it is released", q, nt, first)
	task = t.take(q, long)
	t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errBoom)))
	t.wantDuplicate("while it waits for a retry", q, nt, first)
}

func uniqueFreed(t *test) {
	c := t.open()
	ops := admin.New(c)
	freed := func(how string, end func(q *dbq.Queue, task dbq.Task) error) {
		q := c.Queue(how)
		for _, u := range []*dbq.Unique{pending("k"), unfinished("k")} {
			nt := dbq.NewTask{Unique: u}
			t.must(end(q, t.takeNew(q, nt, long)))
			second := t.enqueue(q, nt)
			t.wantDuplicate("after the first one ended: "+how, q, nt, second)
			t.operate(c, admin.Reject, second)
		}
	}
	for _, e := range endings() {
		if e.name != "retry" && e.name != "release" {
			freed(e.name, func(q *dbq.Queue, task dbq.Task) error { return q.Settle(t.ctx, task.Lease, e.outcome) })
		}
	}
	cancel := func(_ *dbq.Queue, task dbq.Task) error { return ops.Operate(t.ctx, admin.Cancel, task.ID) }
	freed("cancel", cancel)
	freed("cancel and purge", func(q *dbq.Queue, task dbq.Task) error {
		t.must(cancel(q, task))
		return ops.Operate(t.ctx, admin.Purge, task.ID)
	})
}

func uniqueByPeriod(t *test) {
	c, q := t.openQueue()
	hour := &dbq.Unique{Key: "k", Period: time.Hour}
	at := func(when string) dbq.NewTask {
		due := must(time.Parse(time.RFC3339Nano, when))
		return dbq.NewTask{RunAt: due, Unique: hour}
	}
	first := t.enqueue(q, at("2038-01-19T03:00:00Z"))
	t.wantDuplicate("in the same hour", q, at("2038-01-19T03:59:59.999999Z"), first)
	t.wantDuplicate("in the same hour, elsewhere", q, at("2038-01-19T05:30:00+02:00"), first)
	next := t.enqueue(q, at("2038-01-19T04:00:00Z"))
	t.wantDuplicate("in the next hour", q, at("2038-01-19T04:30:00Z"), next)
	t.enqueue(q, at("2038-01-19T02:59:59.999999Z"))
	for _, id := range []uuid.UUID{first, next} {
		t.operate(c, admin.Cancel, id)
	}
	t.wantDuplicate("after it was cancelled", q, at("2038-01-19T03:30:00Z"), first)
	t.operate(c, admin.Purge, first)
	t.wantDuplicate("after it was removed", q, at("2038-01-19T03:30:00Z"), first)

	year := dbq.NewTask{Delay: 2 * time.Hour, Unique: &dbq.Unique{Key: "y", Period: dbq.MaxUniquePeriod}}
	id := t.enqueue(q, year)
	task, now := t.get(c, id), t.now(c)
	t.failIf(task.Due.Before(now.Add(year.Delay-time.Minute)) || task.Due.After(now.Add(year.Delay)),
		"it is due at %v, want two hours after %v", task.Due, now)
	year.RunAt, year.Delay = task.Due, 0
	t.wantDuplicate("at its due time", q, year, id)
}

func uniqueInWindow(t *test) {
	c, q := t.openQueue()
	nt := func(delay time.Duration) dbq.NewTask {
		return dbq.NewTask{Delay: delay, Unique: &dbq.Unique{Key: "k", Window: time.Hour}}
	}
	first := t.enqueue(q, nt(2*time.Hour))
	t.wantDuplicate("in the window", q, nt(0), first)
	t.wantDuplicate("due after the window", q, nt(24*time.Hour), first)
	t.operate(c, admin.Cancel, first)
	t.operate(c, admin.Purge, first)
	t.wantDuplicate("after it was removed", q, nt(0), first)
	earlier := func(d time.Duration) {
		must(c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %sunique_key SET expires = expires - %d",
			t.Prefix, d.Microseconds())))
	}
	earlier(time.Hour - time.Minute)
	t.wantDuplicate("near the end of the window", q, nt(0), first)
	earlier(time.Minute)
	second := t.enqueue(q, nt(0))
	earlier(time.Hour - time.Minute)
	t.wantDuplicate("in the second window", q, nt(0), second)
}

func uniqueReplace(t *test) {
	c, q := t.openQueue()
	first := t.enqueue(q, dbq.NewTask{Kind: "old", Key: "old", Payload: []byte("old"), Reference: "r",
		Priority: 7, Delay: long,
		MaxAttempts: 3, Headers: map[string]string{"h": "old"}, Unique: replacing("k")})
	was := t.get(c, first)
	nt := dbq.NewTask{Kind: "new", Key: "new", Payload: []byte("new\x00\xff"), Priority: 2, MaxAttempts: 9,
		Headers: map[string]string{"h": "new"}, Unique: replacing("k")}
	if out := t.enqueueOne(q, nt); out != (dbq.Enqueued{ID: first, Replaced: true}) {
		t.Errorf("the outcome is %+v, want %s to be replaced", out, first)
	}
	task := t.take(q, long)
	if task.ID != first || string(task.Payload) != string(nt.Payload) || task.Kind != "new" || task.Key != "new" ||
		task.Priority != 2 || task.Headers["h"] != "new" || task.Reference != "r" || task.MaxAttempts != 3 ||
		task.Attempt != 1 || !task.Created.Equal(was.Created) {
		t.Errorf("got %s, want the new payload, and the rest of %s", show(task), show(was))
	}
	task.Lease = t.report(q, task.Lease, "half of it")
	t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errBoom)))
	retry := t.get(c, first)
	nt.Payload, nt.Headers, nt.Key = nil, nil, ""
	if id, err := q.Enqueue(t.ctx, nt); err != nil || id != first {
		t.Errorf("replace what waits for a retry: got %s, %v, want %s", id, err, first)
	}
	retry.Payload, retry.Headers, retry.Progress, retry.Key = nil, nil, nil, ""
	retry.Fence++
	t.wantUnchanged("the replacement", c, retry)
	t.wantCount(c, "q", 1)
}

func uniqueDebounce(t *test) {
	c, q := t.openQueue()
	nt := dbq.NewTask{Payload: []byte("first"), Delay: time.Minute, Unique: debouncing("k")}
	first := t.enqueue(q, nt)
	was := t.get(c, first)
	push := func(d time.Duration) dbq.Task {
		nt.Delay, nt.Payload = d, []byte("later")
		if out := t.enqueueOne(q, nt); out != (dbq.Enqueued{ID: first, Debounced: true}) {
			t.Errorf("the outcome is %+v, want %s to be debounced", out, first)
		}
		return t.get(c, first)
	}
	before := t.now(c)
	task := push(long)
	t.failIf(task.Due.Before(before.Add(long)) || task.Due.After(t.now(c).Add(long)),
		"it is due at %v, want an hour after %v", task.Due, before)
	was.Due = task.Due
	t.wantUnchanged("the debounce", c, was)
	if later := push(time.Second); !later.Due.Equal(task.Due) {
		t.Errorf("a shorter delay moved it from %v to %v", task.Due, later.Due)
	}
	t.wantNone("after the debounce", q)
	t.wantCount(c, "q", 1)
}

func uniqueNeverLeased(t *test) {
	c, q := t.openQueue()
	while := func(u *dbq.Unique) *dbq.Unique { u.While = dbq.UniqueUnfinished; return u }
	rules := []*dbq.Unique{while(pending("k")), while(replacing("k")), while(debouncing("k"))}
	task := t.takeNew(q, dbq.NewTask{Payload: []byte("leased"), Unique: rules[0]}, long)
	before := t.get(c, task.ID)
	for _, u := range rules {
		t.wantDuplicate("while it runs", q, dbq.NewTask{Delay: time.Second, Unique: u}, task.ID)
	}
	t.wantUnchanged("an enqueue with its key", c, before)
	t.must(q.Complete(t.ctx, task.Lease, []byte("done")))
	done := t.get(c, task.ID)
	id := t.enqueue(q, dbq.NewTask{Delay: long, Unique: rules[1]})
	t.wantUnchanged("an enqueue after its end", c, done)
	t.failIf(id == task.ID, "the task that has ended was replaced")
	period := &dbq.Unique{Key: "p", Period: dbq.MaxUniquePeriod, OnConflict: dbq.UniqueReplace}
	task = t.takeNew(q, dbq.NewTask{Unique: period}, long)
	before = t.get(c, task.ID)
	t.wantDuplicate("in its period", q, dbq.NewTask{Payload: []byte("x"), Unique: period}, task.ID)
	t.wantUnchanged("an enqueue in its period", c, before)
}

func uniqueApart(t *test) {
	c := t.open()
	hour, day := time.Hour, 24*time.Hour
	at := t.now(c).Truncate(day).Add(2 * day)
	for _, queue := range []string{"q", "Q", "r"} {
		for _, key := range []string{"k", "K", "k ", "ключ", " "} {
			for _, u := range []*dbq.Unique{
				pending(key), unfinished(key), {Key: key, Period: hour}, {Key: key, Period: day},
				{Key: key, Window: hour},
			} {
				t.enqueue(c.Queue(queue), dbq.NewTask{RunAt: at, Unique: u})
			}
		}
	}
}

func uniqueRolledBack(t *test) {
	c, q := t.openQueue()
	waiting := t.enqueue(q, dbq.NewTask{Delay: long, Unique: replacing("waits")})
	t.settleNew(q, dbq.NewTask{Unique: pending("ended")}, dbq.Completed(nil))
	before := t.get(c, waiting)
	enqueueAll := func(tx dbq.Tx) {
		out := must(q.EnqueueManyTx(t.ctx, tx, []dbq.NewTask{
			{Unique: pending("new")}, {Unique: pending("ended")}, {Payload: []byte("x"), Unique: replacing("waits")},
		}))
		t.failIf(out[0].Duplicate || out[1].Duplicate || !out[2].Replaced || out[2].ID != waiting,
			"the outcomes are %+v, want two tasks and %s replaced", out, waiting)
	}
	tx := t.beginTx(c)
	enqueueAll(tx)
	t.must(tx.Rollback())
	t.wantUnchanged("the transaction that was rolled back", c, before)
	t.wantCount(c, "q", 2)
	tx = t.beginTx(c)
	enqueueAll(tx)
	t.must(tx.Commit())
	t.wantCount(c, "q", 4)
}

func uniqueReference(t *test) {
	q := t.open().Queue("q")
	taken := t.enqueue(q, dbq.NewTask{Reference: "r"})
	for _, u := range []*dbq.Unique{pending("k"), unfinished("k"), {Key: "k", Period: dbq.MaxUniquePeriod}} {
		nt := dbq.NewTask{Reference: "r", Unique: u}
		t.wantDuplicate("the reference is taken", q, nt, taken)
		nt.Reference = ""
		first := t.enqueue(q, nt)
		nt.Reference = "r"
		t.wantDuplicate("both are taken", q, nt, first)
	}
}

func uniqueInOneCall(t *test) {
	c, q := t.openQueue()
	old := t.enqueue(q, dbq.NewTask{Delay: time.Minute, Unique: replacing("old")})
	n := t.overOneStatement(t.statements().AddKeys)
	ts := []dbq.NewTask{
		{Payload: []byte("1"), Unique: pending("new")},
		{Payload: []byte("2"), Unique: pending("new")},
		{Payload: []byte("3"), Priority: 1, Unique: replacing("new")},
		{Delay: long, Payload: []byte("4"), Unique: debouncing("new")},
		{Payload: []byte("5"), Unique: replacing("old")},
		{Payload: []byte("6")},
		{Delay: long, Payload: []byte("7"), Unique: debouncing("old")},
		{Payload: []byte("8"), Unique: pending("old")},
		{Delay: time.Minute, Payload: []byte("9"), Unique: debouncing("new")},
	}
	for i := range n {
		ts = append(ts, dbq.NewTask{Delay: long, Unique: pending(fmt.Sprint(i))})
	}
	before := t.now(c)
	out := must(q.EnqueueMany(t.ctx, ts))
	first := out[0].ID
	want := []dbq.Enqueued{
		{ID: first}, {ID: first, Duplicate: true}, {ID: first, Replaced: true}, {ID: first, Debounced: true},
		{ID: old, Replaced: true}, {ID: out[5].ID}, {ID: old, Debounced: true}, {ID: old, Duplicate: true},
		{ID: first, Debounced: true},
	}
	for i, w := range want {
		t.failIf(out[i] != w, "the outcome of task %d is %+v, want %+v", i, out[i], w)
	}
	for id, payload := range map[uuid.UUID]string{first: "3", old: "5", out[5].ID: "6"} {
		task := t.get(c, id)
		t.failIf(string(task.Payload) != payload || payload != "6" && task.Due.Before(before.Add(long)),
			"got %s, want payload %s, postponed by an hour", show(task), payload)
	}
	t.wantCount(c, "q", n+3)
	again := must(q.EnqueueMany(t.ctx, ts[len(want):]))
	for i, o := range again {
		if o != (dbq.Enqueued{ID: out[len(want)+i].ID, Duplicate: true}) {
			t.Fatalf("the outcome of task %d once more is %+v, want a duplicate of %s", i, o, out[len(want)+i].ID)
		}
	}
}

func uniqueReturned(t *test) {
	c, q := t.openQueue()
	nt := dbq.NewTask{Unique: pending("k")}
	first := t.takeNew(q, nt, long)
	second := t.enqueue(q, nt)
	t.must(q.Settle(t.ctx, first.Lease, dbq.Poisoned(errBoom)))
	t.operate(c, admin.Reenqueue, first.ID)
	t.wantDuplicate("while both wait", q, nt, second)
	if tasks := t.checkout(q, 10, long); len(tasks) != 2 {
		t.Errorf("%d tasks can be checked out, want both", len(tasks))
	}
}

func uniqueClean(t *test) {
	c, q := t.openQueue()
	clean := func(want int, why string) {
		t.clean(q, dbq.Retention{Completed: long})
		n := t.rows(c.DB(), t.Prefix+"unique_key")
		t.failIf(n != want, "there are %d keys, want %d: %s", n, want, why)
	}
	var ends []dbq.Lease
	for _, u := range []*dbq.Unique{pending("a"), unfinished("b"), {Key: "c", Period: time.Hour}} {
		task := t.takeNew(q, dbq.NewTask{Unique: u}, long)
		ends = append(ends, task.Lease)
	}
	waiting := t.enqueue(q, dbq.NewTask{Delay: long, Unique: pending("w")})
	clean(4, "none has expired")
	must(c.DB().ExecContext(t.ctx, "UPDATE "+t.Prefix+"unique_key SET expires = 1"))
	clean(4, "no task has ended")
	poison := t.settleNew(q, dbq.NewTask{Unique: unfinished("p")}, dbq.Poisoned(errBoom))
	for _, l := range ends {
		t.must(q.Complete(t.ctx, l, nil))
	}
	must(c.DB().ExecContext(t.ctx, "UPDATE "+t.Prefix+"unique_key SET expires = 1"))
	clean(2, "those of the waiting task and of the one in POISON")
	t.wantDuplicate("after cleaning", q, dbq.NewTask{Unique: pending("w")}, waiting)
	t.operate(c, admin.Reenqueue, poison.ID)
	t.wantDuplicate("of a task that was reenqueued after cleaning", q, dbq.NewTask{Unique: unfinished("p")}, poison.ID)
}

func refusedLeavesKeyFree(t *test) {
	c, q := t.openQueue()
	taken := t.enqueue(q, dbq.NewTask{RunAt: time.Now().Add(long)})
	elsewhere := t.enqueue(c.Queue("other"), dbq.NewTask{Delay: long})
	for name, unique := range map[string]*dbq.Unique{
		"waiting": pending("a"), "unfinished": unfinished("b"),
		"period": {Key: "c", Period: 24 * time.Hour}, "window": {Key: "d", Window: time.Hour},
	} {
		_, err := q.Enqueue(t.ctx, dbq.NewTask{ID: taken, Unique: unique})
		t.wantErr(name+": the id is taken", err, dbq.ErrDuplicate)
		_, err = q.Enqueue(t.ctx, dbq.NewTask{ID: elsewhere, Unique: unique})
		t.wantErr(name+": the id is another queue's", err, dbq.ErrWrongQueue)
		tx := t.beginTx(c)
		_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{ID: taken, Unique: unique})
		t.wantErr(name+": the id is taken, in a transaction", err, dbq.ErrDuplicate)
		_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{ID: elsewhere, Unique: unique})
		t.wantErr(name+": the id is another queue's, in a transaction", err, dbq.ErrWrongQueue)
		t.must(tx.Commit())
		t.enqueue(q, dbq.NewTask{Unique: unique})
	}
}

func keyIsOfItsQueue(t *test) {
	c := t.open()
	a, b := c.Queue("a"), c.Queue("b")
	for name, by := range map[string]struct{ first, then *dbq.Unique }{
		"kept":       {pending("a"), pending("a")},
		"unfinished": {unfinished("b"), unfinished("b")},
		"replaced":   {pending("c"), replacing("c")},
		"debounced":  {pending("d"), debouncing("d")},
	} {
		id := t.enqueue(a, dbq.NewTask{Priority: 1, Unique: by.first})
		task := t.take(a, long)
		t.must(a.Settle(t.ctx, task.Lease, dbq.Deleted()))
		must(b.Enqueue(t.ctx, dbq.NewTask{ID: id, Delay: long}))
		moved := t.get(c, id)
		added := t.enqueueOne(a, dbq.NewTask{Delay: long, Unique: by.then})
		t.failIf(added.Duplicate || added.Replaced || added.Debounced || added.ID == id,
			"%s: got %+v, want a new task", name, added)
		t.wantUnchanged(name, c, moved)
	}
}

func idOfAnotherQueue(t *test) {
	c := t.open()
	a, b := c.Queue("a"), c.Queue("b")
	id := t.enqueue(a, dbq.NewTask{Delay: long})
	before := t.get(c, id)
	calls := map[string][]dbq.NewTask{
		"one":         {{ID: id}},
		"of several":  {{}, {ID: id}, {Reference: "r"}},
		"unique":      {{ID: id, Unique: pending("u")}},
		"some unique": {{Unique: pending("v")}, {ID: id}},
	}
	for name, ts := range calls {
		_, err := b.EnqueueMany(t.ctx, ts)
		t.wantErr(name, err, dbq.ErrWrongQueue)
		tx := t.beginTx(c)
		_, err = b.EnqueueManyTx(t.ctx, tx, ts)
		t.wantErr(name+", in a transaction", err, dbq.ErrWrongQueue)
		t.must(tx.Commit())
		if got := t.list(c, admin.Filter{Queue: "b"}); len(got) > 0 {
			t.Errorf("%s: it has added %d tasks", name, len(got))
		}
		t.wantUnchanged(name, c, before)
	}
}

func idTakenMeanwhile(t *test) {
	c, other := t.open(), t.open()
	way := 0
	for what, first := range map[string]dbq.NewTask{"plain": {}, "unique": {Unique: pending("k")}} {
		for _, kind := range []string{"alone", "in a transaction", "in a transaction that has read"} {
			for _, same := range []bool{true, false} {
				way++
				name := fmt.Sprintf("%s, %s, same queue: %v", what, kind, same)
				a, b := fmt.Sprint("a", way), fmt.Sprint("b", way)
				if same {
					b = a
				}
				ts := []dbq.NewTask{first, {ID: dbq.NewID()}, {ID: dbq.NewID()}}
				tx := t.beginTx(c)
				must(c.Queue(a).EnqueueTx(t.ctx, tx, ts[1]))
				var out []dbq.Enqueued
				var err error
				answered := make(chan error, 1)
				go func() {
					out, err = t.enqueueMeanwhile(other.Queue(b), ts, kind)
					answered <- err
				}()
				t.wantWaits(name+": the other enqueue", answered)
				t.must(tx.Commit())
				err = <-answered
				want := 0
				switch {
				case kind == "in a transaction that has read" && errors.Is(err, dbq.ErrConflict):
				case !same:
					t.wantErr(name, err, dbq.ErrWrongQueue)
				case err != nil || out[0].Duplicate || !out[1].Duplicate || out[1].ID != ts[1].ID || out[2].Duplicate:
					t.Errorf("%s: got %+v and error %v, want only the second to be a duplicate", name, out, err)
				default:
					want = 2
				}
				if same {
					want++
				}
				t.wantCount(c, b, want)
			}
		}
	}
}

// enqueueMeanwhile enqueues by itself or in a transaction of the given kind, which it commits whatever the outcome.
func (t *test) enqueueMeanwhile(q *dbq.Queue, ts []dbq.NewTask, kind string) ([]dbq.Enqueued, error) {
	if kind == "alone" {
		return q.EnqueueMany(t.ctx, ts)
	}
	tx, err := q.Client().DB().BeginTx(t.ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	if kind == "in a transaction that has read" { // on some engines it then has its snapshot
		query := "SELECT COUNT(*) FROM " + t.Prefix + "migration"
		if err := tx.QueryRowContext(t.ctx, query).Scan(new(int)); err != nil {
			return nil, err
		}
	}
	out, err := q.EnqueueManyTx(t.ctx, tx, ts)
	if end := tx.Commit(); end != nil {
		t.Errorf("commit after %v: %v", err, end)
	}
	return out, err
}

func uniqueRace(t *test) {
	clients := t.twoClients()
	const racers = 8
	period, window := &dbq.Unique{Key: "k", Period: dbq.MaxUniquePeriod}, &dbq.Unique{Key: "k", Window: time.Hour}
	for _, u := range []*dbq.Unique{pending("k"), unfinished("k"), period, window} {
		for round := range 2 {
			name := fmt.Sprintf("q %s %v %v", u.While, u.Period, u.Window)
			var mu sync.Mutex
			added, ids := 0, map[uuid.UUID]bool{}
			t.concurrently(racers, func(ctx context.Context, i int) {
				out := must(clients[i%2].Queue(name).EnqueueMany(ctx, []dbq.NewTask{{Unique: u}}))
				mu.Lock()
				defer mu.Unlock()
				ids[out[0].ID] = true
				if !out[0].Duplicate {
					added++
				}
			})
			if want := 1 - round*min(int(u.Period+u.Window), 1); added != want || len(ids) != 1 {
				t.Errorf("%s, round %d: %d tasks were added, want %d; the racers got %d ids, want 1", name, round, added, want,
					len(ids))
			}
			for id := range ids {
				if t.get(clients[0], id).State == dbq.StateCreated {
					t.operate(clients[0], admin.Cancel, id)
				}
			}
		}
	}
}

func uniqueMany(t *test) {
	keys, added := t.load(40), 0
	rules := []dbq.UniqueConflict{dbq.UniqueKeep, dbq.UniqueReplace, dbq.UniqueDebounce}
	t.raceBatches("unique", keys, func(k int, rng *rand.Rand) dbq.NewTask {
		return dbq.NewTask{Delay: long, Priority: rng.IntN(3), Unique: &dbq.Unique{
			Key: fmt.Sprint(k), While: dbq.UniqueUnfinished, OnConflict: rules[rng.IntN(3)]}}
	}, func(_ int, o dbq.Enqueued) {
		if !o.Duplicate && !o.Replaced && !o.Debounced {
			added++
		}
	})
	t.failIf(added != keys, "%d tasks were reported as added, want %d", added, keys)
}

func uniqueOnlyOneRuns(t *test) {
	clients := t.twoClients()
	const keys, producers, workers = 3, 3, 3
	var running [keys]atomic.Int64 // tasks with each key
	var producing atomic.Int64
	producing.Store(producers)
	nt := func(k int) dbq.NewTask { return dbq.NewTask{Priority: k, Unique: unfinished(fmt.Sprint(k))} }
	t.concurrently(producers+workers, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("q")
		if i < producers {
			defer producing.Add(-1)
			for n := range t.load(30) {
				if _, err := q.Enqueue(ctx, nt((n+i)%keys)); !errors.Is(err, dbq.ErrDuplicate) {
					t.must(err)
				}
			}
			return
		}
		for {
			more := producing.Load() > 0
			tasks := must(q.Checkout(ctx, 2, time.Minute))
			for _, task := range tasks {
				if n := running[task.Priority].Add(1); n != 1 {
					t.Errorf("%d tasks of one key run at the same time", n)
				}
			}
			for _, task := range tasks {
				running[task.Priority].Add(-1)
				t.must(q.Complete(ctx, task.Lease, nil))
			}
			if len(tasks) == 0 && !more {
				return
			}
		}
	})
}

func uniqueReplacedRace(t *test) {
	clients := t.twoClients()
	const last = 30
	var got atomic.Value
	got.Store("")
	var done atomic.Bool
	t.concurrently(2, func(ctx context.Context, i int) {
		q := clients[i].Queue("q")
		if i == 0 {
			defer done.Store(true)
			for n := range last {
				must(q.Enqueue(ctx, dbq.NewTask{Payload: fmt.Append(nil, n), Unique: replacing("k")}))
			}
			return
		}
		for {
			more := !done.Load()
			tasks := must(q.Checkout(ctx, 1, time.Minute))
			for _, task := range tasks {
				got.Store(string(task.Payload))
				t.must(q.Complete(ctx, task.Lease, nil))
			}
			if len(tasks) == 0 && !more {
				return
			}
		}
	})
	t.failIf(got.Load() != fmt.Sprint(last-1),
		"the last task ran with the payload %q, want that of the last enqueue, %d", got.Load(), last-1)
}

func uniqueWaits(t *test) {
	for _, commits := range []bool{true, false} {
		c, other := t.open(), t.open()
		nt := dbq.NewTask{Unique: pending(fmt.Sprint(commits))}
		tx := t.beginTx(c)
		id := must(c.Queue("q").EnqueueTx(t.ctx, tx, nt))
		var otherID uuid.UUID
		answered := make(chan error)
		go func() {
			var err error
			otherID, err = other.Queue("q").Enqueue(t.ctx, nt)
			answered <- err
		}()
		t.wantWaits("the other enqueue", answered)
		if commits {
			t.must(tx.Commit())
			t.wantErr("after the commit", <-answered, dbq.ErrDuplicate)
		} else {
			t.must(tx.Rollback())
			t.must(<-answered)
		}
		t.failIf(commits != (otherID == id),
			"commit %v: the other enqueue returned %s, the transaction %s", commits, otherID, id)
	}
}

func uniqueKeptTaskWaits(t *test) {
	c, other := t.open(), t.open()
	t.rowLocks(c)
	q := c.Queue("q")
	t.enqueue(q, dbq.NewTask{Unique: pending("k")})
	tx := t.beginTx(c)
	_, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Unique: pending("k")})
	t.wantErr("enqueue", err, dbq.ErrDuplicate)
	if len(t.checkout(other.Queue("q"), 1, long)) != 0 {
		t.Fatalf("it was checked out before the commit")
	}
	t.must(tx.Commit())
	t.eventually("it starts after the commit", func() bool { return len(t.checkout(other.Queue("q"), 1, long)) == 1 })
}

func uniqueLevels(t *test) {
	c, other := t.open(), t.open()
	t.rowLocks(c)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for name, between := range map[string]func(q *dbq.Queue) uuid.UUID{
			"nothing": func(*dbq.Queue) uuid.UUID { return uuid.Nil },
			"added":   func(q *dbq.Queue) uuid.UUID { return t.enqueue(q, dbq.NewTask{Delay: long, Unique: unfinished("k")}) },
			"taken": func(q *dbq.Queue) uuid.UUID {
				return t.takeNew(q, dbq.NewTask{Unique: unfinished("k")}, long).ID
			},
			"gone": func(q *dbq.Queue) uuid.UUID {
				t.settleNew(q, dbq.NewTask{Unique: unfinished("k")}, dbq.Deleted())
				return uuid.Nil
			},
		} {
			queue := fmt.Sprintf("%v %s", level, name)
			tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Logf("%v: %v", level, err) // the driver does not have it
				continue
			}
			t.rows(tx, t.Prefix+"migration") // from here on, a transaction has its snapshot
			holder := between(other.Queue(queue))
			id, err := c.Queue(queue).EnqueueTx(t.ctx, tx, dbq.NewTask{Delay: long, Unique: unfinished("k")})
			failed := errors.Is(err, dbq.ErrConflict)
			switch {
			case failed:
				_ = tx.Rollback()
			case errors.Is(err, dbq.ErrDuplicate) && holder == id && holder != uuid.Nil, err == nil:
				err = tx.Commit()
			}
			if err != nil && !failed && !errors.Is(err, dbq.ErrDuplicate) {
				t.Errorf("%s: %v", queue, err)
				_ = tx.Rollback()
			}
			alive := 0
			for _, task := range t.list(other, admin.Filter{Queue: queue}) {
				if !task.Ended() {
					alive++
				}
			}
			t.failIf(alive != 1 && !(failed && holder == uuid.Nil && alive == 0),
				"%s: there are %d unfinished tasks, want 1", queue, alive)
		}
	}
}

func uniqueSuccessor(t *test) {
	clients := t.twoClients()
	q := clients[0].Queue("q")
	t.enqueue(q, dbq.NewTask{Unique: unfinished("k")})
	var done atomic.Bool
	t.concurrently(3, func(ctx context.Context, i int) {
		if i > 0 {
			for !done.Load() {
				nt := dbq.NewTask{Priority: 1, Unique: &dbq.Unique{Key: "k", While: dbq.UniqueUnfinished,
					OnConflict: dbq.UniqueReplace}}
				if _, err := clients[1].Queue("q").Enqueue(ctx, nt); !errors.Is(err, dbq.ErrDuplicate) {
					t.must(err)
				}
			}
			return
		}
		defer done.Store(true)
		for range t.load(25) {
			tasks := t.checkout(q, 10, time.Minute)
			t.failIf(len(tasks) > 1, "%d tasks with one key were checked out", len(tasks))
			for _, task := range tasks {
				tx := t.beginTx(clients[0])
				t.must(q.CompleteTx(ctx, tx, task.Lease, nil))
				must(q.EnqueueTx(ctx, tx, dbq.NewTask{Unique: unfinished("k")}))
				t.must(tx.Commit())
			}
		}
	})
}
