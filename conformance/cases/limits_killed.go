package cases

import (
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

func limitKilled(t *test) {
	const most, perKey, tasks = 4, 1, 40
	c := t.open()
	q := c.Queue("q")
	t.limit(c, "q", admin.QueueLimits{Leased: most, KeyLeased: perKey})
	t.enqueueMany(q, tasks, func(i int, nt *dbq.NewTask) { nt.Key, nt.MaxAttempts = fmt.Sprint(i%6), 1000 })
	leased := func() (n int) {
		keys := map[string]int{}
		for _, task := range t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateProcessing}}) {
			n++
			if keys[task.Key]++; n > most || keys[task.Key] > perKey {
				t.Fatalf("%d tasks are leased, %d of key %s; the limits are %d and %d", n, keys[task.Key], task.Key, most, perKey)
			}
		}
		return n
	}
	for i := range 2 {
		p := t.start(childSpec{Do: "drain", Name: fmt.Sprint("killed ", i), Queue: "q", Batch: []int{3},
			Lease: 600 * time.Millisecond, Pause: 150 * time.Millisecond}) // it holds tasks nearly all the time
		t.eventually("a process has leased tasks", func() bool { return leased() > 0 && len(p.records()) > 0 })
		p.kill()
	}
	t.eventually("the rest is done", func() bool {
		leased()
		for _, task := range t.checkout(q, 3, long) {
			leased()
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
		return t.idle(t.ctx, c)
	})
}

// orderKilled drains a queue with an order by processes that are killed while they hold tasks, and judges the order by
// the times of all attempts.
func orderKilled(t *test) {
	const keys, tasks = 6, 120
	c := t.open()
	q := c.Queue("q")
	t.limit(c, "q", admin.QueueLimits{Order: admin.OrderBlock})
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
		for _, task := range t.checkout(q, 2, long) {
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
		return t.idle(t.ctx, c)
	})
	if t.crashes(c, ids) == 0 {
		t.Errorf("no process was killed while it held a task")
	}
	t.keepsOrder(c, ids, func(i int) string { return fmt.Sprint(i % keys) })
}

// attemptsOf returns the attempts of a task.
func (t *test) attemptsOf(c *dbq.Client, id uuid.UUID) []dbq.Attempt {
	as, err := admin.New(c).Attempts(t.ctx, id)
	t.must(err)
	return as
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
