package cases

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// idleWorkers are workers that hardly poll. It counts what they do.
type idleWorkers struct {
	checkouts, questions, started atomic.Int64
}

const (
	idleCount = 12
	idleTasks = 131
)

// idleWorkers starts a worker on each queue. All have checked out once when it returns.
func (t *test) idleWorkers(qs ...*dbq.Queue) *idleWorkers {
	h := &idleWorkers{}
	for _, q := range qs {
		w := worker.Worker{Queue: q, PollMin: time.Hour, PollMax: time.Hour, Unlisted: true, History: dbq.HistoryNone,
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				h.started.Add(1)
				return nil
			}),
			Observe: func(e worker.Observation) {
				switch e.Type {
				case worker.CheckedOut:
					h.checkouts.Add(1)
				case worker.Queried:
					h.questions.Add(1)
				}
			}}
		t.runWorker(w)
	}
	t.eventually("all workers have looked", func() bool { return h.checkouts.Load() >= int64(len(qs)) })
	return h
}

// awaitRest waits until no worker has polled for longer than a process leaves tasks to others, and than a worker waits
// before it queries for tasks that a wake-up announced and its checkout did not find.
func (h *idleWorkers) awaitRest(t *test) {
	last, since := int64(-1), time.Now()
	t.eventually("the workers are at rest", func() bool {
		if n := h.checkouts.Load() + h.questions.Load(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 1500*time.Millisecond
	})
}

// countEnqueues enqueues tasks, most of them one after the other, and counts the checkouts and the questions.
func (h *idleWorkers) countEnqueues(t *test, q *dbq.Queue) (checkouts, asked int64) {
	h.awaitRest(t)
	before, questions, begin := h.checkouts.Load(), h.questions.Load(), h.started.Load()
	for i := range int64(idleTasks) {
		t.enqueue(q, dbq.NewTask{})
		if i%4 > 0 { // else it comes beside the next one
			t.eventually("the task is started", func() bool { return h.started.Load() > begin+i })
		}
	}
	t.eventually("all tasks are started", func() bool { return h.started.Load() >= begin+idleTasks })
	h.awaitRest(t)
	checkouts, asked = h.checkouts.Load()-before, h.questions.Load()-questions
	t.Logf("%d enqueues with %d idle workers: %d checkouts, %d questions", idleTasks, idleCount, checkouts, asked)
	return checkouts, asked
}

// checkDelays enqueues tasks that are due much later, and wants no worker to do anything.
func (h *idleWorkers) checkDelays(t *test, q *dbq.Queue) {
	before, questions := h.checkouts.Load(), h.questions.Load()
	for range idleTasks {
		t.enqueue(q, dbq.NewTask{Delay: time.Hour})
	}
	time.Sleep(200 * time.Millisecond) // what should not come has time to
	if c, n := h.checkouts.Load()-before, h.questions.Load()-questions; c > 0 || n > 0 {
		t.Errorf("%d checkouts and %d questions for tasks that are due in an hour, want none", c, n)
	}
}

// wakeDense enqueues for many times as long as the tasks are delayed.
func wakeDense(t *test) {
	const delay = 50 * time.Millisecond
	c := t.open(dbq.WithoutNotify())
	q, w := c.Queue("q"), t.waiter(c)
	wakeups, enqueued, first := 0, 0, time.Duration(0)
	begin := time.Now()
	for ; time.Since(begin) < 20*delay; enqueued++ {
		t.enqueue(q, dbq.NewTask{Delay: delay})
		select {
		case <-w.Wait(1):
			w.BeforeCheckout()
			if wakeups++; wakeups == 1 {
				first = time.Since(begin)
			}
		default:
		}
	}
	t.Logf("%d tasks with a delay of %v were enqueued, %d wake-ups, first after %v", enqueued, delay, wakeups,
		first)
	if wakeups < 2 {
		t.Errorf("while %d tasks were enqueued, each delayed by %v, %d wake-ups came in %v", enqueued, delay, wakeups,
			20*delay)
	}
}

func wakeHerd(t *test) {
	q := t.open(dbq.WithoutNotify()).Queue("q")
	qs := make([]*dbq.Queue, idleCount)
	for i := range qs {
		qs[i] = q
	}
	h := t.idleWorkers(qs...)
	n, asked := h.countEnqueues(t, q)
	// A checkout can miss its task, on MySQL beside another one. Its worker asks for it a second later, and checks out
	// again: the more often, the slower the machine is.
	if n-asked > idleTasks*11/10 || asked > idleTasks {
		t.Errorf("%d checkouts and %d questions for %d enqueues, want at most one question and 1.1 other checkouts for each",
			n, asked, idleTasks)
	}
	h.checkDelays(t, q)
}

func wakeHerdAcross(t *test) {
	c := t.open()
	t.needsNotifications(c)
	qs := make([]*dbq.Queue, idleCount)
	for i := range qs {
		qs[i] = t.otherProcess(t.open()).Queue("q")
	}
	h := t.idleWorkers(qs...)
	for _, q := range qs {
		t.eventually("all workers listen", listening(q.Client()))
	}
	n, _ := h.countEnqueues(t, c.Queue("q"))
	if n > idleTasks*2 { // 1.1 for each where the machine is not busy; if all woke up it would be idleCount
		t.Errorf("%d checkouts for %d enqueues, want at most 2 for each", n, idleTasks)
	}
	h.checkDelays(t, c.Queue("q"))
}
