package cases

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

func keyRoundTrip(t *test) {
	c := t.open()
	q := c.Queue("keys")
	key := strings.Repeat("Ä", dbq.MaxKey-1) + "'"
	id := t.enqueue(q, dbq.NewTask{Key: key, Reference: "with key", MaxAttempts: 2})
	t.enqueueMany(q, 3, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("k", i) })
	for range 2 {
		for _, task := range t.takeN(q, 4, long) {
			t.failIf(task.ID == id && task.Key != key, "the key of the task leased is %q, want %q", task.Key, key)
			t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom)))
		}
		if got := t.get(c, id); got.Key != key {
			t.Errorf("the key is %q, want %q", got.Key, key)
		}
	}
	found := t.list(c, admin.Filter{Queue: "keys", Key: "k1"})
	t.failIf(len(found) != 1 || found[0].Key != "k1", "tasks by key: %d, want 1", len(found))
	for name, key := range map[string]string{
		"too long": strings.Repeat("x", dbq.MaxKey+1), "control": "a\nb", "not UTF-8": "\xff"} {
		_, err := q.Enqueue(t.ctx, dbq.NewTask{Key: key})
		t.wantErr(name, err, dbq.ErrKey)
		_, err = admin.New(c).List(t.ctx, admin.Filter{Key: key})
		t.wantErr(name, err, dbq.ErrKey)
	}
}

func limitWhole(t *test) {
	const keys, batch = 60, 100
	for _, many := range []int{100, 600} { // which a checkout reads at once, or not
		c, q := t.limited(admin.QueueLimits{KeyConcurrency: 2})
		payloads := map[uuid.UUID][]byte{}
		sizes := []int{0, 1, 999, 1000, 1001, 5000}
		var ts []dbq.NewTask
		for i := range many {
			nt := dbq.NewTask{ID: dbq.NewID(), Key: fmt.Sprint("k", i%keys), Kind: "whole", Priority: i % 3, MaxAttempts: 3,
				Reference: fmt.Sprint("r", i), Headers: map[string]string{"n": fmt.Sprint(i)}}
			if n := i % (len(sizes) + 1); n < len(sizes) {
				nt.Payload = bytes.Repeat([]byte{'p'}, sizes[n])
			}
			ts, payloads[nt.ID] = append(ts, nt), nt.Payload
		}
		must(q.EnqueueMany(t.ctx, ts))
		seen := map[int]int{} // tasks by attempts
		for range 2 * many / batch {
			got := t.checkout(q, batch, long)
			var ss []dbq.Settlement
			for _, task := range got {
				seen[task.Attempt]++
				end := dbq.RetryIn(0, errors.New(strings.Repeat("x", 1+len(ss)%2*3000)))
				if task.Attempt == 2 {
					end = dbq.Completed(nil)
				}
				ss = append(ss, settlement(task.Lease, end))
				if want := payloads[task.ID]; !bytes.Equal(task.Payload, want) || (task.Payload == nil) != (want == nil) {
					t.Errorf("task %s has a payload of %d bytes (nil: %v), want %d (nil: %v)", task.ID, len(task.Payload),
						task.Payload == nil, len(want), want == nil)
				}
				task.Lease, task.Waited = dbq.Lease{}, 0
				if stored := t.get(c, task.ID); !reflect.DeepEqual(task, stored) {
					t.Errorf("the checkout returned %+v, and the table has %+v", task, stored)
				}
			}
			t.settleAll(q, ss)
		}
		t.failIf(seen[1] == 0 || seen[2] == 0, "of %d tasks, these were checked out, by attempt: %v", many, seen)
	}
}

func limitTurns(t *test) {
	for _, many := range []int{100, 1200} { // which a checkout reads at once, or not
		_, q := t.limited(admin.QueueLimits{PerKey: true})
		t.enqueueMany(q, many, func(_ int, nt *dbq.NewTask) { nt.Key = "m" })
		few := t.enqueueMany(q, 10, func(i int, nt *dbq.NewTask) { nt.Key = []string{"a", "z"}[i%2] })
		var got []dbq.Task
		t.eventually("the first tasks", func() bool {
			got = append(got, t.checkout(q, 5, long)...)
			return len(got) >= 20
		})
		n := 0
		for _, task := range got[:20] {
			if slices.Contains(few, task.ID) {
				n++
			}
		}
		t.failIf(n != len(few),
			"%d of the %d tasks of small keys are among the first 20, behind %d others", n, len(few), many)
	}
	for _, many := range []int{50, 600} {
		_, q := t.limited(admin.QueueLimits{PerKey: true})
		t.enqueueMany(q, 2*many, func(i int, nt *dbq.NewTask) { nt.Key = []string{"a", "b"}[i%2] })
		t.enqueueMany(q, 2, func(_ int, nt *dbq.NewTask) { nt.Key = "z" })
		next := func(n int) (keys string) {
			t.eventually("the next tasks", func() bool {
				for _, task := range t.checkout(q, n, long) {
					keys += task.Key
				}
				return keys != ""
			})
			return keys
		}
		keys := ""
		for range 6 { // each goes on where the one before has ended
			keys += next(1)
		}
		t.failIf(keys != "abzabz", "checkouts of one task each have served the keys %q, want %q", keys, "abzabz")
		if keys = next(8); strings.Count(keys, "a") != 4 || strings.Count(keys, "b") != 4 {
			t.Errorf("a checkout of 8 tasks of two keys has served %q, want 4 of each", keys)
		}
	}
}

func limitOneTurn(t *test) {
	t.serveInOneTurn(0, 5, 5)
	t.serveInOneTurn(0, 25, 5) // a key is in checkouts that come one after the other
	t.serveInOneTurn(7, 40, 8) // each checkout ends with the key that the one before has ended with
}

// serveInOneTurn checks out tasks: one batch first, and then enough batches to serve each key a number of times. They
// run at the same time by one client, then by turns by two, and then at the same time by others.
func (t *test) serveInOneTurn(one, batch, times int) {
	const keys, callers = 40, 4
	c, first := t.limited(admin.QueueLimits{PerKey: true})
	queues := []*dbq.Queue{first, t.open().Queue(first.Name())}
	keyOf := func(i int) string { return fmt.Sprintf("k%02d", i%keys) }
	t.enqueueMany(first, keys*(3*times+15), func(i int, nt *dbq.NewTask) { nt.Key = keyOf(i) })
	if one > 0 {
		t.checkout(first, one, long)
	}
	atOnce := func(queues ...*dbq.Queue) {
		var begun atomic.Int64
		t.concurrently(callers, func(ctx context.Context, i int) {
			for begun.Add(1) <= int64(keys*times/batch) {
				must(queues[i%len(queues)].Checkout(ctx, batch, long))
			}
		})
	}
	atOnce(first)
	next, rng := one, t.rngs(1)[0]
	for range keys * times / batch {
		caller := rng.IntN(len(queues))
		tasks := t.checkout(queues[caller], batch, long)
		slices.SortStableFunc(tasks, func(a, b dbq.Task) int { return cmp.Compare(a.Key, b.Key) })
		want := make([]string, 0, batch)
		for range batch {
			want = append(want, keyOf(next))
			next++
		}
		slices.Sort(want)
		got := make([]string, 0, batch)
		for _, task := range tasks {
			got = append(got, task.Key)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("client %d got tasks of the keys %v, want %v", caller, got, want)
		}
	}
	atOnce(t.open().Queue(first.Name()), t.open().Queue(first.Name()), t.open().Queue(first.Name()))
	served := map[string]int{}
	for _, task := range t.list(c, admin.Filter{Queue: first.Name(), States: []dbq.State{dbq.StateProcessing}}) {
		served[task.Key]++
	}
	for i := range keys {
		want := 3 * times
		if i < one {
			want++
		}
		if got := served[keyOf(i)]; got != want {
			t.Errorf("%d tasks of %s were served in batches of %d, want %d", got, keyOf(i), batch, want)
		}
	}
}

func limitReplaced(t *test) {
	const keys, each, clients, unique, atLeast = 100, 15, 3, 10, 2 * time.Second
	c, first := t.limited(admin.QueueLimits{KeyConcurrency: 1})
	keyOf := func(i int) string { return fmt.Sprintf("k%02d", i%keys) }
	t.enqueueMany(first, keys*each, func(i int, nt *dbq.NewTask) { nt.Key = keyOf(i) })
	var mu sync.Mutex
	held, begun := map[string]uuid.UUID{}, time.Now()
	t.concurrently(clients+1, func(ctx context.Context, k int) {
		q := t.open().Queue(first.Name())
		for i := 0; time.Since(begun) < atLeast && !t.failed(); i++ {
			if k == clients {
				nt := dbq.NewTask{Key: keyOf(i * 37), RunAt: time.Now().Add(-time.Hour), // the first of its key
					Unique: &dbq.Unique{Key: fmt.Sprint("u", i%unique), OnConflict: dbq.UniqueReplace}}
				must(q.Enqueue(ctx, nt))
				continue
			}
			got := must(q.Checkout(ctx, 20, long))
			mu.Lock()
			for _, task := range got {
				if other, ok := held[task.Key]; ok {
					t.Errorf("task %s is leased beside %s, of the same key %s", task.ID, other, task.Key)
				}
				held[task.Key] = task.ID
			}
			mu.Unlock()
			for _, task := range got {
				mu.Lock()
				delete(held, task.Key)
				mu.Unlock()
				t.must(q.Settle(ctx, task.Lease, dbq.Released(0)))
			}
		}
	})
	if n := t.count(c, first.Name()); n < keys*each {
		t.Errorf("%d of %d tasks are left", n, keys*each)
	}
}

func limitHot(t *test) {
	for _, many := range []int{50, 1200} {
		_, q := t.limited(admin.QueueLimits{KeyConcurrency: 1})
		t.enqueueMany(q, many, func(_ int, nt *dbq.NewTask) { nt.Key = "hot" })
		t.enqueueMany(q, 20, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("k", i) })
		keys := map[string]bool{}
		for _, task := range t.takeN(q, 21, long) {
			t.failIf(keys[task.Key], "two tasks of %q are leased", task.Key)
			keys[task.Key] = true
		}
		t.wantNone("at the limits of all keys", q)
	}
}

func limitNoKey(t *test) {
	for _, many := range []int{3, 600} {
		_, q := t.limited(admin.QueueLimits{KeyConcurrency: 1})
		t.enqueueMany(q, many, func(_ int, nt *dbq.NewTask) { nt.Priority = 2; nt.Key = "hot" })
		t.enqueueMany(q, 5, func(i int, nt *dbq.NewTask) { nt.Delay, nt.Priority = time.Nanosecond, i%2 })
		n := 0
		for _, task := range t.takeN(q, 6, long) {
			if task.Key == "" {
				n++
			}
		}
		t.failIf(n != 5, "%d of 5 tasks without a key are leased", n)
	}
}

// keepsRate checks that in any time d, at most Burst + d * Starts / Per tasks started.
func (t *test) keepsRate(whose string, c *dbq.Client, starts []time.Time, rate admin.Rate) {
	slices.SortFunc(starts, time.Time.Compare)
	for i := range starts {
		for k := i; k < len(starts); k++ {
			d := starts[k].Sub(starts[i]) + c.Info().Server.Precision
			if n, most := k-i+1, rate.Burst+int(d*time.Duration(rate.Starts)/rate.Per); n > most {
				t.Fatalf("%d tasks of %s started in %v, want at most %d: the rate is %+v", n, whose, d, most, rate)
			}
		}
	}
}

// keepsKeyRate checks by the history of tasks that have ended that no key has exceeded its rate. It returns how many
// starts it has seen.
func (t *test) keepsKeyRate(c *dbq.Client, ids []uuid.UUID, keyOf func(i int) string, rate admin.Rate) (seen int) {
	starts := map[string][]time.Time{}
	for i, id := range ids {
		attempts := t.attemptsOf(c, id)
		seen += len(attempts)
		for _, a := range attempts {
			starts[keyOf(i)] = append(starts[keyOf(i)], a.Taken)
		}
	}
	delete(starts, "")
	for key, at := range starts {
		t.keepsRate("key "+key, c, at, rate)
	}
	return seen
}

func keyRateKept(t *test) {
	rate := admin.Rate{Starts: 2, Per: 200 * time.Millisecond, Burst: 3}
	key := func(i int) string { return []string{"a", "b", "c", "d", ""}[i%5] }
	w := t.workLimited(admin.QueueLimits{KeyRate: rate}, key, nil)
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
		t.failIf(len(got) != 1 || got[0].ID != id,
			"behind %d keys without a start left, %d tasks were handed out, want that of %q", keys, len(got), key)
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
	for _, task := range t.takeN(q, len(ids), short) {
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
	t.failIf(len(again) != 5, "%d tasks were taken over, want 5", len(again))
	waiting := map[uuid.UUID]bool{}
	for _, id := range ids {
		task := t.get(c, id)
		if _, taken := again[id]; taken {
			continue
		}
		waiting[id] = true
		t.failIf(task.State != dbq.StateCreated || task.Key != "a" || task.Due.IsZero(),
			"a task without a start left is %s, want it due", show(task))
		t.wantAttempts(c, id, "1 crashed")
	}
	t.limit(c, q.Name(), admin.QueueLimits{PerKey: true})
	for _, task := range t.takeN(other, 2, long) {
		t.failIf(!waiting[task.ID] || task.Attempt != 2,
			"attempt %d of task %s started, want the second of those that waited", task.Attempt, task.ID)
		t.must(other.Complete(t.ctx, task.Lease, nil))
		if as := t.attemptsOf(c, task.ID); len(as) != 2 || as[1].Number != 2 {
			t.Errorf("the attempts are %+v, want one that crashed and the second", as)
		}
	}
}

func keyRateGoesOn(t *test) {
	rate := admin.Rate{Starts: 1, Per: 50 * time.Millisecond, Burst: 1}
	t.rateGoesOn(admin.QueueLimits{KeyRate: rate}, rate, func(i int) string { return []string{"a", "b"}[i%2] })
	t.rateGoesOn(admin.QueueLimits{Rate: rate}, rate, func(int) string { return "one key" })
}

// rateGoesOn uses a worker that polls once an hour, and one that runs until the queue is empty.
func (t *test) rateGoesOn(l admin.QueueLimits, rate admin.Rate, key func(i int) string) {
	const n = 10
	c, q := t.limited(l)
	enqueue := func() []uuid.UUID {
		return t.enqueueMany(q, n, func(i int, nt *dbq.NewTask) { nt.Key = key(i) })
	}
	ids := enqueue()
	done := make(chan uuid.UUID, 2*n)
	w := worker.Worker{Queue: q, Tuning: worker.Tuning{PollMin: time.Hour, PollMax: time.Hour}, Concurrency: 3,
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
			done <- task.ID
			return dbq.Completed(nil)
		})}
	stop := t.runWorker(w)
	for i := range n {
		await(t, fmt.Sprintf("task %d of %d starts", i, n), done)
	}
	stop()
	ids = append(ids, enqueue()...)
	w.PollMin, w.PollMax = 0, 0
	t.runUntilEmpty(w)
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
		t.takeN(q, 1, long)
		t.wantNone(name+" has no start left", q)
		t.limit(c, q.Name(), limits(fast))
		t.takeN(q, 1, long)
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
func (t *test) keysWithStarts(c *dbq.Client, queue string) int {
	return t.rows(c.DB(), fmt.Sprintf("%skey_rate WHERE queue = '%s'", t.Prefix, queue))
}

func keyRateClean(t *test) {
	const keys = 1200 // more than one transaction of cleaning removes
	c, q := t.limited(admin.QueueLimits{KeyRate: admin.Rate{Starts: 1, Per: long, Burst: 2}})
	t.enqueueMany(q, keys, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint(i) })
	t.takeN(q, keys, long)
	clean := func(want int) {
		t.clean(q, dbq.Retention{Completed: long})
		if n := t.keysWithStarts(c, q.Name()); n != want {
			t.Errorf("%d keys are known to have started tasks, want %d", n, want)
		}
	}
	clean(keys)
	must(c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %skey_rate SET full_at = 1 WHERE task_key <> '7'", t.Prefix)))
	clean(1)
}

func keyRateKilled(t *test) {
	const keys, tasks, processes = 2, 16, 3
	rate := admin.Rate{Starts: 1, Per: 50 * time.Millisecond, Burst: 2}
	c, q := t.openQueue()
	t.limit(c, "q", admin.QueueLimits{KeyRate: rate})
	key := func(i int) string { return fmt.Sprint(i % keys) }
	ids := t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = key(i), 1000 })
	for i := range processes {
		p := t.start(childSpec{Do: "crash", Name: fmt.Sprint("killed ", i), Queue: "q", Lease: 100 * time.Millisecond})
		defer p.wait(t.Patience)
	}
	crashed := func() (n int) {
		for _, id := range ids {
			for _, a := range t.attemptsOf(c, id) {
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

func limitOrder(t *test) {
	const keys = 7
	key := func(i int) string { return fmt.Sprint("key ", i%keys) }
	t.workLimited(admin.QueueLimits{Order: admin.OrderSkip}, key, func(w *working) string {
		place := map[uuid.UUID]int{}
		for i, id := range w.ids {
			place[id] = i
		}
		for id, task := range w.tasks {
			if w.ends[id] {
				continue // it was taken over, since the call that ends it came too late
			}
			for i := place[id] - keys; i >= 0; i -= keys {
				if !w.ends[w.ids[i]] {
					return fmt.Sprintf("task %d of %q started before task %d has ended", place[id], task.Key, i)
				}
			}
		}
		return ""
	})
}

// wantStarted checks that the tasks of some ids start, and no others. It returns them in the order of ids.
func (t *test) wantStarted(when string, q *dbq.Queue, ids ...uuid.UUID) (tasks []dbq.Task) {
	if len(ids) == 0 {
		t.wantNone(when, q)
		return nil
	}
	place := func(task dbq.Task) int { return slices.Index(ids, task.ID) }
	tasks = t.takeN(q, len(ids), long)
	for _, task := range tasks {
		if place(task) < 0 {
			t.Fatalf("%s: task %s of key %q started, want %v", when, task.ID, task.Key, ids)
		}
	}
	slices.SortFunc(tasks, func(a, b dbq.Task) int { return place(a) - place(b) })
	t.wantNone(when+", and the others have started", q)
	return tasks
}

func limitOrderWaits(t *test) {
	c, q := t.limited(admin.QueueLimits{Order: admin.OrderBlock})
	var ids []uuid.UUID
	for i := range 6 {
		nt := dbq.NewTask{Key: []string{"a", "b"}[i%2]}
		if i == 0 {
			nt.Delay = long
		}
		ids = append(ids, t.enqueue(q, nt))
	}
	b := t.wantStarted("the first of a is delayed", q, ids[1])[0]
	t.operate(c, admin.Cancel, ids[0])
	a := t.wantStarted("it is cancelled", q, ids[2])[0]
	t.must(q.Settle(t.ctx, a.Lease, dbq.RetryIn(long, errBoom)))
	t.must(q.Settle(t.ctx, b.Lease, dbq.Released(long)))
	t.wantStarted("one waits for its retry and one was released for later", q)
	t.operate(c, admin.Reenqueue, ids[2])
	a = t.wantStarted("the retry is due", q, ids[2])[0]
	t.must(q.Complete(t.ctx, a.Lease, nil))
	t.wantStarted("it is completed", q, ids[4])
}

func limitOrderPoison(t *test) {
	for _, order := range []admin.KeyOrder{admin.OrderBlock, admin.OrderSkip} {
		c, q := t.limited(admin.QueueLimits{Order: order})
		ids := t.enqueueMany(q, 10, func(i int, nt *dbq.NewTask) { nt.Key = []string{"a", "b"}[i%2] })
		started := t.wantStarted("at first", q, ids[0], ids[1])
		t.must(q.Settle(t.ctx, started[0].Lease, dbq.Poisoned(errBoom)))
		t.operate(c, admin.Revoke, started[1].ID)
		if order == admin.OrderSkip {
			t.endAll(q, t.wantStarted("the failed ones are skipped", q, ids[2], ids[3]), dbq.Completed(nil))
			t.operate(c, admin.Reenqueue, ids[0])
			t.wantStarted("one is reenqueued", q, ids[0], ids[5])
			continue
		}
		t.wantStarted("the failed ones block their keys", q)
		t.operate(c, admin.Cancel, started[1].ID)
		next := t.wantStarted("one is cancelled", q, ids[3])
		t.operate(c, admin.Purge, started[0].ID)
		next = append(next, t.wantStarted("one is removed", q, ids[2])...)
		t.endAll(q, next, dbq.Poisoned(errBoom))
		t.operate(c, admin.Reenqueue, ids[2])
		t.wantStarted("one is reenqueued", q, ids[2])
	}
}

func limitOrderMany(t *test) {
	const tasks = 520
	c, q := t.limited(admin.QueueLimits{Order: admin.OrderSkip})
	ids := t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) {
		if nt.Key = "hot"; i >= tasks-4 {
			nt.Key = fmt.Sprint("k", i%2)
		}
	})
	t.operate(c, admin.Cancel, ids[0])
	started := t.takeN(q, 3, long)
	want := map[uuid.UUID]bool{ids[1]: true, ids[tasks-4]: true, ids[tasks-3]: true}
	for _, task := range started {
		t.failIf(!want[task.ID], "task %s of key %q started, want the first of each key", task.ID, task.Key)
	}
}

func limitOrderWakes(t *test) {
	c, q := t.openQueue()
	t.limit(c, "q", admin.QueueLimits{Order: admin.OrderBlock})
	mine := t.listening(c)
	clients := map[string]*dbq.Client{"this process": c}
	if receivesNotifications(c) {
		clients["another process"] = t.otherProcess(c) // it does not know that the queue has limits
	}
	wakes := func(what string, do func() error) {
		mine.BeforeCheckout() // serves the earlier tasks
		t.must(do())
		t.failIf(!woken(mine, t.Patience), "%s: not woken", what)
	}
	held := t.takeNew(q, dbq.NewTask{Key: "k"}, long)
	wakes("a settlement", func() error { return q.Complete(t.ctx, held.Lease, nil) })
	for name, c := range clients {
		ops := admin.New(c)
		ids := t.enqueueMany(q, 4, func(i int, nt *dbq.NewTask) { nt.Key, nt.Delay = name, long })
		wakes("cancel by "+name, func() error { return ops.Operate(t.ctx, admin.Cancel, ids[0]) })
		wakes("cancel by filter by "+name, func() error {
			_, err := ops.OperateMany(t.ctx, admin.Cancel, admin.Filter{Key: name, Limit: 1})
			return err
		})
		wakes("cancel in a transaction by "+name, func() error {
			tx := t.beginTx(c)
			if err := ops.OperateTx(t.ctx, tx, admin.Cancel, ids[2]); err != nil {
				return err
			}
			return tx.Commit()
		})
		t.operate(c, admin.Reject, ids[3])
		wakes("purge by "+name, func() error { return ops.Operate(t.ctx, admin.Purge, ids[3]) })
	}
}

// limitKilled drains a queue with an order and a limit by processes that are killed while they hold tasks, and judges
// the order by the times of all attempts.
func limitKilled(t *test) {
	const keys, tasks, most = 6, 120, 4
	c, q := t.openQueue()
	t.limit(c, "q", admin.QueueLimits{Concurrency: most, Order: admin.OrderBlock})
	ids := t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = fmt.Sprint(i%keys), 1000 })
	var ps []*process
	start := func() {
		ps = append(ps, t.start(childSpec{Do: "persist", Name: fmt.Sprint("killed ", len(ps)), Queue: "q",
			Batch: []int{keys / 2}, Lease: 500 * time.Millisecond,
			Pause: 300 * time.Millisecond})) // it nearly always holds some
	}
	start()
	for i := range 3 {
		start() // beside the one that is killed
		t.eventually("a process has tasks", func() bool {
			held, settled := heldAndSettled(ps[i].records())
			return held > 0 && settled > 0 || t.idle(t.ctx, c)
		})
		ps[i].kill()
	}
	ps[3].kill()
	t.eventually("the rest is done", func() bool {
		if n := len(t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateProcessing}})); n > most {
			t.Fatalf("%d tasks are leased, the limit is %d", n, most)
		}
		t.endAll(q, t.checkout(q, 2, long), dbq.Completed(nil))
		return t.idle(t.ctx, c)
	})
	t.failIf(t.crashes(c, ids) == 0, "no process was killed while it held a task")
	t.keepsOrder(c, ids, func(i int) string { return fmt.Sprint(i % keys) })
}

// crashes counts the attempts of tasks that have crashed.
func (t *test) crashes(c *dbq.Client, ids []uuid.UUID) (n int) {
	for _, id := range ids {
		for _, a := range t.attemptsOf(c, id) {
			if a.Outcome == dbq.AttemptCrashed {
				n++
			}
		}
	}
	return n
}

// keepsOrder checks by the attempts of completed tasks, by the database's clock, that no two tasks of a key were held
// at once, and that each began after those before it had ended. ids are in the order in which the tasks were enqueued.
func (t *test) keepsOrder(c *dbq.Client, ids []uuid.UUID, keyOf func(i int) string) {
	type end struct {
		at time.Time
		i  int
	}
	last := map[string]end{}
	for i, id := range ids {
		as := t.attemptsOf(c, id)
		slices.SortFunc(as, func(a, b dbq.Attempt) int { return int(a.Fence - b.Fence) })
		if len(as) == 0 || as[len(as)-1].Outcome != dbq.AttemptCompleted {
			t.Errorf("the attempts of task %d are %+v, want the last one completed", i, as)
			continue
		}
		for _, a := range as {
			if was := last[keyOf(i)]; a.Taken.Before(was.at) || a.Ended.Before(a.Taken) {
				t.Errorf("an attempt of task %d of key %q lasted from %v to %v, and one of task %d until %v", i, keyOf(i), a.Taken,
					a.Ended, was.i, was.at)
			}
			last[keyOf(i)] = end{a.Ended, i}
		}
	}
}
