package cases

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
)

// groupCases are the promises of worker.Group.
func groupCases() []Case {
	return inGroup("Worker",
		Case{Name: "GroupSharesByWeight", Once: true, run: groupShares,
			Law: "While the queues of a group have due tasks, it starts tasks in proportion to the weights of its " +
				"workers, and never runs more handlers at once than its Concurrency."},
		Case{Name: "GroupInStrictOrder", Once: true, run: groupStrict,
			Law: "A strict group starts tasks of a later queue only while the earlier ones have no due tasks."},
		Case{Name: "GroupLeasesWhatItStarts", Once: true, run: groupEnds,
			Law: "A group leases only tasks that it starts at once, and finishes these when its context ends."},
	)
}

// groupTakes is how long the handlers of these cases take: much longer than a checkout.
const groupTakes = 10 * time.Millisecond

// starts records in which order the workers of a group lease tasks of several queues. Handlers that run at the same
// time may record their calls in another order. A worker that gives up its turn has reported its checkouts before.
type starts struct {
	mu            sync.Mutex
	queues        []string
	running, most int
}

// worker returns a worker of a queue that records the tasks that it leases and the handlers that run.
func (s *starts) worker(q *dbq.Queue, weight int) worker.Worker {
	return worker.Worker{Queue: q, Weight: weight,
		Observe: func(o worker.Observation) {
			if o.Type == worker.CheckedOut {
				s.leased(q.Name(), o.N)
			}
		},
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			s.run(1)
			time.Sleep(groupTakes)
			s.run(-1)
			return nil
		})}
}

func (s *starts) leased(queue string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = append(s.queues, slices.Repeat([]string{queue}, n)...)
}

func (s *starts) run(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += more
	s.most = max(s.most, s.running)
}

// count returns how many of the first n starts were of a queue; n of 0 is all.
func (s *starts) count(queue string, n int) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		n = len(s.queues)
	}
	for _, name := range s.queues[:min(n, len(s.queues))] {
		if name == queue {
			count++
		}
	}
	return count
}

// between returns how many tasks of a queue were leased between two of another queue, of which it gives the indexes:
// after the first, and before the last.
func (s *starts) between(queue, other string, first, last int) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := 0
	for _, name := range s.queues {
		switch {
		case name == other:
			seen++
		case name == queue && seen > first && seen < last:
			count++
		}
	}
	return count
}

func groupShares(t *test) {
	c := t.open()
	three, one := c.Queue("three"), c.Queue("one")
	const first, concurrency = 80, 4
	t.enqueueMany(three, 2*first, nil)
	t.enqueueMany(one, 2*first, nil)
	var s starts
	g := worker.Group{Concurrency: concurrency, Workers: []worker.Worker{s.worker(three, 3), s.worker(one, 1)}}
	stop := t.runUntilStopped(g.Run)
	t.eventually("the first tasks are leased", func() bool { return s.count("three", 0)+s.count("one", 0) >= first })
	stop()
	// A checkout that finds nothing because another transaction is in the way costs its queue a few turns.
	if got, want := s.count("three", first), first*3/4; got < want-12 || got > want+12 {
		t.Errorf("of the first %d tasks %d are of the queue with weight 3 of 4, want about %d", first, got, want)
	}
	if s.most > concurrency {
		t.Errorf("%d handlers ran at once, want at most %d", s.most, concurrency)
	}
}

func groupStrict(t *test) {
	c := t.open()
	early, late := c.Queue("early"), c.Queue("late")
	const n = 20
	t.enqueueMany(early, n, nil)
	t.enqueueMany(late, 4*n, nil)
	var s starts
	g := worker.Group{Concurrency: 2, Strict: true, Workers: []worker.Worker{s.worker(early, 0), s.worker(late, 0)}}
	stop := t.runUntilStopped(g.Run)
	t.eventually("the later queue's turn", func() bool { return s.count("late", 0) >= 3 })
	if got := s.count("early", n); got != n {
		t.Errorf("of the first %d tasks %d are of the earlier queue, want all", n, got)
	}
	t.enqueueMany(early, n, nil)
	t.eventually("the earlier queue is empty", func() bool { return s.count("early", 0) == 2*n })
	// From the first start on, since until then the worker of the earlier queue may not know of its tasks.
	if got := s.between("late", "early", n, 2*n); got > n/2 {
		t.Errorf("%d tasks of the later queue began while the earlier one had due tasks, want a few", got)
	}
	stop()
}

func groupEnds(t *test) {
	c := t.open()
	const n, concurrency = 10, 3
	began, proceed := make(chan struct{}, 2*n), make(chan struct{})
	block := worker.Func(func(context.Context, dbq.Task) error {
		began <- struct{}{}
		<-proceed
		return nil
	})
	g := worker.Group{Concurrency: concurrency}
	for _, name := range []string{"a", "b"} {
		t.enqueueMany(c.Queue(name), n, nil)
		g.Workers = append(g.Workers, worker.Worker{Queue: c.Queue(name), Handler: block})
	}
	stop := t.runUntilStopped(g.Run)
	t.eventually("the handlers begin", func() bool { return len(began) == concurrency })
	time.Sleep(200 * time.Millisecond) // for a worker that would lease more
	if got := len(t.list(c, admin.Filter{States: []dbq.State{dbq.StateProcessing}})); got != concurrency {
		t.Errorf("%d tasks are leased while %d are in handlers", got, concurrency)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(proceed) })
	stop()
	counts := map[dbq.State]int{}
	for _, task := range t.list(c, admin.Filter{}) {
		counts[task.State]++
		if task.State == dbq.StateCreated && task.Attempt != 0 {
			t.Errorf("a task that was not started has %d attempts", task.Attempt)
		}
	}
	if counts[dbq.StateCompleted] != concurrency || counts[dbq.StateCreated] != 2*n-concurrency {
		t.Errorf("in the end the tasks are %v, want %d of them COMPLETED and the others CREATED", counts, concurrency)
	}
}
