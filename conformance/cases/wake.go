package cases

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/dbq-go/dbq/worker"
)

func wakeCases() []Case {
	return inGroup("Wake",
		Case{Name: "NextReportsWait", Once: true, run: wakeNext,
			Law: "Next returns the time until a task of the queue is due or a lease expires, whatever else the table has."},
		Case{Name: "ReenqueueWakesItsQueue", Once: true, run: wakeReenqueue,
			Law: "An operator's event that makes tasks due wakes the waiters of their queue, on an engine that notifies also " +
				"in other processes."},
		Case{Name: "OtherProcessWakes", Once: true, run: wakeAcross,
			Law: "On an engine that notifies, an enqueue wakes the waiters of other processes."},
		Case{Name: "ControlWakes", Once: true, run: wakeOperators,
			Law: "Settings of a queue and commands to its workers wake those that wait for control, on an engine that " +
				"notifies also in other processes; an enqueue does not."},
		Case{Name: "OneWorkerForATask", Slow: true, Once: true, run: wakeHerd,
			Law: "An enqueue makes about one idle worker of a process check out, and none before the task is due."},
		Case{Name: "OneProcessForATask", Slow: true, Once: true, run: wakeHerdAcross,
			Law: "On an engine that notifies, an enqueue makes about one idle worker of all processes check out."},
		Case{Name: "ListenerReconnects", Once: true, run: wakeCut,
			Law: "A client whose listening connection was cut listens again, and wakes waiters that may have missed tasks."},
	)
}

func wakeNext(t *test) {
	c, q := t.openQueue()
	want := func(what string, least, most time.Duration) {
		wait, ok, err := waker(c).Next(t.ctx, "q")
		t.must(err)
		t.failIf(!ok || wait < least || wait > most,
			"%s: Next is %v, %v, want between %v and %v", what, wait, ok, least, most)
	}
	t.enqueue(c.Queue("another"), dbq.NewTask{})
	if wait, ok, err := waker(c).Next(t.ctx, "q"); ok || err != nil {
		t.Errorf("of an empty queue Next is %v, %v, %v, want nothing", wait, ok, err)
	}
	last := t.enqueue(q, dbq.NewTask{Priority: dbq.MaxPriority, Delay: 2 * time.Hour})
	want("a delayed task of the last priority", time.Hour, 2*time.Hour)
	t.enqueue(q, dbq.NewTask{Delay: 5 * time.Hour})
	want("a task of the first priority that is due later", time.Hour, 2*time.Hour)
	t.operate(c, admin.Reject, last)
	want("the first one is parked", 4*time.Hour, 5*time.Hour)
	task := t.takeNew(q, dbq.NewTask{Priority: 3}, 30*time.Minute)
	want("a lease that expires before", 20*time.Minute, 30*time.Minute)
	must(q.Extend(t.ctx, task.Lease, short))
	t.awaitExpiry(c, task.ID)
	want("an expired lease", 0, 0)
	t.must(q.Complete(t.ctx, t.takeOver(q, task.ID, long).Lease, nil))
	want("it is completed", 4*time.Hour, 5*time.Hour)
	t.enqueue(q, dbq.NewTask{Priority: 7})
	want("a task that is due", 0, 0)
}

// waker returns a client's access to wake-ups.
func waker(c *dbq.Client) *wake.Waker { return access.Of(c).Wake }

// woken reports whether a waiter for tasks is woken within a time.
func woken(w *wake.Waiter, within time.Duration) bool { return receives(w.Wait(1), within) }

func receives(c <-chan wake.Wakeup, within time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(within):
		return false
	}
}

func listening(c *dbq.Client) func() bool { return func() bool { return c.Stats().Listening } }

// receivesNotifications reports whether notifications of other processes can reach a client.
func receivesNotifications(c *dbq.Client) bool {
	return c.Info().Server.Notifies && c.Info().Server.Pooler == ""
}

// needsNotifications skips a case that cannot be checked without notifications.
func (t *test) needsNotifications(c *dbq.Client) {
	if p := c.Info().Server.Pooler; p != "" {
		t.Skipf("no notification reaches a client through %s", p)
	}
	if !c.Info().Server.Notifies {
		t.Skipf("%s has no notifications", c.Info().Server.Product)
	}
}

// listening returns a waiter for the tasks of queue "q" that has been woken once, as by a client that begins to listen.
func (t *test) listening(c *dbq.Client) *wake.Waiter {
	w := t.waiter(c)
	if receivesNotifications(c) {
		t.eventually("the client listens", listening(c))
		woken(w, t.Patience)
	}
	return w
}

// waiter returns a waiter for the tasks of queue "q".
func (t *test) waiter(c *dbq.Client) *wake.Waiter {
	w := waker(c).TaskWaiter("q")
	t.Cleanup(w.Close)
	return w
}

func wakeReenqueue(t *test) {
	c := t.open()
	mine := t.listening(c)
	id := t.enqueue(c.Queue("q"), dbq.NewTask{Delay: long})
	clients := map[string]*dbq.Client{"this process": c}
	if receivesNotifications(c) {
		clients["another process"] = t.otherProcess(c)
	}
	for name, c := range clients {
		ops := admin.New(c)
		for by, reenqueue := range map[string]func() error{
			"id": func() error { return ops.Operate(t.ctx, admin.Reenqueue, id) },
			"filter": func() error {
				_, err := ops.OperateMany(t.ctx, admin.Reenqueue, admin.Filter{Limit: 10})
				return err
			},
		} {
			t.operate(c, admin.Reject, id)
			mine.BeforeCheckout() // serves the earlier tasks
			t.must(reenqueue())
			t.failIf(!woken(mine, t.Patience), "not woken by a reenqueue by %s in %s", by, name)
		}
	}
}

// otherProcess returns a client that shares no waiters with the clients of this process, as if it were in another one.
func (t *test) otherProcess(c *dbq.Client) *dbq.Client {
	other := must(dbq.New(t.ctx, c.DB(), t.dialect(), dbq.WithPrefix(t.Prefix), dbq.WithLogger(quietLog)))
	t.Cleanup(func() { other.Close() })
	return other
}

func wakeAcross(t *test) {
	c := t.open()
	t.needsNotifications(c)
	w, far := t.listening(c), t.otherProcess(t.open()).Queue("q")
	t.enqueue(far, dbq.NewTask{})
	t.failIf(!woken(w, t.Patience), "not woken by another process's enqueue")
	for range 20 { // a notification for each of the first and the last at least
		t.enqueue(far, dbq.NewTask{})
	}
	t.failIf(!woken(w, t.Patience), "not woken by another process's enqueues in a row")
	silent := t.open(dbq.WithoutNotify())
	t.waiter(silent)
	t.failIf(silent.Stats().Listening, "a client without notifications listens")
}

func wakeOperators(t *test) {
	c := t.open()
	w := waker(c).ControlWaiter("q")
	t.Cleanup(w.Close)
	operators := map[string]*dbq.Client{"this process": t.open()}
	if receivesNotifications(c) {
		t.eventually("the client listens", listening(c))
		receives(w.C(), t.Patience) // it begins to listen
		operators["another process"] = t.otherProcess(c)
	}
	must(access.Of(c).Control.Report(t.ctx, control.Worker{ID: "w", Queue: "q"}, time.Hour))
	for name, operator := range operators {
		ops := admin.New(operator)
		t.must(ops.ConfigureQueue(t.ctx, "another", func(s *admin.QueueSettings) { s.MaxCheckout = 7 }))
		t.enqueue(operator.Queue("q"), dbq.NewTask{})
		t.failIf(receives(w.C(), 50*time.Millisecond), "woken by an enqueue, or by another queue's settings")
		t.must(ops.ConfigureQueue(t.ctx, "q", func(s *admin.QueueSettings) { s.MaxCheckout++ }))
		t.failIf(!receives(w.C(), t.Patience), "not woken by settings from %s", name)
		t.must(ops.CommandWorker(t.ctx, "w", dbq.CommandPause))
		t.failIf(!receives(w.C(), t.Patience), "not woken by a command from %s", name)
	}
}

func wakeCut(t *test) {
	t.needsNotifications(t.open())
	p, dsn := t.throughProxy()
	c := must(dbq.Open(t.ctx, dsn, dbq.WithPrefix(t.Prefix), dbq.WithLogger(quietLog)))
	t.Cleanup(func() { c.Close() })
	w := t.listening(c)
	p.CutAll()
	t.failIf(!woken(w, t.Patience), "not woken after the connection was cut and made again")
	t.enqueue(t.otherProcess(t.open()).Queue("q"), dbq.NewTask{})
	t.failIf(!woken(w, t.Patience), "not woken by another process's enqueue after the connection was cut")
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience)
	defer cancel()
	if _, _, err := waker(c).Next(ctx, "q"); err != nil {
		t.Errorf("the pool after the cut: %v", err)
	}
}

const herdTasks = 131

// herd has 12 idle workers, which hardly poll, one on each of the queues, which all have the name of q. It counts their
// work for herdTasks tasks that are enqueued into q one after the other, and some of them together.
func (t *test) herd(q *dbq.Queue, queues []*dbq.Queue) (looked, asked int64) {
	var checkouts, questions, started atomic.Int64
	for _, own := range queues {
		t.runWorker(worker.Worker{Queue: own, Tuning: worker.Tuning{PollMin: time.Hour, PollMax: time.Hour, Unlisted: true},
			History: dbq.HistoryNone,
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				started.Add(1)
				return nil
			}),
			Observe: func(e worker.Observation) {
				switch e.Type {
				case worker.CheckedOut:
					checkouts.Add(1)
				case worker.Queried:
					questions.Add(1)
				}
			}})
	}
	t.eventually("all workers have looked", func() bool { return checkouts.Load() >= int64(len(queues)) })
	for _, own := range queues {
		if own.Client() != q.Client() {
			t.eventually("the worker listens", listening(own.Client()))
		}
	}
	// They are at rest when none has polled for a while: longer than a process leaves tasks to others, and longer than
	// a worker waits before it queries for tasks that a wake-up announced and its checkout did not find.
	rest := func() (sum, asked int64) {
		last, since := int64(-1), time.Now()
		t.eventually("the workers are at rest", func() bool {
			if asked = questions.Load(); checkouts.Load()+asked != last {
				last, since = checkouts.Load()+asked, time.Now()
			}
			return time.Since(since) > 1500*time.Millisecond
		})
		return checkouts.Load(), asked
	}
	before, asked := rest()
	for i := range int64(herdTasks) {
		t.enqueue(q, dbq.NewTask{})
		if i%4 > 0 { // else it comes beside the next one
			t.eventually("the task is started", func() bool { return started.Load() > i })
		}
	}
	t.eventually("all tasks are started", func() bool { return started.Load() == herdTasks })
	after, questioned := rest()
	looked, asked = after-before, questioned-asked
	t.Logf("%d enqueues with %d idle workers: %d checkouts, %d questions", herdTasks, len(queues), looked, asked)
	for range herdTasks {
		t.enqueue(q, dbq.NewTask{Delay: time.Hour})
	}
	time.Sleep(200 * time.Millisecond) // an unexpected wake-up has time to come
	if c, n := checkouts.Load()-after, questions.Load()-questioned; c > 0 || n > 0 {
		t.Errorf("%d checkouts and %d questions for tasks that are due in an hour, want none", c, n)
	}
	return looked, asked
}

func wakeHerd(t *test) {
	q := t.open(dbq.WithoutNotify()).Queue("q")
	looked, asked := t.herd(q, slices.Repeat([]*dbq.Queue{q}, 12))
	// A checkout can miss its task, on MySQL beside another one. Its worker queries for it a second later, and checks
	// out again: the more often, the slower the machine is.
	t.failIf(looked-asked > herdTasks*11/10 || asked > herdTasks,
		"%d checkouts and %d questions for %d enqueues, want at most one question and 1.1 other checkouts for each",
		looked, asked, herdTasks)
}

func wakeHerdAcross(t *test) {
	c := t.open()
	t.needsNotifications(c)
	var queues []*dbq.Queue
	for range 12 {
		queues = append(queues, t.otherProcess(t.open()).Queue("q"))
	}
	// 1.1 for each where the machine is not busy; if all woke up, it would be 12.
	if looked, _ := t.herd(c.Queue("q"), queues); looked > herdTasks*2 {
		t.Errorf("%d checkouts for %d enqueues, want at most 2 for each", looked, herdTasks)
	}
}
