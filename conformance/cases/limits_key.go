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
	"github.com/google/uuid"
)

// limitKeyCases are the limits per key, and the turns of keys.
func limitKeyCases() []Case {
	return inGroup("Limits",
		Case{Name: "KeyRoundTrip", Once: true, SharedTables: true, run: keyRoundTrip,
			Law: "A task keeps its key through its states, lists find it by its key, and a key that is too long or has " +
				"control characters is refused."},
		Case{Name: "NeverOverTheLimitOfAKey", run: limitKey,
			Law: "No key ever has more leased tasks than the limit per key, though many clients check out at once and tasks " +
				"fail, are released and are abandoned; and each task is done in the end."},
		Case{Name: "ReplacedTaskIsOfItsNewKey", SharedTables: true, run: limitReplaced,
			Law: "No key has more leased tasks than the limit per key, though waiting tasks are replaced and get other keys " +
				"while they are checked out."},
		Case{Name: "WholeTasks", SharedTables: true, run: limitWhole,
			Law: "A checkout within limits per key returns each task as the table has it, with a payload of any size, from a " +
				"short and a long backlog, and again after a failure."},
		Case{Name: "KeysInTurn", SharedTables: true, run: limitTurns,
			Law: "Keys are served in turn: the few tasks of a key do not wait for the many of another that came before."},
		Case{Name: "OneTurnOfAllClients", SharedTables: true, run: limitOneTurn,
			Law: "The checkouts of several clients serve the keys in one turn, one after the other and at the same time: each " +
				"goes on where the one before has ended, whichever client it was."},
		Case{Name: "HotKeyDelaysNoOtherKey", SharedTables: true, run: limitHot,
			Law: "A key that has reached its limit does not delay the tasks of other keys, however many of its own wait."},
		Case{Name: "TasksWithoutKey", SharedTables: true, run: limitNoKey,
			Law: "In a queue with limits per key, tasks without a key are handed out, too, and have no limit per key."},
	)
}

func keyRoundTrip(t *test) {
	c := t.open()
	q := c.Queue("keys")
	key := strings.Repeat("Ä", dbq.MaxKey-1) + "'"
	id := t.enqueue(q, dbq.NewTask{Key: key, Reference: "with key", MaxAttempts: 2})
	t.enqueueMany(q, 3, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("k", i) })
	for range 2 {
		for _, task := range t.takeEventually(q, 4, long) {
			if task.ID == id && task.Key != key {
				t.Errorf("the key of the task leased is %q, want %q", task.Key, key)
			}
			t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom)))
		}
		if got := t.get(c, id); got.Key != key {
			t.Errorf("the key is %q, want %q", got.Key, key)
		}
	}
	found := t.list(c, admin.Filter{Queue: "keys", Key: "k1"})
	if len(found) != 1 || found[0].Key != "k1" {
		t.Errorf("tasks by key: %d, want 1", len(found))
	}
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
		c, q := t.limited(admin.QueueLimits{KeyLeased: 2})
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
		_, err := q.EnqueueMany(t.ctx, ts)
		t.must(err)
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
		if seen[1] == 0 || seen[2] == 0 {
			t.Errorf("of %d tasks, these were checked out, by attempt: %v", many, seen)
		}
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
		if n != len(few) {
			t.Errorf("%d of the %d tasks of small keys are among the first 20, behind %d others", n, len(few), many)
		}
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
		if keys != "abzabz" {
			t.Errorf("checkouts of one task each have served the keys %q, want %q", keys, "abzabz")
		}
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

// serveInOneTurn checks out tasks: one batch first, and then as many batches as serve each key a number of times, at
// the same time by one client, then by turns by two, and then at the same time by others.
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
				if _, err := queues[i%len(queues)].Checkout(ctx, batch, long); err != nil {
					t.Errorf("checkout: %v", err)
				}
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
	c, first := t.limited(admin.QueueLimits{KeyLeased: 1})
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
				if _, err := q.Enqueue(ctx, nt); err != nil {
					t.Errorf("replace: %v", err)
				}
				continue
			}
			got, err := q.Checkout(ctx, 20, long)
			if err != nil {
				t.Errorf("checkout: %v", err)
			}
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
				if err := q.Settle(ctx, task.Lease, dbq.Released(0)); err != nil {
					t.Errorf("settle: %v", err)
				}
			}
		}
	})
	if n := t.count(c, first.Name()); n < keys*each {
		t.Errorf("%d of %d tasks are left", n, keys*each)
	}
}

func limitHot(t *test) {
	for _, many := range []int{50, 1200} {
		_, q := t.limited(admin.QueueLimits{KeyLeased: 1})
		t.enqueueMany(q, many, func(_ int, nt *dbq.NewTask) { nt.Key = "hot" })
		t.enqueueMany(q, 20, func(i int, nt *dbq.NewTask) { nt.Key = fmt.Sprint("k", i) })
		keys := map[string]bool{}
		for _, task := range t.takeEventually(q, 21, long) {
			if keys[task.Key] {
				t.Errorf("two tasks of %q are leased", task.Key)
			}
			keys[task.Key] = true
		}
		t.wantNone("at the limits of all keys", q)
	}
}

func limitNoKey(t *test) {
	for _, many := range []int{3, 600} {
		_, q := t.limited(admin.QueueLimits{KeyLeased: 1})
		t.enqueueMany(q, many, func(_ int, nt *dbq.NewTask) { nt.Priority = 2; nt.Key = "hot" })
		t.enqueueMany(q, 5, func(i int, nt *dbq.NewTask) { nt.Delay, nt.Priority = time.Nanosecond, i%2 })
		n := 0
		for _, task := range t.takeEventually(q, 6, long) {
			if task.Key == "" {
				n++
			}
		}
		if n != 5 {
			t.Errorf("%d of 5 tasks without a key are leased", n)
		}
	}
}
