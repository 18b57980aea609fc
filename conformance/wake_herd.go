package conformance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// A herd is idle workers that hardly poll, and counts what they do.
type herd struct {
	checkouts, questions, started atomic.Int64
}

const (
	herdSize  = 12
	herdTasks = 131
)

// herd starts a worker on each queue. All have looked when it returns.
func (t *T) herd(qs ...*dbq.Queue) *herd {
	h := &herd{}
	for _, q := range qs {
		w := worker.Worker{Queue: q, PollMin: time.Hour, PollMax: time.Hour, Unlisted: true, History: dbq.HistoryNone,
			Handler: worker.HandlerFunc(func(context.Context, dbq.Task) ([]byte, error) {
				h.started.Add(1)
				return nil, nil
			}),
			Observe: func(e worker.Event) {
				switch e.Kind {
				case worker.Polled:
					h.checkouts.Add(1)
				case worker.Asked:
					h.questions.Add(1)
				}
			}}
		t.run(w)
	}
	t.eventually("all workers have looked", func() bool { return h.checkouts.Load() >= int64(len(qs)) })
	h.rests(t)
	return h
}

// rests waits until nothing has been asked or checked out for longer than a process leaves tasks to others.
func (h *herd) rests(t *T) {
	last, since := int64(-1), time.Now()
	t.eventually("the workers are at rest", func() bool {
		if n := h.checkouts.Load() + h.questions.Load(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 600*time.Millisecond
	})
}

// enqueues lets tasks be enqueued, most of them one after the other, and checks what that made the workers do.
func (h *herd) enqueues(t *T, q *dbq.Queue, most float64) {
	before, questions, begin := h.checkouts.Load(), h.questions.Load(), h.started.Load()
	for i := range int64(herdTasks) {
		t.enqueue(q, dbq.NewTask{})
		if i%4 > 0 { // else it comes beside the next one
			t.eventually("the task is started", func() bool { return h.started.Load() > begin+i })
		}
	}
	t.eventually("all tasks are started", func() bool { return h.started.Load() >= begin+herdTasks })
	h.rests(t)
	n := h.checkouts.Load() - before
	t.Logf("%d enqueues with %d idle workers: %d checkouts, %d questions", herdTasks, herdSize, n, h.questions.Load()-questions)
	if n > int64(most*herdTasks) {
		t.Errorf("%d checkouts for %d enqueues, want at most %.1f for each", n, herdTasks, most)
	}
}

// delays lets tasks be enqueued that are due much later, and checks that no worker does anything.
func (h *herd) delays(t *T, q *dbq.Queue) {
	before, questions := h.checkouts.Load(), h.questions.Load()
	for range herdTasks {
		t.enqueue(q, dbq.NewTask{Delay: time.Hour})
	}
	time.Sleep(200 * time.Millisecond) // what should not come has time to
	if c, n := h.checkouts.Load()-before, h.questions.Load()-questions; c > 0 || n > 0 {
		t.Errorf("%d checkouts and %d questions for tasks that are due in an hour, want none", c, n)
	}
}

// wakeDense enqueues for many times as long as the tasks are delayed.
func wakeDense(t *T) {
	const delay = 50 * time.Millisecond
	q := t.Open(dbq.WithoutNotify()).Queue("q")
	b := q.Bell()
	t.Cleanup(b.Close)
	rings, enqueued, first := 0, 0, time.Duration(0)
	begin := time.Now()
	for ; time.Since(begin) < 20*delay; enqueued++ {
		t.enqueue(q, dbq.NewTask{Delay: delay})
		select {
		case <-b.Wait(1):
			b.Look()
			if rings++; rings == 1 {
				first = time.Since(begin)
			}
		default:
		}
	}
	t.Logf("%d tasks with a delay of %v were enqueued, the bell rang %d times, first after %v", enqueued, delay, rings, first)
	if rings < 2 {
		t.Errorf("while %d tasks were enqueued, each delayed by %v, the bell rang %d times in %v", enqueued, delay, rings, 20*delay)
	}
}

func wakeHerd(t *T) {
	q := t.Open(dbq.WithoutNotify()).Queue("q")
	qs := make([]*dbq.Queue, herdSize)
	for i := range qs {
		qs[i] = q
	}
	h := t.herd(qs...)
	h.enqueues(t, q, 1.1)
	h.delays(t, q)
}

func wakeHerdAcross(t *T) {
	c := t.Open()
	t.needsNotifications(c)
	qs := make([]*dbq.Queue, herdSize)
	for i := range qs {
		qs[i] = t.elsewhere(t.Open()).Queue("q")
	}
	h := t.herd(qs...)
	for _, q := range qs {
		t.eventually("all workers listen", q.Client().Listening)
	}
	h.rests(t)
	h.enqueues(t, c.Queue("q"), 2) // 1.1 where the machine is not busy; without any order it would be herdSize
	h.delays(t, c.Queue("q"))
}
