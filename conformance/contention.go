package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// contentionCases are the promises under many workers. Each keeps a history of who held what under which fence, and is judged
// by it rather than by counts: see history.faults.
func contentionCases() []Case {
	return inGroup("Contention",
		Case{Name: "NoDoubleDelivery", alone: true, run: noDoubleDelivery,
			Law: "Many workers that drain one queue never hold the same task at the same time, and settle each task once."},
		Case{Name: "NoLostTask", alone: true, run: noLostTask,
			Law: "A task whose workers die, fail and hand it back comes round until it is done; none is lost, none is done twice."},
		Case{Name: "EnqueueWhileCheckout", alone: true, run: enqueueWhileCheckout,
			Law: "As long as there are as many tasks as workers, each worker that keeps asking gets one, while others enqueue."},
		Case{Name: "ExpiryWhileComplete", run: expiryWhileComplete,
			Law: "When a lease runs out while its holder completes, either the completion wins or the takeover, never both."},
		Case{Name: "ExtendWhileExpiring", run: extendWhileExpiring,
			Law: "When a lease runs out while its holder extends it, either the extension wins or the takeover, never both."},
		Case{Name: "OperatorsWhileWorking", alone: true, run: operatorsWhileWorking,
			Law: "Operators that revoke, reenqueue, reject, quarantine, restore and purge at random never make workers share a task or lose one."},
		Case{Name: "DuplicateEnqueueRace", run: duplicateEnqueueRace,
			Law: "Of many concurrent enqueues of one reference exactly one adds a task, the others learn its id, and none fails, whatever the order of their batches."},
		Case{Name: "SeveralProcesses", alone: true, run: severalProcesses,
			Law: "Several processes that drain one queue never hold the same task at the same time, and settle each task once."},
		Case{Name: "KilledProcess", alone: true, run: killedProcess,
			Law: "The tasks of a worker process that is killed are taken over when their leases have run out; none is lost, none is done twice."},
		Case{Name: "CrashingTaskEndsInPoison", run: crashingTaskEndsInPoison,
			Law: "A task whose worker process dies at each attempt is POISON after its last attempt, without anybody having reported a failure."},
		Case{Name: "NoStarvation", run: noStarvation,
			Law: "Tasks of the last priority are handed out when no better one is due, whatever lies in the future of the better ones."},
		Case{Name: "ExpiredUnderBacklog", run: expiredUnderBacklog,
			Law: "A task whose lease ran out is handed out again soon, although the queue's backlog fills every checkout."},
		Case{Name: "ManyQueues", run: manyQueues,
			Law: "Workers on many queues get each queue's own tasks, all of them."},
	)
}

// workTime bounds what a case waits for its workers.
const workTime = time.Minute

// together runs n workers side by side and waits for all of them. Their context ends after workTime.
func (t *T) together(n int, work func(ctx context.Context, i int)) {
	ctx, cancel := context.WithTimeout(t.ctx, workTime)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() {
				p := recover()
				if p != nil && p != (stop{}) {
					t.Errorf("panic: %v\n%s", p, debug.Stack())
				}
				if p != nil {
					cancel()
				}
			}()
			work(ctx, i)
		}()
	}
	all.Wait()
}

// dice gives each worker random choices of its own, from the suite's seed. Call it before the workers start.
func (t *T) dice(n int) []*rand.Rand {
	out := make([]*rand.Rand, n)
	for i := range out {
		out[i] = rand.New(rand.NewPCG(t.rand.Uint64(), uint64(i)))
	}
	return out
}

// load is how much work a case does.
func (t *T) load(n int) int { return n * t.suite.h.Load }

// two opens two clients, as two programs would, at two nodes if there are.
func (t *T) two() []*dbq.Client { return []*dbq.Client{t.OpenDSN(t.place(0)), t.OpenDSN(t.place(1))} }

// judge blames the case for what the history shows. It returns the end state.
func (t *T) judge(c *dbq.Client, records []record) []dbq.Task {
	end := t.list(c, dbq.Filter{})
	for _, fault := range (history{records: records, end: end}).faults() {
		t.Errorf("%s", fault)
	}
	return end
}

// wantAll notes a failure unless every task is in a state.
func (t *T) wantAll(tasks []dbq.Task, want dbq.State) {
	count := map[dbq.State]int{}
	for _, task := range tasks {
		count[task.State]++
	}
	if len(tasks) != count[want] {
		t.Errorf("in the end the tasks are %v, want all of them %v", count, want)
	}
}

func noDoubleDelivery(t *T) {
	clients, rec := t.two(), newRecorder()
	const workers, feeders = 8, 2
	each := t.load(800)
	dice := t.dice(workers + feeders)
	var s stock
	s.feeding.Store(feeders)
	t.together(workers+feeders, func(ctx context.Context, i int) {
		w := &witness{rec, fmt.Sprintf("worker %d", i), clients[i%2].Queue("drained")}
		if i >= workers {
			defer s.feeding.Add(-1)
			t.feed(ctx, w, each, dice[i], &s)
			return
		}
		h := habits{batch: []int{1, 2, 5, 20, 50, 100}, lease: time.Minute, deletes: 10, fail: 2, release: 2}
		if err := t.drain(ctx, w, h, dice[i], &s); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	})
	t.wantAll(t.judge(clients[0], rec.all()), dbq.StateCompleted)
}

func noLostTask(t *T) {
	clients, rec := t.two(), newRecorder()
	const workers = 6
	dice := t.dice(workers + 1)
	var s stock
	t.feed(t.ctx, &witness{rec, "feeder", clients[0].Queue("hard")}, t.load(240), dice[workers], &s)
	t.together(workers, func(ctx context.Context, i int) {
		w := &witness{rec, fmt.Sprintf("worker %d", i), clients[i%2].Queue("hard")}
		h := habits{batch: []int{1, 5, 30}, lease: 250 * time.Millisecond, abandon: 15, fail: 10, release: 10, deletes: 10}
		if err := t.drain(ctx, w, h, dice[i], &s); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	})
	t.wantAll(t.judge(clients[0], rec.all()), dbq.StateCompleted)
}

func enqueueWhileCheckout(t *T) {
	clients, rec := t.two(), newRecorder()
	const workers = 6
	each := t.load(25)
	t.together(workers, func(ctx context.Context, i int) {
		w := &witness{rec, fmt.Sprintf("worker %d", i), clients[i%2].Queue("even")}
		for range each {
			if _, err := w.enqueue(ctx, []dbq.NewTask{{}}); err != nil {
				t.Errorf("%s: enqueue: %v", w.name, err)
				return
			}
			tasks, err := w.checkout(ctx, 1, time.Minute)
			for err == nil && len(tasks) == 0 { // others took what this checkout looked at, and left what they had brought
				if err = rest(ctx, time.Millisecond); err == nil {
					tasks, err = w.checkout(ctx, 1, time.Minute)
				}
			}
			if err != nil {
				t.Errorf("%s: no task, though there is one for each worker: %v", w.name, err)
				return
			}
			if out, err := w.settle(ctx, false, dbq.Completed(tasks[0].Lease, nil)); err != nil || out[0].Err != nil {
				t.Errorf("%s: complete: %v, %v", w.name, err, out)
			}
		}
	})
	t.wantAll(t.judge(clients[0], rec.all()), dbq.StateCompleted)
}

func duplicateEnqueueRace(t *T) {
	clients := t.two()
	const racers = 8
	refs := t.load(60)
	dice := t.dice(racers)
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
	t.together(racers, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("unique")
		order := dice[i].Perm(refs)
		for len(order) > 0 {
			ts := make([]dbq.NewTask, min(len(order), 1+dice[i].IntN(refs)))
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
			t.Errorf("reference %s: added %d times, and the racers learnt %d ids, want one", ref, added[ref], len(known))
		}
	}
	if n := t.count(clients[0], "unique"); n != refs {
		t.Errorf("there are %d tasks, want %d", n, refs)
	}
}
