package cases

import (
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// uniqueCases are the promises about unique keys.
func uniqueCases() []Case {
	return inGroup("Unique",
		Case{Name: "OnlyOneWaits", Once: true, run: uniqueOnlyOneWaits,
			Law: "A unique task is a duplicate while another one with its key waits, also for a retry, and is added once " +
				"that has started."},
		Case{Name: "OnlyOneIsUnfinished", Once: true, run: uniqueOnlyOneUnfinished,
			Law: "A task that is unique until it ends is a duplicate while another one with its key waits or runs."},
		Case{Name: "KeyIsFreeWhenTheTaskEnds", Once: true, run: uniqueFreed,
			Law: "A key is free as soon as its task is completed, removed, poisoned, cancelled or parked."},
		Case{Name: "OneForEachPeriod", Once: true, run: uniqueByPeriod,
			Law: "Of the unique tasks that are due in one period, in UTC, the first is added, even if that task is removed; " +
				"in the next period another one is."},
		Case{Name: "OneInAWindow", Once: true, run: uniqueInWindow,
			Law: "Of the unique tasks that are enqueued within a window, the first is added, even if that task is removed or " +
				"is due later; after the window another one is."},
		Case{Name: "ReplacesTheWaitingTask", Once: true, run: uniqueReplace,
			Law: "UniqueReplace replaces the kind, key, payload, headers, priority and due time of a waiting task, clears " +
				"its progress and raises its fence, but keeps its identity, its attempts, and the time of its retry."},
		Case{Name: "DebouncePostponesTheDueTime", Once: true, run: uniqueDebounce,
			Law: "UniqueDebounce postpones a waiting task to the delay from now, never makes it due earlier, and leaves its " +
				"payload."},
		Case{Name: "DebounceIsBounded", Once: true, run: uniqueBounded,
			Law: "UniqueDebounce and UniqueReplace never postpone a task beyond MaxWait after it was created."},
		Case{Name: "DoesNotChangeRunningOrEndedTasks", Once: true, run: uniqueNeverLeased,
			Law: "An enqueue with a key never changes a task that runs or has ended, whatever OnConflict says."},
		Case{Name: "KeysOfOtherScopesDoNotConflict", Once: true, run: uniqueApart,
			Law: "Equal keys of different queues, scopes and periods, and of windows, do not exclude each other; " +
				"keys are compared byte by byte."},
		Case{Name: "WithoutKeyThePayloadIsTheKey", Once: true, run: uniqueWithoutKey,
			Law: "Without a key, tasks of one kind with one payload exclude each other, and no others."},
		Case{Name: "RollbackFreesTheKey", Once: true, run: uniqueRolledBack,
			Law: "When the transaction that enqueued a unique task rolls back, its key is free again, and the task that it " +
				"changed is restored."},
		Case{Name: "TakenReferenceLeavesKeyFree", Once: true, run: uniqueReference,
			Law: "If a unique task's key is free and its reference is taken, it is a duplicate and its key stays free."},
		Case{Name: "RepeatedWithSameID", Once: true, run: uniqueRepeated,
			Law: "Repeating an enqueue of a unique task with the same id adds and changes nothing."},
		Case{Name: "SameKeyInOneCall", Once: true, run: uniqueInOneCall,
			Law: "The tasks of one call with the same key take effect one after the other, beside any number of others."},
		Case{Name: "ReturnedTaskBesideNewOne", Once: true, run: uniqueReturned,
			Law: "A task that returns to the queue after another one has taken its key runs beside that one, which keeps the " +
				"key."},
		Case{Name: "InvalidIsRefused", Once: true, run: uniqueInvalid,
			Law: "A unique rule outside its limits, or with fields that exclude each other, is refused and changes nothing."},
		Case{Name: "CleanRemovesOldKeys", Once: true, run: uniqueClean,
			Law: "Cleaning removes the expired keys of tasks that are completed or removed, and no key of one that can still " +
				"run, such as one in POISON, which an operator may reenqueue."},
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

func debouncing(key string, most time.Duration) *dbq.Unique {
	return &dbq.Unique{Key: key, OnConflict: dbq.UniqueDebounce, MaxWait: most}
}

// enqueueOne enqueues a task by EnqueueMany, for its whole outcome.
func (t *test) enqueueOne(q *dbq.Queue, nt dbq.NewTask) dbq.Enqueued {
	out, err := q.EnqueueMany(t.ctx, []dbq.NewTask{nt})
	t.must(err)
	return out[0]
}

// wantDuplicate records a failure unless a task is a duplicate of another one.
func (t *test) wantDuplicate(when string, q *dbq.Queue, nt dbq.NewTask, of uuid.UUID) {
	id, err := q.Enqueue(t.ctx, nt)
	t.wantErr(when, err, dbq.ErrDuplicate)
	if id != of {
		t.Errorf("%s: the id is %s, want that of the task with the key, %s", when, id, of)
	}
}

func uniqueOnlyOneWaits(t *test) {
	c := t.open()
	q := c.Queue("q")
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
	c := t.open()
	q := c.Queue("q")
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
	for name, end := range map[string]func(q *dbq.Queue, task dbq.Task) error{
		"completed": func(q *dbq.Queue, task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Completed(nil)) },
		"removed":   func(q *dbq.Queue, task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Deleted()) },
		"poisoned":  func(q *dbq.Queue, task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)) },
		"parked":    func(q *dbq.Queue, task dbq.Task) error { return q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)) },
		"cancelled": func(q *dbq.Queue, task dbq.Task) error { return ops.Operate(t.ctx, admin.Cancel, task.ID) },
		"purged": func(q *dbq.Queue, task dbq.Task) error {
			if err := ops.Operate(t.ctx, admin.Cancel, task.ID); err != nil {
				return err
			}
			return ops.Operate(t.ctx, admin.Purge, task.ID)
		},
	} {
		q := c.Queue(name)
		for _, u := range []*dbq.Unique{pending("k"), unfinished("k")} {
			nt := dbq.NewTask{Unique: u}
			task := t.takeNew(q, nt, long)
			t.must(end(q, task))
			second := t.enqueue(q, nt)
			t.wantDuplicate("after the first was "+name, q, nt, second)
			t.must(ops.Operate(t.ctx, admin.Reject, second))
		}
	}
}

func uniqueByPeriod(t *test) {
	c := t.open()
	q := c.Queue("q")
	hour := &dbq.Unique{Key: "k", Period: time.Hour}
	at := func(when string) dbq.NewTask {
		due, err := time.Parse(time.RFC3339Nano, when)
		t.must(err)
		return dbq.NewTask{RunAt: due, Unique: hour}
	}
	first := t.enqueue(q, at("2038-01-19T03:00:00Z"))
	t.wantDuplicate("in the same hour", q, at("2038-01-19T03:59:59.999999Z"), first)
	t.wantDuplicate("in the same hour, elsewhere", q, at("2038-01-19T05:30:00+02:00"), first)
	next := t.enqueue(q, at("2038-01-19T04:00:00Z"))
	t.wantDuplicate("in the next hour", q, at("2038-01-19T04:30:00Z"), next)
	t.enqueue(q, at("2038-01-19T02:59:59.999999Z"))
	for _, id := range []uuid.UUID{first, next} {
		t.must(admin.New(c).Operate(t.ctx, admin.Cancel, id))
	}
	t.wantDuplicate("after it was cancelled", q, at("2038-01-19T03:30:00Z"), first)
	t.must(admin.New(c).Operate(t.ctx, admin.Purge, first))
	t.wantDuplicate("after it was removed", q, at("2038-01-19T03:30:00Z"), first)

	year := dbq.NewTask{Delay: 2 * time.Hour, Unique: &dbq.Unique{Key: "y", Period: dbq.MaxUniquePeriod}}
	id := t.enqueue(q, year)
	task, now := t.get(c, id), t.now(c)
	if task.Due.Before(now.Add(year.Delay-time.Minute)) || task.Due.After(now.Add(year.Delay)) {
		t.Errorf("it is due at %v, want two hours after %v", task.Due, now)
	}
	year.RunAt, year.Delay = task.Due, 0
	t.wantDuplicate("at its due time", q, year, id)
}

func uniqueInWindow(t *test) {
	c := t.open()
	q := c.Queue("q")
	nt := func(delay time.Duration) dbq.NewTask {
		return dbq.NewTask{Delay: delay, Unique: &dbq.Unique{Key: "k", Window: time.Hour}}
	}
	first := t.enqueue(q, nt(2*time.Hour))
	t.wantDuplicate("in the window", q, nt(0), first)
	t.wantDuplicate("due after the window", q, nt(24*time.Hour), first)
	t.must(admin.New(c).Operate(t.ctx, admin.Cancel, first))
	t.must(admin.New(c).Operate(t.ctx, admin.Purge, first))
	t.wantDuplicate("after it was removed", q, nt(0), first)
	earlier := func(d time.Duration) {
		_, err := c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %sunique_key SET expires = expires - %d",
			t.Prefix, d.Microseconds()))
		t.must(err)
	}
	earlier(time.Hour - time.Minute)
	t.wantDuplicate("near the end of the window", q, nt(0), first)
	earlier(time.Minute)
	second := t.enqueue(q, nt(0))
	earlier(time.Hour - time.Minute)
	t.wantDuplicate("in the second window", q, nt(0), second)
}

func uniqueReplace(t *test) {
	c := t.open()
	q := c.Queue("q")
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
	if n := t.count(c, "q"); n != 1 {
		t.Errorf("there are %d tasks, want 1", n)
	}
}

func uniqueDebounce(t *test) {
	c := t.open()
	q := c.Queue("q")
	nt := dbq.NewTask{Payload: []byte("first"), Delay: time.Minute, Unique: debouncing("k", 0)}
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
	if task.Due.Before(before.Add(long)) || task.Due.After(t.now(c).Add(long)) {
		t.Errorf("it is due at %v, want an hour after %v", task.Due, before)
	}
	was.Due = task.Due
	t.wantUnchanged("the debounce", c, was)
	if later := push(time.Second); !later.Due.Equal(task.Due) {
		t.Errorf("a shorter delay moved it from %v to %v", task.Due, later.Due)
	}
	t.wantNone("after the debounce", q)
	if n := t.count(c, "q"); n != 1 {
		t.Errorf("there are %d tasks, want 1", n)
	}
}

func uniqueBounded(t *test) {
	c := t.open()
	q := c.Queue("q")
	first := t.enqueue(q, dbq.NewTask{Delay: time.Second, Unique: debouncing("k", long)})
	created := t.get(c, first).Created
	for _, u := range []*dbq.Unique{
		debouncing("k", long), {Key: "k", OnConflict: dbq.UniqueReplace, MaxWait: long},
	} {
		t.enqueue(q, dbq.NewTask{Delay: long, Unique: u})
		if due := t.get(c, first).Due; !due.Equal(created.Add(long)) {
			t.Errorf("it is due at %v, want an hour after it was created at %v", due, created)
		}
	}
}

func uniqueNeverLeased(t *test) {
	c := t.open()
	q := c.Queue("q")
	while := func(u *dbq.Unique) *dbq.Unique { u.While = dbq.UniqueUnfinished; return u }
	rules := []*dbq.Unique{while(pending("k")), while(replacing("k")), while(debouncing("k", 0))}
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
	if id == task.ID {
		t.Errorf("the task that has ended was replaced")
	}
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

func uniqueWithoutKey(t *test) {
	c := t.open()
	q := c.Queue("q")
	nt := dbq.NewTask{Kind: "k", Payload: []byte("p"), Unique: &dbq.Unique{}}
	first := t.enqueue(q, nt)
	t.wantDuplicate("the same payload", q, nt, first)
	for _, other := range []dbq.NewTask{{Kind: "k", Payload: []byte("P")}, {Kind: "K", Payload: nt.Payload}, {Kind: "k"}} {
		other.Unique = nt.Unique
		t.enqueue(q, other)
	}
}
