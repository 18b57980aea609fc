package cases

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/state"
)

// raceAtExpiry gives slow workers all tasks with a short lease. They call late for each task around the moment at which
// its lease expires, while a second client takes over whatever it can get and completes it. This is repeated, since
// only some calls come close to that moment.
func (t *test) raceAtExpiry(late func(ctx context.Context, w *transcript.Caller, task dbq.Task) error) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const rounds, slow, rivals, each = 4, 4, 2, 8
	const lease = 150 * time.Millisecond
	q := clients[0].Queue("raced")
	holder := rec.Caller("slow worker", q)
	for range t.load(rounds) {
		rng := t.rngs(slow)
		if _, err := rec.Caller("producer", q).Enqueue(t.ctx, make([]dbq.NewTask, slow*each)); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		held, err := holder.Checkout(t.ctx, slow*each, lease)
		t.must(err)
		if len(held) != slow*each {
			t.Fatalf("checkout returned %d tasks, want %d", len(held), slow*each)
		}
		var slowDone atomic.Int32
		t.concurrently(slow+rivals, func(ctx context.Context, i int) {
			if i >= slow {
				w := rec.Caller(fmt.Sprintf("rival %d", i), clients[1].Queue("raced"))
				t.takeOverUntil(ctx, w, func() bool { return slowDone.Load() == slow })
				return
			}
			defer slowDone.Add(1)
			for k, task := range held[i*each : (i+1)*each] {
				jitter := time.Duration(k-each/2)*2*time.Millisecond + time.Duration(rng[i].IntN(2000))*time.Microsecond
				err := sleep(ctx, max(0, time.Until(task.Lease.Until)+jitter))
				if err == nil {
					err = late(ctx, holder, task)
				}
				if err != nil {
					t.Errorf("%s: %v", holder.Name, err)
					return
				}
			}
		})
	}
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
	count := map[transcript.Answer]int{}
	for _, r := range rec.Records() {
		if strings.HasPrefix(r.Worker, "slow") && r.Event != state.Checkout {
			count[r.Answer]++
		}
	}
	t.Logf("what became of the late calls: %v", count)
}

// takeOverUntil takes over and completes what it can until stop returns true and nothing is leased.
func (t *test) takeOverUntil(ctx context.Context, w *transcript.Caller, stop func() bool) {
	for {
		ending := stop()
		tasks, err := w.Checkout(ctx, 5, time.Minute)
		if err == nil && len(tasks) == 0 {
			if ending && t.idle(ctx, w.Queue.Client()) {
				return
			}
			err = sleep(ctx, time.Millisecond)
		}
		if len(tasks) > 0 && err == nil {
			err = sleep(ctx, 2*time.Millisecond) // for the late calls to come in between
		}
		for _, task := range tasks {
			if err == nil {
				_, err = w.Settle(ctx, false, settlement(task.Lease, dbq.Completed(nil)))
			}
		}
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			return
		}
	}
}

// idle reports whether no task waits or is leased.
func (t *test) idle(ctx context.Context, c *dbq.Client) bool {
	stats, err := admin.New(c).Stats(ctx, admin.CountAll())
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

func expiryWhileComplete(t *test) {
	t.raceAtExpiry(func(ctx context.Context, w *transcript.Caller, task dbq.Task) error {
		_, err := w.Settle(ctx, false, settlement(task.Lease, dbq.Completed(nil))) // the transcript is judged
		return err
	})
}

func extendWhileExpiring(t *test) {
	t.raceAtExpiry(func(ctx context.Context, w *transcript.Caller, task dbq.Task) error {
		renewed, _, err := w.Extend(ctx, []dbq.Lease{task.Lease}, time.Minute)
		if err != nil || len(renewed) == 0 {
			return err
		}
		if err := sleep(ctx, time.Millisecond); err != nil { // for the others to take it wrongly
			return err
		}
		_, err = w.Settle(ctx, false, settlement(renewed[0], dbq.Completed(nil)))
		return err
	})
}

func noStarvation(t *test) {
	c, rec := t.open(), transcript.NewRecorder()
	w := rec.Caller("worker", c.Queue("mixed"))
	n := t.load(100)
	// The task of the last priority is due the longest. What is due next week at a better priority must neither stand in
	// its way nor be handed out.
	ts := []dbq.NewTask{{Priority: dbq.MaxPriority}}
	for i := range n {
		ts = append(ts, dbq.NewTask{Priority: i % dbq.MaxPriority, Delay: 7 * 24 * time.Hour},
			dbq.NewTask{Priority: i % dbq.MaxPriority})
	}
	added, err := w.Enqueue(t.ctx, ts)
	t.must(err)
	low := added[0].ID
	for got := 0; got <= n; {
		tasks, err := w.Checkout(t.ctx, 20, long)
		t.must(err)
		if len(tasks) == 0 {
			t.Fatalf("checkout returned no task after %d of %d", got, n+1)
		}
		got += len(tasks)
		for i, task := range tasks {
			if task.ID == low && (got <= n || i < len(tasks)-1) {
				t.Errorf("the task of the last priority was handed out before others that are due")
			}
			if _, err := w.Settle(t.ctx, false, settlement(task.Lease, dbq.Completed(nil))); err != nil {
				t.Fatalf("complete: %v", err)
			}
		}
	}
	t.wantNone("only tasks of next week are left", w.Queue)
	t.wantState(c, low, dbq.StateCompleted)
	t.checkTranscript(c, rec.Records())
}

func expiredUnderBacklog(t *test) {
	c, rec := t.open(), transcript.NewRecorder()
	w := rec.Caller("worker", c.Queue("busy"))
	abandoned, err := w.Enqueue(t.ctx, []dbq.NewTask{{Priority: dbq.MaxPriority}})
	t.must(err)
	if tasks, err := w.Checkout(t.ctx, 1, short); err != nil || len(tasks) != 1 {
		t.Fatalf("checkout: got %d tasks and error %v, want 1", len(tasks), err)
	}
	// Well over the second after which a client looks for such leases at the latest.
	const within = 8 * time.Second
	for end := time.Now().Add(within); ; {
		if _, err := w.Enqueue(t.ctx, make([]dbq.NewTask, 20)); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		tasks, err := w.Checkout(t.ctx, 10, time.Minute)
		t.must(err)
		if len(tasks) < 10 {
			t.Fatalf("checkout returned %d tasks from a backlog, want 10", len(tasks))
		}
		ss := make([]dbq.Settlement, len(tasks))
		found := false
		for i, task := range tasks {
			ss[i] = settlement(task.Lease, dbq.Completed(nil))
			found = found || task.ID == abandoned[0].ID
		}
		_, err = w.Settle(t.ctx, false, ss...)
		t.must(err)
		if found {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the task was not handed out again within %v of its lease's end", within)
		}
		t.must(sleep(t.ctx, 10*time.Millisecond))
	}
	t.checkTranscript(c, rec.Records())
}

func manyQueues(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const workers, queues, perQueue = 4, 20, 6
	name := func(i int) string { return fmt.Sprintf("queue %02d", i) }
	var left [queues]backlog
	for i := range queues {
		w := rec.Caller("producer", clients[0].Queue(name(i)))
		_, err := w.Enqueue(t.ctx, make([]dbq.NewTask, perQueue))
		t.must(err)
		left[i].left.Store(perQueue)
	}
	rng := t.rngs(workers)
	t.concurrently(workers, func(ctx context.Context, i int) {
		for _, k := range rng[i].Perm(queues) {
			w := rec.Caller(fmt.Sprintf("worker %d", i), clients[i%2].Queue(name(k)))
			for left[k].left.Load() > 0 {
				tasks, err := w.Checkout(ctx, 1+rng[i].IntN(perQueue), time.Minute)
				for _, task := range tasks {
					if task.Queue != name(k) || task.Lease.Queue != name(k) {
						t.Errorf("a checkout from %q returned a task of %q", name(k), task.Queue)
					}
					if err == nil {
						err = settleCounted(ctx, w, false, &left[k], settlement(task.Lease, dbq.Completed(nil)))
					}
				}
				if err == nil && len(tasks) == 0 {
					err = sleep(ctx, time.Millisecond)
				}
				if err != nil {
					t.Errorf("%s on %s: %v", w.Name, name(k), err)
					return
				}
			}
		}
	})
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
}
