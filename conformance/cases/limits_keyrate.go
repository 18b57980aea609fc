package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// keyRateCases are the laws of queues with a rate per key.
func keyRateCases() []Case {
	return inGroup("Limits",
		Case{Name: "KeyRateIsKept", run: keyRateKept,
			Law: "In any time, no more tasks of a key start than the burst and the rate per key allow, by the database's " +
				"clock, though many clients check out at once and tasks fail, are released and are abandoned; and each task is " +
				"done in the end."},
		Case{Name: "KeyRateDelaysNoOtherKey", SharedTables: true, run: keyRateOthers,
			Law: "A key without a start left delays no task of another key, nor one without a key, however many of its own " +
				"wait, and however many such keys there are."},
		Case{Name: "KeyRateOfTakeovers", SharedTables: true, run: keyRateTakeovers,
			Law: "A takeover is a start of its key: if the key has none left, the task waits for its next one, and delays no " +
				"takeover of another key."},
		Case{Name: "KeyRateGoesOn", SharedTables: true, run: keyRateGoesOn,
			Law: "An idle worker starts the next task of a key when the rate per key allows it, and does not wait for its " +
				"next poll."},
		Case{Name: "ChangedRateAppliesAtOnce", SharedTables: true, run: keyRateChanged,
			Law: "After a change of a rate, no task waits longer than the new rate requires; and what a key has started is " +
				"forgotten when its rate is removed."},
		Case{Name: "CleanRemovesFullKeys", Once: true, run: keyRateClean,
			Law: "Cleaning removes what is known of keys that have all of their starts again, and of no others."},
		Case{Name: "KeyRateSurvivesCrash", Once: true, run: keyRateKilled,
			Law: "Processes that are killed while they hold tasks never cause more starts than the rate per key allows, and " +
				"all of their tasks are done in the end."},
	)
}

// keepsKeyRate checks by the history of tasks that have ended that no key has exceeded its rate: in any time d, at most
// Burst + d * Starts / Per of its tasks have started. It returns how many starts it has seen.
func (t *test) keepsKeyRate(c *dbq.Client, ids []uuid.UUID, keyOf func(i int) string, rate admin.Rate) (seen int) {
	starts := map[string][]time.Time{}
	for i, id := range ids {
		attempts, err := admin.New(c).Attempts(t.ctx, id)
		t.must(err)
		seen += len(attempts)
		for _, a := range attempts {
			starts[keyOf(i)] = append(starts[keyOf(i)], a.Taken)
		}
	}
	delete(starts, "")
	for key, at := range starts {
		slices.SortFunc(at, time.Time.Compare)
		for i := range at {
			for k := i; k < len(at); k++ {
				d := at[k].Sub(at[i]) + c.Info().Server.Precision
				if n, most := k-i+1, rate.Burst+int(d*time.Duration(rate.Starts)/rate.Per); n > most {
					t.Fatalf("%d tasks of key %q started in %v, want at most %d: the rate is %+v", n, key, d, most, rate)
				}
			}
		}
	}
	return seen
}

func keyRateKept(t *test) {
	rate := admin.Rate{Starts: 2, Per: 200 * time.Millisecond, Burst: 3}
	key := func(i int) string { return []string{"a", "b", "c", "d", ""}[i%5] }
	w := t.workLimited(admin.QueueLimits{KeyRate: rate}, key, func(*working) error { return nil })
	if n := t.keepsKeyRate(t.open(), w.ids, key, rate); n < len(w.ids) {
		t.Errorf("the history of %d tasks has %d attempts", len(w.ids), n)
	}
}

func keyRateOthers(t *test) {
	const burst, others, each = 2, 20, 3
	rate := admin.Rate{Starts: 1, Per: long, Burst: burst}
	for _, many := range []int{50, 1200} { // which a checkout reads at once, or not
		_, q := t.limited(admin.QueueLimits{KeyRate: rate})
		t.enqueueMany(q, 4, nil) // without a key
		t.enqueueMany(q, many, func(_ int, nt *dbq.NewTask) { nt.Key = "hot" })
		t.enqueueMany(q, others*each, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("k", i%others) })
		started := map[string]int{}
		for _, task := range t.takeWithin(20, q, 4+burst*(1+others)) {
			if started[task.Key]++; task.Key != "" && started[task.Key] > burst {
				t.Errorf("%d tasks of %q have started, want the burst of %d", started[task.Key], task.Key, burst)
			}
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
		t.wantNone("no key has a start left", q)
	}
	const keys = 1100 // more than a checkout passes over
	_, q := t.limited(admin.QueueLimits{KeyRate: admin.Rate{Starts: 1, Per: long, Burst: 1}})
	t.enqueueMany(q, 2*keys, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("k", i/2) })
	t.takeWithin(100, q, keys)
	for _, key := range []string{"a", "k500", "z"} {
		id := t.enqueue(q, dbq.NewTask{Key: key + " free"})
		var got []dbq.Task
		for range 3 { // each goes on where the one before has stopped
			got = append(got, t.checkout(q, 1, long)...)
		}
		if len(got) != 1 || got[0].ID != id {
			t.Errorf("behind %d keys without a start left, %d tasks were handed out, want that of %q", keys, len(got), key)
		}
	}
}

// takeWithin leases n tasks by some checkouts of 100 tasks each.
func (t *test) takeWithin(checkouts int, q *dbq.Queue, n int) (tasks []dbq.Task) {
	for range checkouts {
		if len(tasks) >= n {
			break
		}
		tasks = append(tasks, t.checkout(q, 100, long)...)
	}
	if len(tasks) != n {
		t.Fatalf("%d checkouts have leased %d tasks, want %d", checkouts, len(tasks), n)
	}
	return tasks
}

func keyRateTakeovers(t *test) {
	c, q := t.limited(admin.QueueLimits{KeyRate: admin.Rate{Starts: 1, Per: long, Burst: 4}})
	ids := t.enqueueMany(q, 7, func(i int, nt *dbq.NewTask) {
		if nt.Key = "a"; i >= 3 {
			nt.Key = []string{"b", "c", "d", ""}[i-3]
		}
	})
	for _, task := range t.takeEventually(q, len(ids), short) {
		t.awaitExpiry(c, task.ID)
	}
	again := map[uuid.UUID]dbq.Task{} // one of the key "a" and all others have a start left
	other := t.open().Queue(q.Name())
	t.eventually("the tasks are taken over", func() bool {
		for _, task := range t.checkout(other, 3, long) {
			if again[task.ID] = task; task.TakenOver == nil {
				t.Errorf("task %s of key %q started again, and was not taken over", task.ID, task.Key)
			}
		}
		return len(again) >= 5
	})
	t.wantNone("the key has no start left", other)
	t.wantNone("the key has no start left", q)
	if len(again) != 5 {
		t.Errorf("%d tasks were taken over, want 5", len(again))
	}
	waiting := map[uuid.UUID]bool{}
	for _, id := range ids {
		task := t.get(c, id)
		if _, taken := again[id]; taken {
			continue
		}
		waiting[id] = true
		if task.State != dbq.StateCreated || task.Key != "a" || task.Due.IsZero() {
			t.Errorf("a task without a start left is %s, want it due", show(task))
		}
		t.wantAttempts(c, id, "1 crashed")
	}
	t.limit(c, q.Name(), admin.QueueLimits{PerKey: true})
	for _, task := range t.takeEventually(other, 2, long) {
		if !waiting[task.ID] || task.Attempt != 2 {
			t.Errorf("attempt %d of task %s started, want the second of those that waited", task.Attempt, task.ID)
		}
		t.must(other.Complete(t.ctx, task.Lease, nil))
		if as, err := admin.New(c).Attempts(t.ctx, task.ID); err != nil || len(as) != 2 || as[1].Attempt != 2 {
			t.Errorf("the attempts are %+v, want one that crashed and the second: %v", as, err)
		}
	}
}

// keyRateGoesOn uses a worker that polls once an hour, and one that runs until the queue is empty.
func keyRateGoesOn(t *test) {
	const n = 10
	rate := admin.Rate{Starts: 1, Per: 50 * time.Millisecond, Burst: 1}
	c, q := t.limited(admin.QueueLimits{KeyRate: rate})
	key := func(i int) string { return []string{"a", "b"}[i%2] }
	enqueue := func() []uuid.UUID {
		return t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) { nt.Key = key(i) })
	}
	ids := enqueue()
	done := make(chan uuid.UUID, 2*n)
	w := worker.Worker{Queue: q, PollMin: time.Hour, PollMax: time.Hour, Logger: quietLog, Concurrency: 3,
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			done <- task.ID
			return dbq.Completed(nil)
		})}
	stop := t.runWorker(w)
	for i := range n {
		select {
		case <-done:
		case <-time.After(t.Patience):
			t.Fatalf("%d of %d tasks have started", i, n)
		}
	}
	stop()
	ids = append(ids, enqueue()...)
	w.UntilEmpty, w.PollMin, w.PollMax = true, 0, 0
	t.must(w.Run(t.ctx))
	if seen := t.keepsKeyRate(c, ids, key, rate); seen != len(ids) {
		t.Errorf("the history of %d tasks has %d attempts", len(ids), seen)
	}
}

func keyRateChanged(t *test) {
	slow := admin.Rate{Starts: 1, Per: long, Burst: 1}
	fast := admin.Rate{Starts: 1, Per: time.Millisecond, Burst: 1}
	for name, limits := range map[string]func(admin.Rate) admin.QueueLimits{
		"rate":         func(r admin.Rate) admin.QueueLimits { return admin.QueueLimits{Rate: r} },
		"rate per key": func(r admin.Rate) admin.QueueLimits { return admin.QueueLimits{KeyRate: r} },
	} {
		c, q := t.limited(limits(slow))
		t.enqueueMany(q, 5, func(_ int, nt *dbq.NewTask) { nt.Key = "a" })
		t.takeEventually(q, 1, long)
		t.wantNone(name+" has no start left", q)
		t.limit(c, q.Name(), limits(fast))
		t.takeEventually(q, 1, long)
		t.limit(c, q.Name(), limits(slow))
		t.eventually(name+" is slow again", func() bool { return len(t.checkout(q, 5, long)) == 0 })
		t.limit(c, q.Name(), admin.QueueLimits{PerKey: true})
		if got := len(t.checkout(q, 5, long)); got == 0 {
			t.Errorf("without a %s, no task starts", name)
		}
		if n := t.keysWithStarts(c, q.Name()); n != 0 {
			t.Errorf("without a %s, %d keys are known to have started tasks", name, n)
		}
	}
}

// keysWithStarts counts the rows of the rate per key of a queue whose name has no quote.
func (t *test) keysWithStarts(c *dbq.Client, queue string) (n int) {
	t.must(c.DB().QueryRowContext(t.ctx,
		fmt.Sprintf("SELECT COUNT(*) FROM %skey_rate WHERE queue = '%s'", t.Prefix, queue)).Scan(&n))
	return n
}

func keyRateClean(t *test) {
	const keys = 1200 // more than one transaction of cleaning removes
	c, q := t.limited(admin.QueueLimits{KeyRate: admin.Rate{Starts: 1, Per: long, Burst: 2}})
	t.enqueueMany(q, keys, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint(i) })
	t.takeEventually(q, keys, long)
	clean := func(want int) {
		_, err := admin.New(c).Clean(t.ctx, q.Name(), dbq.Retention{Completed: long})
		t.must(err)
		if n := t.keysWithStarts(c, q.Name()); n != want {
			t.Errorf("%d keys are known to have started tasks, want %d", n, want)
		}
	}
	clean(keys)
	_, err := c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %skey_rate SET full_at = 1 WHERE task_key <> '7'", t.Prefix))
	t.must(err)
	clean(1)
}

func keyRateKilled(t *test) {
	const keys, tasks, processes = 2, 16, 3
	rate := admin.Rate{Starts: 1, Per: 50 * time.Millisecond, Burst: 2}
	c := t.open()
	q := c.Queue("q")
	t.limit(c, "q", admin.QueueLimits{KeyRate: rate})
	key := func(i int) string { return fmt.Sprint(i % keys) }
	ids := t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = key(i), 1000 })
	for i := range processes {
		p := t.start(childSpec{Do: "crash", Name: fmt.Sprint("killed ", i), Queue: "q", Lease: 100 * time.Millisecond})
		defer p.wait(t.Patience)
	}
	crashed := func() (n int) {
		for _, id := range ids {
			attempts, err := admin.New(c).Attempts(t.ctx, id)
			t.must(err)
			for _, a := range attempts {
				if a.Worker != c.Info().ID {
					n++
				}
			}
		}
		return n
	}
	t.eventually("each process has died in an attempt, and the rest is done", func() bool {
		for _, task := range t.checkout(q, 1, long) {
			end := dbq.Completed(nil)
			if crashed() < processes {
				end = dbq.Released(0) // so that each process finds a task
			}
			t.must(q.Settle(t.ctx, task.Lease, end))
		}
		return t.idle(t.ctx, c)
	})
	if n := t.keepsKeyRate(c, ids, key, rate); n < tasks+processes {
		t.Errorf("the history of %d tasks and %d that crashed has %d attempts", tasks, processes, n)
	}
}
