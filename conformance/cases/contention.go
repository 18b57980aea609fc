package cases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/google/uuid"
)

// contentionCases are the promises under many workers. Each case records who held what under which fence, and checks
// that transcript instead of counts: see package transcript.
func contentionCases() []Case {
	return inGroup("Contention",
		Case{Name: "NoDoubleDelivery", Alone: true, run: noDoubleDelivery,
			Law: "Many workers that drain one queue never hold the same task at the same time, and settle each task once."},
		Case{Name: "NoLostTask", Alone: true, run: noLostTask,
			Law: "A task whose workers die, fail and release it is handed out until it is completed; none is lost or " +
				"completed twice."},
		Case{Name: "EnqueueWhileCheckout", Alone: true, run: enqueueWhileCheckout,
			Law: "While others enqueue, and there are at least as many tasks as workers, every worker that keeps checking " +
				"out gets a task."},
		Case{Name: "ExpiryWhileComplete", run: expiryWhileComplete,
			Law: "When a lease expires while its holder completes the task, either the completion or the takeover succeeds, " +
				"never both."},
		Case{Name: "ExtendWhileExpiring", run: extendWhileExpiring,
			Law: "When a lease expires while its holder extends it, either the extension or the takeover succeeds, never " +
				"both."},
		Case{Name: "OperatorsWhileWorking", Alone: true, run: operatorsWhileWorking,
			Law: "Operators that cancel, revoke, reenqueue, reject, quarantine, restore and purge at random never make " +
				"workers share or lose a task."},
		Case{Name: "DuplicateEnqueueRace", run: duplicateEnqueueRace,
			Law: "Of many concurrent enqueues of one reference, exactly one adds a task, the others get its id, and none " +
				"fails, whatever the order within their batches."},
		Case{Name: "SeveralProcesses", Alone: true, run: severalProcesses,
			Law: "Several processes that drain one queue never hold the same task at the same time, and settle each task " +
				"once."},
		Case{Name: "KilledProcess", Alone: true, run: killedProcess,
			Law: "The tasks of a killed worker process are taken over when their leases have expired; none is lost or " +
				"completed twice."},
		Case{Name: "CrashingTaskEndsInPoison", run: crashingTaskEndsInPoison,
			Law: "A task that crashes its worker process on every attempt is POISON after the last one, although no failure " +
				"was ever reported."},
		Case{Name: "NoStarvation", run: noStarvation,
			Law: "Tasks of the last priority are handed out when no better one is due, however many tasks of better " +
				"priorities are due later."},
		Case{Name: "ExpiredUnderBacklog", run: expiredUnderBacklog,
			Law: "A task whose lease expired is handed out again soon, although the queue's backlog fills every checkout."},
		Case{Name: "ManyQueues", run: manyQueues,
			Law: "Workers on many queues get each queue's own tasks, and all of them."},
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
	if len(tasks) != count[want] {
		t.Errorf("in the end the tasks are %v, want all of them %v", count, want)
	}
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
			if _, err := w.Enqueue(ctx, []dbq.NewTask{{}}); err != nil {
				t.Errorf("%s: enqueue: %v", w.Name, err)
				return
			}
			tasks, err := w.Checkout(ctx, 1, time.Minute)
			for err == nil && len(tasks) == 0 { // others took what this checkout looked at, and left what they had brought
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

func duplicateEnqueueRace(t *test) {
	clients := t.twoClients()
	const racers = 8
	refs := t.load(60)
	rng := t.rngs(racers)
	var mu sync.Mutex
	added, ids := map[string]int{}, map[string]map[uuid.UUID]bool{}
	note := func(ref string, o dbq.Enqueued) {
		mu.Lock()
		defer mu.Unlock()
		if !o.Duplicate {
			added[ref]++
		}
		if ids[ref] == nil {
			ids[ref] = map[uuid.UUID]bool{}
		}
		ids[ref][o.ID] = true
	}
	t.concurrently(racers, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("unique")
		order := rng[i].Perm(refs)
		for len(order) > 0 {
			ts := make([]dbq.NewTask, min(len(order), 1+rng[i].IntN(refs)))
			for k := range ts {
				ts[k].Reference = fmt.Sprintf("ref-%d", order[k])
			}
			order = order[len(ts):]
			out, err := q.EnqueueMany(ctx, ts)
			if err != nil {
				t.Errorf("racer %d: enqueue of %d: %v", i, len(ts), err)
				return
			}
			for k, o := range out {
				note(ts[k].Reference, o)
			}
		}
	})
	for ref, n := range added {
		if n != 1 {
			t.Errorf("reference %s was added %d times, want once", ref, n)
		}
	}
	for ref, known := range ids {
		if len(known) != 1 || added[ref] != 1 {
			t.Errorf("reference %s: added %d times, and the racers learned %d ids, want one", ref, added[ref], len(known))
		}
	}
	if n := t.count(clients[0], "unique"); n != refs {
		t.Errorf("there are %d tasks, want %d", n, refs)
	}
}
