package admin_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// queue is the queue of a test, with what can keep its tasks waiting.
type queue struct {
	t   *testing.T
	db  *dbqtest.DB
	ops *admin.Admin
}

func newQueue(t *testing.T) queue {
	t.Helper()
	db := dbqtest.New(t)
	return queue{t, db, admin.New(db.Client)}
}

// enqueue adds n tasks with a key.
func (q queue) enqueue(n int, key string) {
	q.t.Helper()
	tasks := make([]dbq.NewTask, n)
	for i := range tasks {
		tasks[i].Key = key
	}
	if _, err := q.db.Queue("mail").EnqueueMany(q.t.Context(), tasks); err != nil {
		q.t.Fatal(err)
	}
}

// lease checks out up to n tasks, and fails the test unless it gets want.
func (q queue) lease(n, want int) []dbq.Task {
	q.t.Helper()
	tasks, err := q.db.Queue("mail").Checkout(q.t.Context(), n, time.Hour)
	if err != nil || len(tasks) != want {
		q.t.Fatalf("%d tasks were leased, want %d: %v", len(tasks), want, err)
	}
	return tasks
}

// worker registers a worker, or replaces its report.
func (q queue) worker(w control.Worker) {
	q.t.Helper()
	w.ID, w.Queue = cmp.Or(w.ID, "w"), "mail"
	check.OK(q.t, access.Of(q.db.Client).Control.Announce(q.t.Context(), w, time.Minute))
}

func (q queue) limit(l admin.QueueLimits) {
	q.t.Helper()
	check.OK(q.t, q.ops.ConfigureLimits(q.t.Context(), "mail", func(to *admin.QueueLimits) { *to = l }))
}

// is fails the test unless the queue waits for a cause, and the verdict has the texts.
func (q queue) is(want admin.Cause, texts ...string) admin.Verdict {
	q.t.Helper()
	v, err := q.ops.Why(q.t.Context(), "mail")
	check.OK(q.t, err)
	if v.Cause != want {
		q.t.Errorf("the cause is %q, want %q: %s", v.Cause, want, v)
	}
	for _, text := range texts {
		if !strings.Contains(v.String(), text) {
			q.t.Errorf("the verdict lacks %q: %s", text, v)
		}
	}
	return v
}

var free = control.Worker{State: control.WorkerRunning, Concurrency: 4}

func TestWhyFindsEachCause(t *testing.T) {
	t.Parallel()
	hourly := admin.Rate{Starts: 1, Per: time.Hour, Burst: 1}
	for name, test := range map[string]func(t *testing.T, q queue){
		"empty": func(t *testing.T, q queue) {
			if v := q.is(admin.CauseEmpty, "Nothing waits."); len(v.Excluded) > 0 {
				t.Errorf("an empty queue excludes %v", v.Excluded)
			}
		},
		"empty with a running task": func(_ *testing.T, q queue) {
			q.enqueue(1, "")
			q.lease(1, 1)
			q.is(admin.CauseEmpty, "1 running")
		},
		"paused": func(t *testing.T, q queue) {
			check.OK(t, q.ops.PauseQueue(t.Context(), "mail", admin.By("ann"), admin.Reason("month end")))
			q.is(admin.CausePaused, "Queue mail is paused by ann: month end.")
			q.enqueue(2, "")
			q.is(admin.CausePaused, "2 waiting. Queue mail is paused")
		},
		"no worker": func(_ *testing.T, q queue) {
			q.enqueue(1, "")
			q.is(admin.CauseNoWorker, "1 waiting. No worker has reported.")
		},
		"dead worker": func(t *testing.T, q queue) {
			q.enqueue(2, "")
			q.lease(1, 1)
			q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 4, Holding: 1})
			q.db.Advance(2 * time.Minute)
			if v := q.is(admin.CauseNoWorker, "1 worker has stopped without notice"); v.Dead != 1 || v.Workers != 0 {
				t.Errorf("the verdict counts %d dead and %d living workers, want 1 and 0", v.Dead, v.Workers)
			}
		},
		"program without a worker": func(_ *testing.T, q queue) { // it does not report itself
			q.enqueue(2, "")
			q.lease(1, 1)
			q.is(admin.CauseStarting)
		},
		"paused worker": func(_ *testing.T, q queue) {
			q.enqueue(1, "")
			q.worker(control.Worker{State: control.WorkerPaused, Concurrency: 4})
			q.is(admin.CauseWorkersPaused, "paused or stopping")
		},
		"rate": func(t *testing.T, q queue) {
			q.worker(free)
			q.limit(admin.QueueLimits{Rate: hourly})
			q.enqueue(4, "")
			q.lease(4, 1)
			v := q.is(admin.CauseRate, "3 waiting. Starts are limited to 1 an hour: 3 hours to drain.", "1 of 4 slots busy",
				"Not the reason: pause, workers, limit of running tasks, limits of keys, busy slots.")
			if v.StartsLeft != 0 || v.NextStart > time.Hour || v.NextStart < 50*time.Minute {
				t.Errorf("%d starts are left, and the next is in %v; want none, and an hour", v.StartsLeft, v.NextStart)
			}
			q.db.Advance(90 * time.Minute) // one start is free, and another one is needed
			q.worker(free)
			if v = q.is(admin.CauseUnknown); v.StartsLeft != 1 {
				t.Errorf("after the wait, %d starts are left, want 1", v.StartsLeft)
			}
		},
		"limit of leased tasks": func(t *testing.T, q queue) {
			q.worker(free)
			q.limit(admin.QueueLimits{Concurrency: 2})
			q.enqueue(5, "")
			q.lease(5, 2)
			v := q.is(admin.CauseConcurrency, "3 waiting. The queue may run 2 tasks at once, and 2 run.")
			if slices.Contains(v.Excluded, admin.CauseConcurrency) || !slices.Contains(v.Excluded, admin.CauseRate) {
				t.Errorf("the verdict excludes %v", v.Excluded)
			}
		},
		"limit of a key": func(t *testing.T, q queue) {
			q.worker(free)
			q.limit(admin.QueueLimits{KeyConcurrency: 1})
			q.enqueue(3, "acme")
			q.enqueue(2, "duke")
			q.lease(5, 2)
			v := q.is(admin.CauseKeys, "Each key may run 1 task at once", "Key acme has the most: 2 waiting.")
			if v.Key != "acme" || v.KeyWaiting != 2 {
				t.Errorf("the key is %q with %d tasks, want acme with 2", v.Key, v.KeyWaiting)
			}
			q.enqueue(1, "") // a task without a key has no such limit
			q.is(admin.CauseStarting)
		},
		"order of a key": func(t *testing.T, q queue) {
			q.worker(free)
			q.limit(admin.QueueLimits{Order: admin.OrderBlock})
			q.enqueue(2, "acme")
			first := q.lease(5, 1)[0].ID
			check.OK(t, q.ops.Operate(t.Context(), admin.Revoke, first))
			if v := q.is(admin.CauseKeys, "one after the other"); v.FirstTask != first {
				t.Errorf("the first task is %v, want the parked one, %v", v.FirstTask, first)
			}
			q.limit(admin.QueueLimits{Order: admin.OrderSkip})
			q.is(admin.CauseStarting)
		},
		"rate of a key": func(t *testing.T, q queue) {
			q.worker(free)
			q.limit(admin.QueueLimits{KeyRate: hourly})
			q.enqueue(2, "acme")
			done := q.lease(5, 1)
			check.OK(t, q.db.Queue("mail").Complete(t.Context(), done[0].Lease, nil))
			q.is(admin.CauseKeys, "Starts of each key are limited to 1 an hour")
			q.db.Advance(time.Hour)
			q.worker(free)
			if v := q.is(admin.CauseUnknown); v.Key != "" {
				t.Errorf("the verdict names the key %q, which may start a task", v.Key)
			}
		},
		"busy workers": func(t *testing.T, q queue) {
			q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 2, Holding: 2})
			q.enqueue(3, "")
			if v := q.is(admin.CauseBusy, "busy: 2 of 2"); v.Slots != 2 || v.Busy != 2 {
				t.Errorf("%d of %d slots are busy, want 2 of 2", v.Busy, v.Slots)
			}
			// The count of the running tasks is newer than the report of a worker.
			q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 2})
			q.is(admin.CauseStarting)
			q.lease(2, 2)
			q.is(admin.CauseBusy)
		},
		"busy worker beside a paused one": func(t *testing.T, q queue) {
			q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 2, Holding: 2})
			q.worker(control.Worker{ID: "paused", State: control.WorkerPaused, Concurrency: 2})
			q.enqueue(3, "")
			if v := q.is(admin.CauseBusy, "busy: 2 of 2"); slices.Contains(v.Excluded, admin.CauseBusy) {
				t.Errorf("the verdict excludes %v", v.Excluded)
			}
		},
		"worker that was forgotten": func(_ *testing.T, q queue) {
			q.enqueue(2, "")
			q.lease(1, 1)
			q.db.Advance(10 * time.Minute)
			q.is(admin.CauseNoWorker)
		},
		"more tasks of a key than are read": func(t *testing.T, q queue) {
			q.limit(admin.QueueLimits{KeyConcurrency: 1})
			q.enqueue(1500, "acme")
			q.lease(1, 1)
			q.enqueue(1, "duke")
			q.enqueue(1, "earl")
			q.lease(1, 1)
			q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 2, Holding: 2})
			if v := q.is(admin.CauseBusy); slices.Contains(v.Excluded, admin.CauseKeys) {
				t.Errorf("the verdict excludes %v", v.Excluded)
			}
			q.worker(free)
			q.is(admin.CauseKeys, "Key acme has the most: at least 1,000 waiting.")
		},
		"no handler": func(t *testing.T, q queue) {
			w := free
			w.NoHandler = []string{"sms"}
			q.worker(w)
			q.enqueue(1, "")
			v := q.is(admin.CauseNoHandler, "no handler for sms")
			if !slices.Equal(v.NoHandler, []string{"sms"}) {
				t.Errorf("the kinds are %q, want sms", v.NoHandler)
			}
		},
		"not due": func(t *testing.T, q queue) {
			q.worker(free)
			_, err := q.db.Queue("mail").Enqueue(t.Context(), dbq.NewTask{Delay: time.Hour})
			check.OK(t, err)
			v := q.is(admin.CauseNotDue, "1 not due yet. The next one is due in 60 minutes.")
			if v.NextDue > time.Hour || v.NextDue < 50*time.Minute || v.Waiting != 1 || v.Due != 0 {
				t.Errorf("the next of %d tasks is due in %v, and %d are due", v.Waiting, v.NextDue, v.Due)
			}
		},
		"starting": func(_ *testing.T, q queue) {
			q.worker(free)
			q.enqueue(1, "")
			q.is(admin.CauseStarting, "Nothing holds them up.")
		},
		"unknown": func(t *testing.T, q queue) {
			q.enqueue(1, "")
			q.db.Advance(10 * time.Minute)
			q.worker(free)
			v := q.is(admin.CauseUnknown, "due for 10 minutes", "logs of the workers")
			now, err := q.db.Now(t.Context())
			check.OK(t, err)
			found, err := q.ops.List(t.Context(), admin.Filter{})
			check.OK(t, err)
			if got := v.ForTask(found.Tasks[0], now); got.Cause != admin.CauseUnknown {
				t.Errorf("the task itself waits for %q: %s", got.Cause, got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newQueue(t))
		})
	}
}

// TestWhyNamesTheFirstCause has all causes at once, and takes one after the other away.
func TestWhyNamesTheFirstCause(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	all := admin.QueueLimits{Concurrency: 1, KeyConcurrency: 1, Rate: admin.Rate{Starts: 1, Per: time.Hour, Burst: 1}}
	q.limit(all)
	q.enqueue(3, "acme")
	leased := q.lease(5, 1)
	q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 1, Holding: 1})
	q.db.Advance(2 * time.Minute) // it is dead
	check.OK(t, q.ops.PauseQueue(t.Context(), "mail"))
	q.is(admin.CausePaused)
	check.OK(t, q.ops.ResumeQueue(t.Context(), "mail"))
	q.is(admin.CauseNoWorker)
	busy := control.Worker{State: control.WorkerPaused, Concurrency: 1, Holding: 1, NoHandler: []string{"sms"}}
	q.worker(busy)
	q.is(admin.CauseWorkersPaused)
	busy.State = control.WorkerRunning
	q.worker(busy)
	q.is(admin.CauseRate, "Workers have no handler for sms.")
	all.Rate = admin.Rate{}
	q.limit(all)
	q.is(admin.CauseConcurrency)
	all.Concurrency = 0
	q.limit(all)
	q.is(admin.CauseKeys)
	q.limit(admin.QueueLimits{})
	q.is(admin.CauseBusy)
	check.OK(t, q.db.Queue("mail").Complete(t.Context(), leased[0].Lease, nil))
	busy.Holding = 0
	q.worker(busy)
	q.is(admin.CauseNoHandler)
	busy.NoHandler = nil
	q.worker(busy)
	q.is(admin.CauseUnknown) // they have been due for two minutes
	for _, task := range q.lease(5, 2) {
		check.OK(t, q.db.Queue("mail").Settle(t.Context(), task.Lease, dbq.RetryIn(time.Hour, errors.New("later"))))
	}
	q.is(admin.CauseNotDue)
}

// TestTimeToDrainByARate has 450 due tasks, and a rate of which the burst is used up.
func TestTimeToDrainByARate(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.worker(free)
	q.limit(admin.QueueLimits{Rate: admin.Rate{Starts: 120, Per: time.Hour, Burst: 20}})
	q.enqueue(470, "")
	q.lease(100, 20)
	v := q.is(admin.CauseRate, "450 waiting. Starts are limited to 120 an hour: 3.", "hours to drain.")
	if want := 450 * 30 * time.Second; v.Drain > want || v.Drain < want-2*time.Minute {
		t.Errorf("450 tasks at a start in 30 s drain in %v, want at most %v", v.Drain, want)
	}
}

// TestTimeToDrainAtThePaceOfTheLastMinutes has a worker that reports more ended tasks than come.
func TestTimeToDrainAtThePaceOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.worker(control.Worker{State: control.WorkerRunning, Concurrency: 1, Holding: 1})
	q.enqueue(60, "")
	store := access.Of(q.db.Client).Store
	for ago := 2 * time.Minute; ago < 8*time.Minute; ago += time.Minute {
		since := time.Now().Add(-ago).Truncate(time.Minute).UnixMicro()
		check.OK(t, store.AddReport(t.Context(), dbq.NewID().String(),
			series.Period{Queue: "mail", Since: since, Counts: series.Counts{Completed: 30}}))
		check.OK(t, store.Sample(t.Context(), since, func(string) bool { return false }))
	}
	v := q.is(admin.CauseBusy, "At the pace of the last 10 minutes, it is empty in")
	if v.Drain < time.Minute || v.Drain > 10*time.Minute {
		t.Errorf("60 tasks at about 30 a minute drain in %v", v.Drain)
	}
}

// TestWhyATaskWaits asks for tasks of a queue that wait for other reasons than the queue as a whole.
func TestWhyATaskWaits(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	mail := q.db.Queue("mail")
	add := func(task dbq.NewTask) dbq.Task {
		t.Helper()
		done, err := mail.EnqueueMany(t.Context(), []dbq.NewTask{task})
		check.OK(t, err)
		got, err := q.db.Get(t.Context(), done[0].ID)
		check.OK(t, err)
		return got
	}
	q.limit(admin.QueueLimits{KeyConcurrency: 1})
	first := add(dbq.NewTask{Key: "acme"})
	q.lease(1, 1)
	held, plain := add(dbq.NewTask{Key: "acme"}), add(dbq.NewTask{})
	later, sms := add(dbq.NewTask{Delay: time.Hour}), add(dbq.NewTask{Kind: "sms"})
	parked := add(dbq.NewTask{})
	check.OK(t, q.ops.Operate(t.Context(), admin.Reject, parked.ID))
	w, err := workflow.Enqueue(t.Context(), q.db.Client, []workflow.Step{
		{Name: "charge", Queue: "other"}, {Name: "ship", Queue: "mail", Needs: []string{"charge"}},
	})
	check.OK(t, err)
	worker := free
	worker.NoHandler = []string{"sms"}
	q.worker(worker)
	now, err := q.db.Now(t.Context())
	check.OK(t, err)
	v, err := q.ops.Why(t.Context(), "mail")
	check.OK(t, err)
	for name, c := range map[string]struct {
		id   uuid.UUID
		want admin.Cause
		text string
	}{
		"running":    {first.ID, "", ""},
		"of a key":   {held.ID, admin.CauseKeys, "1 of its key, acme, run"},
		"plain":      {plain.ID, admin.CauseStarting, "Nothing holds it up."},
		"later":      {later.ID, admin.CauseNotDue, "It is due in"},
		"sms":        {sms.ID, admin.CauseNoHandler, "no handler for its kind, sms"},
		"parked":     {parked.ID, admin.CauseParked, "until someone"},
		"workflow's": {w.TaskIDs[1], admin.CauseSteps, "other steps"},
	} {
		task, err := q.db.Get(t.Context(), c.id)
		check.OK(t, err)
		if got := v.ForTask(task, now); got.Cause != c.want || !strings.Contains(got.Answer, c.text) {
			t.Errorf("%s: %q, want %q: %s", name, got.Cause, c.want, got)
		}
	}
	check.OK(t, q.ops.PauseQueue(t.Context(), "mail"))
	v, err = q.ops.Why(t.Context(), "mail")
	check.OK(t, err)
	if got := v.ForTask(plain, now); got.Cause != admin.CausePaused {
		t.Errorf("a task of a paused queue waits for %q: %s", got.Cause, got)
	}
	if got := v.ForTask(later, now); got.Cause != admin.CauseNotDue || !strings.Contains(got.Detail, "is paused") {
		t.Errorf("a task that is due later, in a paused queue, waits for %q: %s", got.Cause, got)
	}
}

// TestVerdictWithoutReading has what an overview knows of all queues: it finds no limit of keys, and excludes none.
func TestVerdictWithoutReading(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.worker(free)
	q.limit(admin.QueueLimits{KeyConcurrency: 1})
	q.enqueue(2, "acme")
	q.lease(2, 1)
	stats, err := q.ops.Stats(t.Context())
	check.OK(t, err)
	queues, err := q.ops.Queues(t.Context())
	check.OK(t, err)
	workers, err := q.ops.Workers(t.Context())
	check.OK(t, err)
	facts := admin.Facts{Stats: stats[0], Info: queues[0], Workers: workers}
	v := facts.Verdict()
	if v.Cause != admin.CauseStarting || slices.Contains(v.Excluded, admin.CauseKeys) ||
		!strings.Contains(v.Answer, "see its keys") {
		t.Errorf("the facts alone say %q, and exclude %v", v.Cause, v.Excluded)
	}
	if v, err = q.ops.WhyOf(t.Context(), facts); err != nil || v.Cause != admin.CauseKeys {
		t.Errorf("with the keys, the cause is %q, %v", v.Cause, err)
	}
	if _, err := json.Marshal(v); err != nil {
		t.Error(err)
	}
}

// TestRateThatIsTooLow has more tasks come than its rate lets start.
func TestRateThatIsTooLow(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.worker(free)
	q.limit(admin.QueueLimits{Rate: admin.Rate{Starts: 60, Per: time.Hour, Burst: 1}})
	q.enqueue(50, "")
	q.lease(1, 1)
	store := access.Of(q.db.Client).Store
	for range 5 {
		now, err := q.db.Now(t.Context())
		check.OK(t, err)
		check.OK(t, store.Sample(t.Context(), now.Truncate(time.Minute).UnixMicro(), func(string) bool { return false }))
		q.enqueue(20, "")
		q.db.Advance(time.Minute)
	}
	q.worker(free)
	q.lease(1, 1)
	v := q.is(admin.CauseRate, "Starts are limited to 60 an hour.", "It grows: in a minute, ")
	if v.Drain != 0 {
		t.Errorf("the queue grows, and drains in %v", v.Drain)
	}
}
