package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/google/uuid"
)

// failoverCases kill nodes of a cluster by SIGKILL while programs on all of its nodes work.
func failoverCases() []Case {
	return inGroup("Failover",
		Case{Name: "WorkThroughKills", Once: true, Alone: true, run: workThroughKills,
			Law: "While nodes are killed and restarted, no two workers hold a task at the same time, each task is completed " +
				"once, and every acknowledged enqueue is there; one that may have happened is there once or not at all."},
		Case{Name: "CallsCutOff", Once: true, Alone: true, run: callsCutOff,
			Law: "A call that a node's death interrupts reports what is true: done, not done, or possibly done."})
}

// kills is how many nodes a case kills, one after the other.
const kills = 2

func workThroughKills(t *test) {
	cl := t.cluster()
	c := t.open()
	var ps []*process
	for i := range cl.Nodes {
		ps = append(ps, t.start(childSpec{Do: "persist", Name: fmt.Sprintf("process %d", i), Queue: "through",
			Batch: []int{1, 5, 20}, Lease: 4 * time.Second, Pause: 20 * time.Millisecond}))
	}
	rec := transcript.NewWallClockRecorder(nil)
	producers := make([]*producer, len(cl.Nodes))
	rng := t.rngs(len(producers))
	var stopped atomic.Bool
	var producing sync.WaitGroup
	for i := range producers {
		w := rec.Caller(fmt.Sprintf("producer %d", i), t.openDSN(t.nodeDSN(i)).Queue("through"))
		p := &producer{t: t, w: w, rng: rng[i]}
		producers[i] = p
		producing.Go(func() { p.produce(t.ctx, &stopped) })
	}
	stop := sync.OnceFunc(func() {
		stopped.Store(true)
		producing.Wait()
	})
	t.Cleanup(stop)
	for i := range kills {
		t.must(sleep(t.ctx, downTime))
		t.killAndRestart(i, func() {})
	}
	stop()
	t.awaitIdle(c, ps)
	records := rec.Records()
	for _, p := range ps {
		p.stop()
		records = append(records, p.records()...)
	}
	end := t.checkTranscript(c, records)
	t.wantAll(end, dbq.StateCompleted)
	t.wantAcknowledged(producers, end)
	count := map[string]int{}
	for _, r := range records {
		count[string(r.Event)+" "+string(r.Answer)]++
	}
	t.Logf("calls: %v", count)
}

// wantAcknowledged checks that every task whose enqueue was acknowledged is there.
func (t *test) wantAcknowledged(producers []*producer, end []dbq.Task) {
	there, maybe, repeated := map[uuid.UUID]bool{}, 0, 0
	for _, task := range end {
		there[task.ID] = true
	}
	for _, f := range producers {
		maybe, repeated = maybe+f.maybe, repeated+f.repeated
		for _, id := range f.known {
			t.failIf(!there[id], "%s: task %s was acknowledged and is lost", f.w.Name, id)
		}
	}
	t.Logf("%d tasks; %d enqueues may have happened, %d more were made again", len(end), maybe, repeated)
}

// A producer enqueues until it is stopped, whatever happens to the nodes.
type producer struct {
	t     *test
	w     *transcript.Caller
	rng   *rand.Rand
	known []uuid.UUID // of tasks that must be there

	maybe, repeated int
}

// produce repeats each enqueue, with the same ids, until it is acknowledged. It leaves some of those alone that may
// have happened.
func (f *producer) produce(ctx context.Context, stopped *atomic.Bool) {
	for !stopped.Load() && ctx.Err() == nil {
		ts := make([]dbq.NewTask, 1+f.rng.IntN(20))
		for i := range ts {
			ts[i] = dbq.NewTask{ID: dbq.NewID(), MaxAttempts: 1000}
		}
		f.enqueue(ctx, ts)
		_ = sleep(ctx, time.Duration(f.rng.Int64N(int64(200*time.Millisecond))))
	}
}

func (f *producer) enqueue(ctx context.Context, ts []dbq.NewTask) {
	for maybe := false; ; {
		out, err := f.w.Enqueue(ctx, ts)
		switch {
		case err == nil:
			for i, o := range out {
				f.known = append(f.known, ts[i].ID)
				if o.Duplicate != out[0].Duplicate {
					f.t.Errorf("%s: a batch of %d is there in part", f.w.Name, len(ts))
				}
				if o.Duplicate && !maybe {
					f.t.Errorf("%s: task %s is there already, though the error of its enqueue said that nothing had happened",
						f.w.Name, o.ID)
				}
			}
			return
		case !interrupted(err):
			if ctx.Err() == nil {
				f.t.Errorf("%s: enqueue: got error %v, want one that says that the database cannot be reached", f.w.Name, err)
			}
			return
		case errors.Is(err, dbq.ErrMayHaveHappened):
			if f.maybe++; f.rng.IntN(2) == 0 {
				return
			}
			maybe = true
		default:
			f.repeated++
		}
		if sleep(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// childPersist completes every task it can get, whatever happens to the nodes, until it must stop.
func childPersist(ctx context.Context, w *transcript.Caller, s childSpec) error {
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	for context.Cause(ctx) != errStopped {
		tasks, err := w.Checkout(ctx, s.Batch[rng.IntN(len(s.Batch))], s.Lease)
		if err == nil && len(tasks) > 0 {
			if s.Pause > 0 {
				time.Sleep(time.Duration(rng.Int64N(int64(s.Pause))))
			}
			err = completeUntilAnswered(context.WithoutCancel(ctx), w, tasks)
		}
		switch {
		case context.Cause(ctx) == errStopped:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !interrupted(err):
			return err
		case len(tasks) == 0:
			_ = sleep(ctx, 20*time.Millisecond) // the loop's condition checks whether it must stop
		}
	}
	return nil
}

// completeUntilAnswered repeats the completion of tasks until there is an answer. If the answer is that a lease is
// lost, the task's fence and state must explain it.
func completeUntilAnswered(ctx context.Context, w *transcript.Caller, tasks []dbq.Task) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ss := allTo(dbq.Completed(nil), leasesOf(tasks)...)
	for maybe := false; ; {
		out, err := w.Settle(ctx, false, ss...)
		if err == nil {
			for i, o := range out {
				if errors.Is(o.Err, dbq.ErrLeaseLost) {
					if err := explainLost(ctx, w, tasks[i].Lease, maybe); err != nil {
						return err
					}
				}
			}
			return nil
		}
		if !interrupted(err) {
			return err
		}
		maybe = maybe || errors.Is(err, dbq.ErrMayHaveHappened)
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d tasks could not be completed: %w", len(tasks), err)
		}
	}
}

// explainLost checks why a completion reported that its lease is lost. maybe says that an earlier try may have
// happened.
func explainLost(ctx context.Context, w *transcript.Caller, l dbq.Lease, maybe bool) error {
	for {
		task, err := w.Queue.Client().Get(ctx, l.TaskID)
		switch {
		case err != nil && interrupted(err):
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("looking for task %s: %w", l.TaskID, err)
		case task.Fence < l.Fence:
			return fmt.Errorf("task %s has fence %d, though it was handed out under fence %d", l.TaskID, task.Fence, l.Fence)
		case task.Fence > l.Fence: // it was taken over
		case task.State == dbq.StateCompleted && maybe: // the earlier try's doing
		default:
			return fmt.Errorf("task %s is %v under fence %d, the same as that of the completion that answered that the lease "+
				"is lost (an earlier try may have happened: %v)",
				l.TaskID, task.State, task.Fence, maybe)
		}
		return nil
	}
}

// callsCutOff makes all kinds of calls from all nodes, some of which are running when a node dies.
func callsCutOff(t *test) {
	cl := t.cluster()
	direct := t.open()
	const each, late = 14, 12 // calls of each caller, and the number that wait until a node is about to die
	const pause = 30 * time.Millisecond
	var callers []repeatedCall
	for i := range cl.Nodes {
		c := t.openDSN(t.nodeDSN(i))
		for _, f := range faultCalls() {
			cr := repeatedCall{f: f, c: c}
			for range each {
				cr.runs = append(cr.runs, t.newFaultRun(direct, f))
			}
			callers = append(callers, cr)
		}
	}
	rng := t.rngs(len(callers))
	soon := make(chan struct{})
	announce := sync.OnceFunc(func() { close(soon) })
	var calling sync.WaitGroup
	for i, cr := range callers {
		calling.Go(func() {
			for k, s := range cr.runs {
				if k == each-late {
					<-soon
				}
				ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
				s.err = cr.f.call(ctx, cr.c.Queue(s.queue), s)
				cancel()
				_ = sleep(t.ctx, time.Duration(rng[i].Int64N(int64(pause))))
			}
		})
	}
	func() {
		defer calling.Wait()
		defer announce() // also when there was no kill
		t.killAndRestart(0, announce)
	}()
	t.checkRepeated(direct, callers)
}

// A repeatedCall is a call that a client makes again and again.
type repeatedCall struct {
	f    faultCall
	c    *dbq.Client
	runs []*faultRun
}

// checkRepeated checks that the calls' results are true, and that some of them were done.
func (t *test) checkRepeated(direct *dbq.Client, callers []repeatedCall) {
	count, again := map[string]int{}, int64(0)
	for _, cr := range callers {
		again += cr.c.Stats().Retried
		for _, s := range cr.runs {
			t.checkCall("a node was killed", direct, cr.f, s)
			switch {
			case s.err == nil:
				count["done"]++
			case errors.Is(s.err, dbq.ErrMayHaveHappened):
				count["maybe"]++
			default:
				count["not done"]++
			}
		}
	}
	t.failIf(count["done"] == 0, "no call was done: %v", count)
	t.Logf("calls: %v, of which %d tries were repeated", count, again)
}

// A Cluster is a database of several nodes. It has the fields of conformance.Cluster.
type Cluster struct {
	Nodes   []string
	Writer  func(ctx context.Context) (int, error)
	Kill    func(ctx context.Context, node int) error
	Restart func(ctx context.Context, node int) error
}

// cluster returns the cluster to work on. Without one it skips the case.
func (t *test) cluster() *Cluster {
	cl := t.Cluster
	if cl == nil {
		t.Skipf("the harness has no cluster whose nodes can be killed")
	}
	return cl
}

// nodeDSN returns the DSN of the i-th program of a case: a node of the cluster, or the only server.
func (t *test) nodeDSN(i int) string {
	if cl := t.Cluster; cl != nil {
		return cl.Nodes[i%len(cl.Nodes)]
	}
	return t.DSN
}

// writer returns the node that takes writes, or the i-th where all do.
func (t *test) writer(i int) int {
	cl := t.cluster()
	if cl.Writer == nil {
		return i % len(cl.Nodes)
	}
	return must(cl.Writer(t.ctx))
}

// downTime is how long a killed node stays down while the others work.
const downTime = time.Second

// killAndRestart kills the node that takes writes, or the next of those that do, and restarts it when the others have
// taken a write. It calls soon right before the kill.
func (t *test) killAndRestart(next int, soon func()) {
	cl := t.cluster()
	node := t.writer(next)
	q := t.openDSN(t.nodeDSN(node)).Queue("first write")
	soon()
	killed := time.Now()
	t.must(cl.Kill(t.ctx, node))
	gone := time.Since(killed)
	task := dbq.NewTask{ID: dbq.NewID()}
	t.eventually("the other nodes take a write", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		defer cancel()
		_, err := q.Enqueue(ctx, task)
		return err == nil || errors.Is(err, dbq.ErrDuplicate)
	})
	written := time.Since(killed)
	t.must(sleep(t.ctx, downTime))
	back := time.Now()
	t.must(cl.Restart(t.ctx, node))
	t.endAll(q, t.checkout(q, 1, long), dbq.Deleted()) // no case is to find it
	t.Logf("node %d: killed in %.1f s, the first write after %.1f s, back in %.1f s", node+1, gone.Seconds(),
		written.Seconds(), time.Since(back).Seconds())
}

// interrupted reports whether a call may end with an error while nodes die.
func interrupted(err error) bool {
	return errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) || errors.Is(err, dbq.ErrConflict)
}
