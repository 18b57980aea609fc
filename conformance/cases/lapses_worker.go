package cases

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// killerCases are about workers and tasks whose leases expired, or may have.
func killerCases() []Case {
	return inGroup("Worker",
		Case{Name: "CrashingTaskCostsNoOtherAttempts", Slow: true, Once: true, Alone: true, run: workerCrashingTask,
			Law: "A task that kills its worker process, among eleven others, goes to POISON after at most six more crashes " +
				"than it has attempts, and costs no other task an attempt."},
		Case{Name: "FullRateAfterLapses", Slow: true, Once: true, Alone: true, run: workerRateAfterLapses,
			Law: "When every task has lapsed twice, or six times, as after outages, a worker has at least 0.7 of its usual " +
				"rate, and hardly any task is leased in vain."},
		Case{Name: "RevokedSuspectDelaysNoOther", Once: true, Alone: true, run: workerRevokedSuspect,
			Law: "When an operator revokes a task that has lapsed often between its checkout and its start, the worker goes " +
				"on with other such tasks."},
		Case{Name: "UncalledAttemptDoesNotCount", Slow: true, Once: true, run: workerUncalled,
			Law: "When the connection is lost while a worker marks the last attempt of a task as started, and is back only " +
				"after the lease has ended, the task is not in POISON: its handler was not called, so the attempt does not " +
				"count."})
}

func workerRateAfterLapses(t *test) {
	c := t.open()
	const n, concurrency, rounds = 400, 10, 2
	drain := func(round, lapses int) (took time.Duration) {
		q := c.Queue(fmt.Sprintf("round %d, %d lapses", round, lapses))
		t.enqueueMany(q, n, nil)
		t.lapsed(c, q, lapses)
		var leased atomic.Int64
		start := time.Now()
		var last atomic.Int64
		t.must((&worker.Worker{Queue: q, Concurrency: concurrency, UntilEmpty: true, Logger: quietLog,
			Observe: func(o worker.Observation) {
				if o.Type == worker.CheckedOut {
					leased.Add(int64(o.N))
				}
			},
			Handler: worker.Func(func(context.Context, dbq.Task) error {
				time.Sleep(20 * time.Millisecond)
				last.Store(int64(time.Since(start)))
				return nil
			})}).Run(t.ctx))
		if most := int64(n + n/10); leased.Load() > most {
			t.Errorf("after %d lapses, %d tasks were leased %d times, want %d at most", lapses, n, leased.Load(), most)
		}
		return time.Duration(last.Load())
	}
	all := []int{0, 2, 6}
	best := map[int]time.Duration{}
	for round := range rounds {
		for _, lapses := range all {
			if took := drain(round, lapses); round == 0 || took < best[lapses] {
				best[lapses] = took
			}
		}
	}
	for _, lapses := range all[1:] {
		if rate := best[0].Seconds() / best[lapses].Seconds(); rate < 0.7 {
			t.Errorf("after %d lapses, %d tasks took %v, and fresh ones %v: %.2f of the usual rate, want 0.7",
				lapses, n, best[lapses], best[0], rate)
		}
	}
}

func workerRevokedSuspect(t *test) {
	const n = 4
	operator := admin.New(t.open())
	var revoke sync.Once
	c := t.open(dbq.WithObserver(func(call dbq.Call) {
		if call.Op == "checkout" && call.Tasks > 0 { // and not started
			revoke.Do(func() {
				_, err := operator.OperateMany(t.ctx, admin.Revoke,
					admin.Filter{Queue: "q", States: []dbq.State{dbq.StateProcessing}, Limit: n})
				if err != nil {
					t.Errorf("revoke: %v", err)
				}
			})
		}
	}))
	q := c.Queue("q")
	t.enqueueMany(q, n, nil)
	t.lapsed(c, q, 90)
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, BatchSize: 1, PollMax: 50 * time.Millisecond,
		Logger: quietLog,
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			calls.Add(1)
			return nil
		})})
	defer stop()
	parked := func() int { return len(t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StateError}})) }
	t.eventually("all tasks that were not revoked are handled", func() bool {
		revoked := parked()
		return revoked > 0 && int(calls.Load()) == n-revoked
	})
}

// startMark matches the statement that marks attempts as started.
var startMark = regexp.MustCompile(`SET (t\.)?known_started = 1`)

func workerUncalled(t *test) {
	marked := false
	for after := range 3 { // the request that marks may first prepare the statement, and then execute and commit it
		marked = t.loseMark(proxy.Rule{AtText: startMark, After: after, LoseAnswer: true, StayDown: true}) || marked
	}
	if !marked {
		t.Errorf("no answer to a mark was lost")
	}
}

// loseMark lets a worker lose its connections by a rule before it calls its handler. It reports whether the attempt is
// then marked as started.
func (t *test) loseMark(r proxy.Rule) (marked bool) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	q := c.Queue(fmt.Sprintf("mark %d", subjects.Add(1)))
	id := t.enqueue(direct.Queue(q.Name()), dbq.NewTask{MaxAttempts: 1})
	p.Set(r)
	var calls atomic.Int64
	stop := t.runWorker(worker.Worker{Queue: q, Concurrency: 1, Lease: time.Second, PollMax: 50 * time.Millisecond,
		Logger: quietLog,
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			calls.Add(1)
			return nil
		})})
	defer stop()
	t.eventually("the connection is cut, or the handler called", func() bool { return p.Fired() || calls.Load() > 0 })
	time.Sleep(2 * proxy.AnswerPause)
	if calls.Load() > 0 {
		return false // the rule was about another request
	}
	started := fmt.Sprintf("SELECT known_started FROM %stask WHERE queue = '%s'", t.Prefix, q.Name())
	t.must(direct.DB().QueryRowContext(t.ctx, started).Scan(&marked))
	t.awaitExpiry(direct, id)
	p.Heal()
	t.eventually("the task ends", func() bool { return t.get(direct, id).Ended() })
	if task := t.wantState(direct, id, dbq.StateCompleted); task.Attempt != 1 || calls.Load() != 1 {
		t.Errorf("the task was completed as attempt %d after %d calls, want one", task.Attempt, calls.Load())
	}
	return marked
}

// crashingKind is the kind of a task that kills its process.
const crashingKind = "killer"

// childCrashingTasks runs a worker, some of whose handlers kill its process, until its standard input ends.
func childCrashingTasks(ctx context.Context, w *transcript.Caller, s childSpec) error {
	return (&worker.Worker{Queue: w.Queue, Concurrency: 5, Batch: s.Batch[0], Lease: s.Lease,
		PollMax: 100 * time.Millisecond, Grace: defaultPatience,
		Handler: worker.Func(func(_ context.Context, task dbq.Task) error {
			if task.Kind == crashingKind {
				time.Sleep(s.Pause / 2) // others begin
				return killSelf()
			}
			time.Sleep(s.Pause)
			return nil
		})}).Run(ctx)
}

func workerCrashingTask(t *test) {
	c := t.open()
	q := c.Queue("crashing tasks")
	const attempts, most = 3, 20
	ids := t.enqueueMany(q, 12, func(i int, nt *dbq.NewTask) {
		if nt.MaxAttempts = attempts; i == 2 {
			nt.Kind = crashingKind
		}
	})
	deaths := 0
	for ended := false; !ended; {
		p := t.start(childSpec{Do: "crashing tasks", Name: fmt.Sprintf("process %d", deaths), Queue: q.Name(),
			Batch: []int{10}, Lease: long, Pause: 100 * time.Millisecond})
		t.eventually("the process ends, or the work", func() bool {
			ended = t.crashingTasksEnded(c, ids)
			return ended || p.gone()
		})
		if ended {
			p.stop()
		} else if deaths++; deaths > most {
			t.Fatalf("the task has killed %d processes", deaths)
		}
		t.expireLeases(q)
	}
	if deaths < attempts || deaths > attempts+6 {
		t.Errorf("the task killed %d processes, want its %d attempts and at most 6 more", deaths, attempts)
	}
	for i, id := range ids {
		if i == 2 {
			t.wantState(c, id, dbq.StatePoison)
		} else if task := t.wantState(c, id, dbq.StateCompleted); task.Attempt != 1 {
			t.Errorf("task %d beside it was completed as attempt %d, want 1", i, task.Attempt)
		}
	}
}

// crashingTasksEnded reports whether nothing more happens to the tasks without an operator.
func (t *test) crashingTasksEnded(c *dbq.Client, ids []uuid.UUID) bool {
	for _, id := range ids {
		if s := t.get(c, id).State; s != state.Completed && s != state.Poison {
			return false
		}
	}
	return true
}
