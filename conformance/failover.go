package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// failoverCases kill nodes of a cluster by SIGKILL while programs on all of its nodes work.
func failoverCases() []Case {
	return inGroup("Failover",
		Case{Name: "WorkThroughKills", alone: true, once: true, run: workThroughKills,
			Law: "While nodes are killed and come back, no two workers hold a task at the same time, each task is completed once, and every enqueue that was acknowledged is there; one that may have happened is there once or not at all."},
		Case{Name: "CallsCutOff", alone: true, once: true, run: callsCutOff,
			Law: "A call that is cut off by a node's death answers what is true: done, nothing happened, or may have happened."})
}

// kills is how many nodes a case kills, one after the other.
const kills = 2

func workThroughKills(t *T) {
	cl := t.cluster()
	c := t.Open()
	var ps []*process
	for i := range cl.Nodes {
		ps = append(ps, t.start(childSpec{Do: "endure", Name: fmt.Sprintf("process %d", i), Queue: "through",
			Batch: []int{1, 5, 20}, Lease: 4 * time.Second, Pause: 20 * time.Millisecond}))
	}
	feeders := make([]*feeder, len(cl.Nodes))
	dice := t.dice(len(feeders))
	var stopped atomic.Bool
	var feeding sync.WaitGroup
	for i := range feeders {
		f := &feeder{t: t, w: &witness{newWallRecorder(nil), fmt.Sprintf("feeder %d", i), t.OpenDSN(t.place(i)).Queue("through")}, dice: dice[i]}
		feeders[i] = f
		feeding.Go(func() { f.feed(t.ctx, &stopped) })
	}
	stop := sync.OnceFunc(func() {
		stopped.Store(true)
		feeding.Wait()
	})
	t.Cleanup(stop)
	for i := range kills {
		t.Must(rest(t.ctx, absence))
		t.killAndRestart(i, func() {})
	}
	stop()
	t.untilIdle(c, ps)
	var records []record
	for _, p := range ps {
		p.stop()
		records = append(records, p.records()...)
	}
	there, maybe, repeated := map[uuid.UUID]bool{}, 0, 0
	for _, f := range feeders {
		records = append(records, f.w.rec.all()...)
	}
	end := t.judge(c, records)
	for _, task := range end {
		there[task.ID] = true
	}
	t.wantAll(end, dbq.StateCompleted)
	for _, f := range feeders {
		maybe, repeated = maybe+f.maybe, repeated+f.repeated
		for _, id := range f.known {
			if !there[id] {
				t.Errorf("%s: task %s was acknowledged and is lost", f.w.name, id)
			}
		}
	}
	t.Logf("%d tasks; %d enqueues may have happened, %d more were made again", len(end), maybe, repeated)
	count := map[string]int{}
	for _, r := range records {
		count[string(r.Event)+" "+string(r.Outcome)]++
	}
	t.Logf("calls: %v", count)
}

// feeder enqueues until it is stopped, whatever becomes of the nodes.
type feeder struct {
	t     *T
	w     *witness
	dice  *rand.Rand
	known []uuid.UUID // of tasks that must be there

	maybe, repeated int
}

// feed makes each enqueue again, with the same ids, until it is acknowledged. Of those that may have happened it leaves some alone.
func (f *feeder) feed(ctx context.Context, stopped *atomic.Bool) {
	for !stopped.Load() && ctx.Err() == nil {
		ts := make([]dbq.NewTask, 1+f.dice.IntN(20))
		for i := range ts {
			ts[i] = dbq.NewTask{ID: dbq.NewID(), MaxAttempts: 1000}
		}
		f.enqueue(ctx, ts)
		_ = rest(ctx, time.Duration(f.dice.Int64N(int64(200*time.Millisecond))))
	}
}

func (f *feeder) enqueue(ctx context.Context, ts []dbq.NewTask) {
	for maybe := false; ; {
		out, err := f.w.enqueue(ctx, ts)
		switch {
		case err == nil:
			for i, o := range out {
				f.known = append(f.known, ts[i].ID)
				if o.Duplicate != out[0].Duplicate {
					f.t.Errorf("%s: a batch of %d is there in part", f.w.name, len(ts))
				}
				if o.Duplicate && !maybe {
					f.t.Errorf("%s: task %s is there already, though the error of its enqueue said that nothing had happened", f.w.name, o.ID)
				}
			}
			return
		case !cutOff(err):
			if ctx.Err() == nil {
				f.t.Errorf("%s: enqueue: got error %v, want one that says that the database cannot be reached", f.w.name, err)
			}
			return
		case errors.Is(err, dbq.ErrMayHaveHappened):
			if f.maybe++; f.dice.IntN(2) == 0 {
				return
			}
			maybe = true
		default:
			f.repeated++
		}
		if rest(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// childEndure completes what it can get, whatever becomes of the nodes. It is told to stop when nothing is left.
func childEndure(ctx context.Context, w *witness, s childSpec) error {
	dice := rand.New(rand.NewPCG(s.Seed, 0))
	for context.Cause(ctx) != errStopped {
		tasks, err := w.checkout(ctx, s.Batch[dice.IntN(len(s.Batch))], s.Lease)
		if err == nil && len(tasks) > 0 {
			if s.Pause > 0 {
				time.Sleep(time.Duration(dice.Int64N(int64(s.Pause))))
			}
			err = completeThrough(context.WithoutCancel(ctx), w, tasks)
		}
		switch {
		case context.Cause(ctx) == errStopped:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !cutOff(err):
			return err
		case len(tasks) == 0:
			_ = rest(ctx, 20*time.Millisecond) // the loop's condition says whether it was told to stop
		}
	}
	return nil
}

// completeThrough completes tasks, again and again until there is an answer. A lease that is lost then must be lost for a reason, which
// the task's fence and state tell.
func completeThrough(ctx context.Context, w *witness, tasks []dbq.Task) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ss := make([]dbq.Settlement, len(tasks))
	for i, task := range tasks {
		ss[i] = dbq.Completed(task.Lease, nil)
	}
	for maybe := false; ; {
		out, err := w.settle(ctx, false, ss...)
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
		if !cutOff(err) {
			return err
		}
		maybe = maybe || errors.Is(err, dbq.ErrMayHaveHappened)
		if err := rest(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d tasks could not be completed: %w", len(tasks), err)
		}
	}
}

// explainLost looks what became of a task whose completion answered that its lease is lost. maybe says that an earlier try may have
// happened.
func explainLost(ctx context.Context, w *witness, l dbq.Lease, maybe bool) error {
	for {
		task, err := w.q.Client().Get(ctx, l.Task)
		switch {
		case err != nil && cutOff(err):
			if err := rest(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("looking for task %s: %w", l.Task, err)
		case task.Fence < l.Fence:
			return fmt.Errorf("task %s has fence %d, though it was handed out under fence %d", l.Task, task.Fence, l.Fence)
		case task.Fence > l.Fence: // it was taken over
		case task.State == dbq.StateCompleted && maybe: // the earlier try's doing
		default:
			return fmt.Errorf("task %s is %v under fence %d, the same as that of the completion that answered that the lease is lost (an earlier try may have happened: %v)",
				l.Task, task.State, task.Fence, maybe)
		}
		return nil
	}
}

// callsCutOff makes all kinds of calls from all nodes, some of which are under way when a node dies.
func callsCutOff(t *T) {
	cl := t.cluster()
	direct := t.Open()
	const each, late = 14, 12 // calls of each caller, and those of them that wait until a node is about to die
	const pause = 30 * time.Millisecond
	type caller struct {
		f        faultCall
		c        *dbq.Client
		subjects []*subject
	}
	var callers []caller
	for i := range cl.Nodes {
		c := t.OpenDSN(t.place(i))
		for _, f := range faultCalls() {
			cr := caller{f: f, c: c}
			for range each {
				cr.subjects = append(cr.subjects, t.subject(direct, f))
			}
			callers = append(callers, cr)
		}
	}
	dice := t.dice(len(callers))
	soon := make(chan struct{})
	announce := sync.OnceFunc(func() { close(soon) })
	var calling sync.WaitGroup
	for i, cr := range callers {
		calling.Go(func() {
			for k, s := range cr.subjects {
				if k == each-late {
					<-soon
				}
				ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
				s.err = cr.f.call(ctx, cr.c.Queue(s.queue), s)
				cancel()
				_ = rest(t.ctx, time.Duration(dice[i].Int64N(int64(pause))))
			}
		})
	}
	func() {
		defer calling.Wait()
		defer announce() // also when there was no kill
		t.killAndRestart(0, announce)
	}()
	count, again := map[string]int{}, int64(0)
	for _, cr := range callers {
		again += cr.c.Retried()
		for _, s := range cr.subjects {
			t.judgeCall("a node was killed", direct, cr.f, s)
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
	if count["done"] == 0 {
		t.Errorf("no call was done: %v", count)
	}
	t.Logf("calls: %v, of which %d tries were repeated", count, again)
}
