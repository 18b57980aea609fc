package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// contentionCases are the promises under many workers. Each case records the holders of the tasks by fence, and checks
// that transcript instead of counts: see package transcript.
func contentionCases() []Case {
	return inGroup("Contention",
		Case{Name: "NoDoubleDelivery", Alone: true, run: noDoubleDelivery,
			Law: "Many workers that drain one queue never hold the same task at the same time, and settle each task once."},
		Case{Name: "NoLostTask", Alone: true, run: noLostTask,
			Law: "A task whose workers die, fail and release it is handed out until it is completed, and completed once."},
		Case{Name: "EnqueueWhileCheckout", Alone: true, run: enqueueWhileCheckout,
			Law: "With at least as many tasks as workers, each worker that keeps checking out gets one while others enqueue."},
		Case{Name: "ExpiryWhileComplete", run: expiryWhileComplete,
			Law: "When a lease expires during its completion, either the completion or the takeover succeeds, never both."},
		Case{Name: "OperatorsWhileWorking", Alone: true, run: operatorsWhileWorking,
			Law: "Operators' events of every kind, at random, never make workers share or lose a task."},
		Case{Name: "DuplicateEnqueueRace", run: duplicateEnqueueRace,
			Law: "Of many concurrent enqueues of one reference, exactly one adds a task, the others get its id, and none " +
				"fails, whatever the order within their batches."},
		Case{Name: "KilledProcess", Alone: true, run: killedProcess,
			Law: "A killed process's tasks are taken over when their leases have expired, and each is completed once."},
		Case{Name: "CrashingTaskEndsInPoison", run: crashingTaskEndsInPoison,
			Law: "A task that crashes its process on every attempt is POISON after the last one, with no failure reported."},
	)
}

// workersLimit bounds how long a case waits for its workers.
const workersLimit = time.Minute

// concurrently runs n workers side by side and waits for all of them. Their context ends after workersLimit, or when
// one of them ends the case.
func (t *test) concurrently(n int, work func(ctx context.Context, i int)) {
	ctx, cancel := context.WithTimeout(t.ctx, workersLimit)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() {
				if t.catch(recover()) {
					cancel()
				}
			}()
			work(ctx, i)
		}()
	}
	all.Wait()
}

// rngs returns a random number generator for each of n workers, derived from the suite's seed. Call it before the
// workers start.
func (t *test) rngs(n int) []*rand.Rand {
	out := make([]*rand.Rand, n)
	for i := range out {
		out[i] = rand.New(rand.NewPCG(t.rand.Uint64(), uint64(i)))
	}
	return out
}

// load scales an amount of work by Env.Load.
func (t *test) load(n int) int { return n * t.Load }

// twoClients opens two clients, as two programs would, on two nodes if the cluster has them.
func (t *test) twoClients() []*dbq.Client {
	return []*dbq.Client{t.openDSN(t.nodeDSN(0)), t.openDSN(t.nodeDSN(1))}
}

// checkTranscript reports each violation that the transcript shows, and each attempt of a task that is not known. It
// returns the tasks that exist at the end.
func (t *test) checkTranscript(c *dbq.Client, records []transcript.Record) []dbq.Task {
	end := t.list(c, admin.Filter{})
	for _, fault := range (transcript.Transcript{Records: records, Tasks: end}).Violations() {
		t.Errorf("%s", fault)
	}
	for _, task := range end {
		t.wantEveryAttempt(c, task)
	}
	return end
}

// wantAll records a failure unless every task is in a state.
func (t *test) wantAll(tasks []dbq.Task, want dbq.State) {
	count := map[dbq.State]int{}
	for _, task := range tasks {
		count[task.State]++
	}
	t.failIf(len(tasks) != count[want], "in the end the tasks are %v, want all of them %v", count, want)
}

func noDoubleDelivery(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const workers, producers = 8, 2
	each := t.load(800)
	rng := t.rngs(workers + producers)
	var s backlog
	s.producing.Store(producers)
	t.concurrently(workers+producers, func(ctx context.Context, i int) {
		w := rec.Caller(fmt.Sprintf("worker %d", i), clients[i%2].Queue("drained"))
		if i >= workers {
			defer s.producing.Add(-1)
			t.produce(ctx, w, each, rng[i], &s)
			return
		}
		h := behavior{batch: []int{1, 2, 5, 20, 50, 100}, lease: time.Minute, deletes: 10, fail: 2, release: 2}
		if err := t.drain(ctx, w, h, rng[i], &s); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
	})
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
}

func noLostTask(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const workers = 6
	rng := t.rngs(workers + 1)
	var s backlog
	t.produce(t.ctx, rec.Caller("producer", clients[0].Queue("hard")), t.load(240), rng[workers], &s)
	t.concurrently(workers, func(ctx context.Context, i int) {
		w := rec.Caller(fmt.Sprintf("worker %d", i), clients[i%2].Queue("hard"))
		h := behavior{batch: []int{1, 5, 30}, lease: 250 * time.Millisecond, abandon: 15, fail: 10, release: 10, deletes: 10}
		if err := t.drain(ctx, w, h, rng[i], &s); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
	})
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
}

func enqueueWhileCheckout(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const workers = 6
	each := t.load(25)
	t.concurrently(workers, func(ctx context.Context, i int) {
		w := rec.Caller(fmt.Sprintf("worker %d", i), clients[i%2].Queue("even"))
		for range each {
			must(w.Enqueue(ctx, []dbq.NewTask{{}}))
			tasks, err := w.Checkout(ctx, 1, time.Minute)
			for err == nil && len(tasks) == 0 { // others took the tasks that this checkout found, and left their own
				if err = sleep(ctx, time.Millisecond); err == nil {
					tasks, err = w.Checkout(ctx, 1, time.Minute)
				}
			}
			if err != nil {
				t.Errorf("%s: no task, though there is one for each worker: %v", w.Name, err)
				return
			}
			out, err := w.Settle(ctx, false, settlement(tasks[0].Lease, dbq.Completed(nil)))
			if err != nil || out[0].Err != nil {
				t.Errorf("%s: complete: %v, %v", w.Name, err, out)
			}
		}
	})
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
}

// raceBatches makes several workers enqueue the same n tasks, each in an order and in batches of its own, and then
// expects n tasks in the queue. added gets each outcome, one at a time.
func (t *test) raceBatches(queue string, n int, task func(k int, rng *rand.Rand) dbq.NewTask,
	added func(k int, o dbq.Enqueued)) {
	const racers = 8
	clients, rngs := t.twoClients(), t.rngs(racers)
	var mu sync.Mutex
	t.concurrently(racers, func(ctx context.Context, i int) {
		q, rng := clients[i%2].Queue(queue), rngs[i]
		for order := rng.Perm(n); len(order) > 0; {
			ts := make([]dbq.NewTask, min(len(order), 1+rng.IntN(n)))
			for k := range ts {
				ts[k] = task(order[k], rng)
			}
			out := must(q.EnqueueMany(ctx, ts))
			mu.Lock()
			for k, o := range out {
				added(order[k], o)
			}
			mu.Unlock()
			order = order[len(ts):]
		}
	})
	t.wantCount(clients[0], queue, n)
}

func duplicateEnqueueRace(t *test) {
	refs := t.load(60)
	added, id := make([]int, refs), make([]uuid.UUID, refs)
	t.raceBatches("unique", refs, func(k int, _ *rand.Rand) dbq.NewTask {
		return dbq.NewTask{Reference: fmt.Sprintf("ref-%d", k)}
	}, func(k int, o dbq.Enqueued) {
		if !o.Duplicate {
			added[k]++
		}
		t.failIf(id[k] != uuid.Nil && id[k] != o.ID, "the racers got the ids %s and %s for reference %d", id[k], o.ID, k)
		id[k] = o.ID
	})
	for k, n := range added {
		t.failIf(n != 1, "reference %d was added %d times, want once", k, n)
	}
}

// behavior describes how a worker of drain handles its tasks. The shares are of 100 tasks.
type behavior struct {
	batch                           []int // sizes of its checkouts, taken at random
	lease                           time.Duration
	abandon, fail, release, deletes int
	pause                           time.Duration // work on each batch, at most
}

// A backlog counts the tasks that producers enqueue and workers end.
type backlog struct {
	left      atomic.Int64
	producing atomic.Int32 // producers that have not brought all yet
	settling  atomic.Int32 // calls that end tasks and have not counted them yet
}

// empty reports whether everything that will ever be enqueued has been ended.
func (s *backlog) empty() bool { return s.producing.Load() == 0 && s.left.Load() <= 0 }

// lost reports whether tasks are missing. The queue was found idle after left was read: a worker that ended a task
// before that has either counted it, or is about to.
func (s *backlog) lost(left int64) bool {
	return left > 0 && s.settling.Load() == 0 && s.left.Load() == left
}

// emptyCheckouts is after how many empty checkouts in a row a worker checks whether anything is left in the queue.
const emptyCheckouts = 50

// drain checks out and settles until the backlog is empty or ctx ends.
func (t *test) drain(ctx context.Context, w *transcript.Caller, h behavior, rng *rand.Rand, s *backlog) error {
	for none := 0; !s.empty(); {
		tasks, err := w.Checkout(ctx, h.batch[rng.IntN(len(h.batch))], h.lease)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			none++
			left := s.left.Load()
			if none >= 3*emptyCheckouts && none%emptyCheckouts == 0 && s.producing.Load() == 0 &&
				t.idle(ctx, w.Queue.Client()) &&
				s.lost(left) {
				return fmt.Errorf("nothing is left to be done, though %d tasks were not ended", left)
			}
			if err := sleep(ctx, 2*time.Millisecond); err != nil {
				return fmt.Errorf("%d tasks are left, and none to be had: %w", left, err)
			}
			continue
		}
		none = 0
		if h.pause > 0 {
			if err := sleep(ctx, time.Duration(rng.Int64N(int64(h.pause)))); err != nil {
				return err
			}
		}
		if err := settleAll(ctx, w, h, rng, tasks, s); err != nil {
			return err
		}
	}
	return nil
}

// settleAll ends the attempts, some in one call and some one by one.
func settleAll(ctx context.Context, w *transcript.Caller, h behavior, rng *rand.Rand, tasks []dbq.Task,
	s *backlog) error {
	var batch, removals []dbq.Settlement
	for _, task := range tasks {
		switch n := rng.IntN(100); {
		case n < h.abandon:
		case n < h.abandon+h.fail:
			batch = append(batch, settlement(task.Lease, dbq.RetryIn(0, errors.New("by chance"))))
		case n < h.abandon+h.fail+h.release:
			batch = append(batch, settlement(task.Lease, dbq.Released(0)))
		case n < h.abandon+h.fail+h.release+h.deletes:
			removals = append(removals, settlement(task.Lease, dbq.Deleted()))
		default:
			batch = append(batch, settlement(task.Lease, dbq.Completed(nil)))
		}
	}
	if len(batch) > 1 && rng.IntN(2) == 0 {
		single := batch[0]
		batch = batch[1:]
		if err := settleCounted(ctx, w, false, s, single); err != nil {
			return err
		}
	}
	if err := settleCounted(ctx, w, false, s, batch...); err != nil {
		return err
	}
	return settleCounted(ctx, w, true, s, removals...)
}

// settleCounted settles, and counts the tasks that ended.
func settleCounted(ctx context.Context, w *transcript.Caller, remove bool, s *backlog, ss ...dbq.Settlement) error {
	if len(ss) == 0 {
		return nil
	}
	s.settling.Add(1)
	defer s.settling.Add(-1)
	out, err := w.Settle(ctx, remove, ss...)
	if err != nil {
		return err
	}
	for i, o := range out {
		if o.Err == nil && (ss[i].Outcome.Event() == state.Complete || o.State == state.Poison) {
			s.left.Add(-1)
		}
	}
	return nil
}

// sleep waits for d, or until ctx ends and then returns its error.
func sleep(ctx context.Context, d time.Duration) error { return store.Sleep(ctx, d) }

// produce enqueues n tasks in batches of random sizes and priorities.
func (t *test) produce(ctx context.Context, w *transcript.Caller, n int, rng *rand.Rand, s *backlog) {
	for n > 0 {
		ts := make([]dbq.NewTask, min(n, 1+rng.IntN(100)))
		for i := range ts {
			ts[i] = dbq.NewTask{Priority: rng.IntN(dbq.MaxPriority + 1), MaxAttempts: 1000}
		}
		s.left.Add(int64(len(ts))) // before anybody can end them
		must(w.Enqueue(ctx, ts))
		n -= len(ts)
	}
}

// expiryWhileComplete gives slow workers all tasks with a short lease. They complete each task around the moment at
// which its lease expires, while a second client takes over whatever it can get and completes it. This is repeated,
// since only some calls come close to that moment.
func expiryWhileComplete(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const rounds, slow, rivals, each = 4, 4, 2, 8
	const lease = 150 * time.Millisecond
	q := clients[0].Queue("raced")
	holder := rec.Caller("slow worker", q)
	for range t.load(rounds) {
		rng := t.rngs(slow)
		must(rec.Caller("producer", q).Enqueue(t.ctx, make([]dbq.NewTask, slow*each)))
		held := must(holder.Checkout(t.ctx, slow*each, lease))
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
				t.must(sleep(ctx, max(0, time.Until(task.Lease.Until)+jitter)))
				must(holder.Settle(ctx, false, settlement(task.Lease, dbq.Completed(nil)))) // the transcript is judged
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

// takeOverUntil takes over and completes tasks until stop returns true and nothing is leased.
func (t *test) takeOverUntil(ctx context.Context, w *transcript.Caller, stop func() bool) {
	for {
		ending := stop()
		tasks := must(w.Checkout(ctx, 5, time.Minute))
		if len(tasks) == 0 && ending && t.idle(ctx, w.Queue.Client()) {
			return
		}
		t.must(sleep(ctx, 2*time.Millisecond)) // for the late calls to come in between
		for _, task := range tasks {
			must(w.Settle(ctx, false, settlement(task.Lease, dbq.Completed(nil))))
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

func operatorsWhileWorking(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const workers, operators = 4, 2
	n := t.load(150)
	rng := t.rngs(workers + operators + 1)
	producer := rec.Caller("producer", clients[0].Queue("operated"))
	t.produce(t.ctx, producer, n, rng[workers+operators], &backlog{})
	ids := idsOf(t.list(clients[0], admin.Filter{}))
	end := time.Now().Add(time.Second)
	var stop atomic.Bool
	t.concurrently(workers+operators, func(ctx context.Context, i int) {
		if i >= workers {
			w := rec.Caller(fmt.Sprintf("operator %d", i), clients[i%2].Queue("operated"))
			defer stop.Store(true)
			for time.Now().Before(end) && !stop.Load() {
				t.must(operateAtRandom(ctx, w, rng[i], ids))
			}
			return
		}
		w := rec.Caller(fmt.Sprintf("worker %d", i), clients[i%2].Queue("operated"))
		t.must(workUntil(ctx, w, rng[i], &stop))
	})
	t.completeRest(producer)
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
}

// operateAtRandom performs a random event on a random task, rarely on many.
func operateAtRandom(ctx context.Context, w *transcript.Caller, rng *rand.Rand, ids []uuid.UUID) error {
	events := state.ByOperator()
	e := events[rng.IntN(len(events))].Event
	if rng.IntN(100) == 0 {
		_, err := w.OperateMany(ctx, state.Reenqueue, admin.Filter{Queue: w.Queue.Name(), Limit: 1 + rng.IntN(10)})
		return err
	}
	if (e == state.Purge || e == state.Finish) && rng.IntN(4) > 0 { // leave something for the others
		e = state.Revoke
	}
	err := w.Operate(ctx, e, ids[rng.IntN(len(ids))])
	if errors.Is(err, dbq.ErrWrongState) || errors.Is(err, dbq.ErrNotFound) {
		return nil
	}
	return err
}

// workUntil takes a few tasks at a time and ends them in every way, until the operators have stopped.
func workUntil(ctx context.Context, w *transcript.Caller, rng *rand.Rand, stop *atomic.Bool) error {
	for !stop.Load() {
		tasks, err := w.Checkout(ctx, 1+rng.IntN(5), 150*time.Millisecond)
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Duration(rng.IntN(10))*time.Millisecond); err != nil {
			return err
		}
		for _, task := range tasks {
			var s dbq.Settlement
			switch n := rng.IntN(100); {
			case n < 20:
				continue // never settled
			case n < 40:
				s = settlement(task.Lease, dbq.Parked(errors.New("parked")))
			case n < 60:
				s = settlement(task.Lease, dbq.RetryIn(0, errors.New("by chance")))
			case n < 70:
				s = settlement(task.Lease, dbq.Poisoned(errors.New("for good")))
			case n < 80:
				s = settlement(task.Lease, dbq.Released(0))
			default:
				s = settlement(task.Lease, dbq.Completed(nil))
			}
			if _, err := w.Settle(ctx, false, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeRest reenqueues and completes every task that is left.
func (t *test) completeRest(w *transcript.Caller) {
	t.eventually("everything is completed", func() bool {
		for _, f := range []admin.Filter{
			{States: []dbq.State{dbq.StateError}}, {States: []dbq.State{dbq.StatePoison}}, {CancelledOnly: true},
		} {
			f.Limit = 1000
			must(w.OperateMany(t.ctx, state.Reenqueue, f))
		}
		tasks := must(w.Checkout(t.ctx, 100, time.Minute))
		ss := allTo(dbq.Completed(nil), leasesOf(tasks)...)
		if len(ss) > 0 {
			must(w.Settle(t.ctx, false, ss...))
		}
		return len(tasks) == 0 && t.idle(t.ctx, w.Queue.Client())
	})
}
