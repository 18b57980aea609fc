package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// duel lets slow workers take all tasks with a short lease and call late for each around the moment at which it runs out, while a
// second client takes over whatever it can get and completes it. It does so again and again, since only some tasks are close.
func (t *T) duel(late func(ctx context.Context, w *witness, task dbq.Task) error) {
	clients, rec := t.two(), newRecorder()
	const rounds, slow, rivals, each = 4, 4, 2, 8
	const lease = 150 * time.Millisecond
	q := clients[0].Queue("duel")
	holder := &witness{rec, "slow worker", q}
	for range t.load(rounds) {
		dice := t.dice(slow)
		if _, err := (&witness{rec, "feeder", q}).enqueue(t.ctx, make([]dbq.NewTask, slow*each)); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		held, err := holder.checkout(t.ctx, slow*each, lease)
		t.Must(err)
		if len(held) != slow*each {
			t.Fatalf("checkout returned %d tasks, want %d", len(held), slow*each)
		}
		var slowDone atomic.Int32
		t.together(slow+rivals, func(ctx context.Context, i int) {
			if i >= slow {
				w := &witness{rec, fmt.Sprintf("rival %d", i), clients[1].Queue("duel")}
				t.rival(ctx, w, func() bool { return slowDone.Load() == slow })
				return
			}
			defer slowDone.Add(1)
			for k, task := range held[i*each : (i+1)*each] {
				jitter := time.Duration(k-each/2)*2*time.Millisecond + time.Duration(dice[i].IntN(2000))*time.Microsecond
				err := rest(ctx, max(0, time.Until(task.Lease.Until)+jitter))
				if err == nil {
					err = late(ctx, holder, task)
				}
				if err != nil {
					t.Errorf("%s: %v", holder.name, err)
					return
				}
			}
		})
	}
	t.wantAll(t.judge(clients[0], rec.all()), dbq.StateCompleted)
	count := map[outcome]int{}
	for _, r := range rec.all() {
		if strings.HasPrefix(r.Worker, "slow") && r.Event != state.Checkout {
			count[r.Outcome]++
		}
	}
	t.Logf("what became of the late calls: %v", count)
}

// rival takes over what it can until stop says so and nothing is left in work.
func (t *T) rival(ctx context.Context, w *witness, stop func() bool) {
	for {
		ending := stop()
		tasks, err := w.checkout(ctx, 5, time.Minute)
		if err == nil && len(tasks) == 0 {
			if ending && t.idle(ctx, w.q.Client()) {
				return
			}
			err = rest(ctx, time.Millisecond)
		}
		if len(tasks) > 0 && err == nil {
			err = rest(ctx, 2*time.Millisecond) // for the late calls to come in between
		}
		for _, task := range tasks {
			if err == nil {
				_, err = w.settle(ctx, false, dbq.Completed(task.Lease, nil))
			}
		}
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			return
		}
	}
}

// idle reports whether nothing waits and nothing is in work.
func (t *T) idle(ctx context.Context, c *dbq.Client) bool {
	stats, err := c.Stats(ctx, dbq.CountAll())
	if err != nil {
		t.Errorf("stats: %v", err)
		return true
	}
	for _, s := range stats {
		if s.Count[dbq.StateCreated]+s.Count[dbq.StateProcessing]+s.Count[dbq.StateError]-s.Parked > 0 {
			return false
		}
	}
	return true
}

func expiryWhileComplete(t *T) {
	t.duel(func(ctx context.Context, w *witness, task dbq.Task) error {
		_, err := w.settle(ctx, false, dbq.Completed(task.Lease, nil)) // too late or not: the history is judged
		return err
	})
}

func extendWhileExpiring(t *T) {
	t.duel(func(ctx context.Context, w *witness, task dbq.Task) error {
		renewed, _, err := w.extend(ctx, []dbq.Lease{task.Lease}, time.Minute)
		if err != nil || len(renewed) == 0 {
			return err
		}
		if err := rest(ctx, time.Millisecond); err != nil { // for the others to take it wrongly
			return err
		}
		_, err = w.settle(ctx, false, dbq.Completed(renewed[0], nil))
		return err
	})
}

func noStarvation(t *T) {
	c, rec := t.Open(), newRecorder()
	w := &witness{rec, "worker", c.Queue("mixed")}
	n := t.load(100)
	// The task of the last priority is due the longest. What is due next week at a better priority must neither stand in its way
	// nor be handed out.
	ts := []dbq.NewTask{{Priority: dbq.MaxPriority}}
	for i := range n {
		ts = append(ts, dbq.NewTask{Priority: i % dbq.MaxPriority, Delay: 7 * 24 * time.Hour}, dbq.NewTask{Priority: i % dbq.MaxPriority})
	}
	added, err := w.enqueue(t.ctx, ts)
	t.Must(err)
	low := added[0].ID
	for got := 0; got <= n; {
		tasks, err := w.checkout(t.ctx, 20, long)
		t.Must(err)
		if len(tasks) == 0 {
			t.Fatalf("checkout returned no task after %d of %d", got, n+1)
		}
		got += len(tasks)
		for i, task := range tasks {
			if task.ID == low && (got <= n || i < len(tasks)-1) {
				t.Errorf("the task of the last priority was handed out before others that are due")
			}
			if _, err := w.settle(t.ctx, false, dbq.Completed(task.Lease, nil)); err != nil {
				t.Fatalf("complete: %v", err)
			}
		}
	}
	t.wantNone("only tasks of next week are left", w.q)
	t.wantState(c, low, dbq.StateCompleted)
	t.judge(c, rec.all())
}

func expiredUnderBacklog(t *T) {
	c, rec := t.Open(), newRecorder()
	w := &witness{rec, "worker", c.Queue("busy")}
	abandoned, err := w.enqueue(t.ctx, []dbq.NewTask{{Priority: dbq.MaxPriority}})
	t.Must(err)
	if tasks, err := w.checkout(t.ctx, 1, short); err != nil || len(tasks) != 1 {
		t.Fatalf("checkout: got %d tasks and error %v, want 1", len(tasks), err)
	}
	// Well over the second after which a client looks for such leases at the latest.
	const within = 8 * time.Second
	for end := time.Now().Add(within); ; {
		if _, err := w.enqueue(t.ctx, make([]dbq.NewTask, 20)); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		tasks, err := w.checkout(t.ctx, 10, time.Minute)
		t.Must(err)
		if len(tasks) < 10 {
			t.Fatalf("checkout returned %d tasks from a backlog, want 10", len(tasks))
		}
		ss := make([]dbq.Settlement, len(tasks))
		found := false
		for i, task := range tasks {
			ss[i] = dbq.Completed(task.Lease, nil)
			found = found || task.ID == abandoned[0].ID
		}
		_, err = w.settle(t.ctx, false, ss...)
		t.Must(err)
		if found {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the task was not handed out again within %v of its lease's end", within)
		}
		t.Must(rest(t.ctx, 10*time.Millisecond))
	}
	t.judge(c, rec.all())
}

func manyQueues(t *T) {
	clients, rec := t.two(), newRecorder()
	const workers, queues, perQueue = 4, 20, 6
	name := func(i int) string { return fmt.Sprintf("queue %02d", i) }
	var left [queues]stock
	for i := range queues {
		w := &witness{rec, "feeder", clients[0].Queue(name(i))}
		_, err := w.enqueue(t.ctx, make([]dbq.NewTask, perQueue))
		t.Must(err)
		left[i].left.Store(perQueue)
	}
	dice := t.dice(workers)
	t.together(workers, func(ctx context.Context, i int) {
		for _, k := range dice[i].Perm(queues) {
			w := &witness{rec, fmt.Sprintf("worker %d", i), clients[i%2].Queue(name(k))}
			for left[k].left.Load() > 0 {
				tasks, err := w.checkout(ctx, 1+dice[i].IntN(perQueue), time.Minute)
				for _, task := range tasks {
					if task.Queue != name(k) || task.Lease.Queue != name(k) {
						t.Errorf("a checkout from %q returned a task of %q", name(k), task.Queue)
					}
					if err == nil {
						err = settleCounted(ctx, w, false, &left[k], dbq.Completed(task.Lease, nil))
					}
				}
				if err == nil && len(tasks) == 0 {
					err = rest(ctx, time.Millisecond)
				}
				if err != nil {
					t.Errorf("%s on %s: %v", w.name, name(k), err)
					return
				}
			}
		}
	})
	t.wantAll(t.judge(clients[0], rec.all()), dbq.StateCompleted)
}
