package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

func deadLetterCases() []Case {
	return inGroup("DeadLetter",
		Case{Name: "EachPoisonHasOneNotice", run: noticeWithPoison,
			Law: "Each task that goes to POISON by a settlement has one notice in its queue's dead-letter queue, which says " +
				"what happened; a task that is retried, parked or completed has none."},
		Case{Name: "ByExhaustedLease", run: noticeByExhaustedLease,
			Law: "A task whose last lease expired has its notice when a checkout has moved it to POISON."},
		Case{Name: "ByCallersTransaction", run: noticeInCallersTx,
			Law: "A task that goes to POISON in the caller's transaction has its notice when that commits, and none when it " +
				"is rolled back."},
		Case{Name: "BesideOperators", Once: true, run: noticeBesideOperators,
			Law: "A transaction that moves a task to POISON delays no operator who changes settings, at any isolation level."},
		Case{Name: "ByWorker", Once: true, run: noticeByWorker,
			Law: "A worker of the dead-letter queue handles a typed notice for each task that another worker gives up."},
		Case{Name: "OncePerPoison", run: noticeOncePerPoison,
			Law: "A repeated settlement makes no second notice, and a task that goes to POISON again after an operator " +
				"reenqueued it has another."},
		Case{Name: "AnswerLostToSettle", Once: true, run: noticeAnswerLostToSettle,
			Law: "Whichever request of a settlement is lost, or the answer to it, the task has a notice if and only if it is " +
				"POISON."},
		Case{Name: "AnswerLostToCheckout", run: noticeAnswerLostToCheckout,
			Law: "Whichever request of a checkout is lost that finds an expired last lease, or the answer to it, the task has " +
				"a notice if and only if it is POISON."},
		Case{Name: "KilledBetweenStatements", run: noticeKilledBetween,
			Law: "When a process is killed while it moves tasks to POISON, each has a notice if and only if it is POISON."},
		Case{Name: "NoNoticeWithoutSetting", run: noNotice,
			Law: "Tasks of a queue without a dead-letter queue have no notices, nor have tasks that operators cancel or " +
				"quarantine."},
		Case{Name: "NoChain", run: noNoticeOfNotice,
			Law: "A notice that goes to POISON has no notice of its own, whatever the settings of its queue."},
		Case{Name: "SeveralClients", run: noticesOfSeveral,
			Law: "Clients that move tasks of several queues to POISON at the same time do not disturb each other."},
		Case{Name: "SettingChangesWhileRunning", run: noticeSettingChanges,
			Law: "A change of the dead-letter queue applies to each settlement and checkout that begins after it."},
		Case{Name: "InvalidQueueIsRefused", Once: true, run: noticeQueueRefused,
			Law: "A queue cannot be its own dead-letter queue, and an invalid name is refused and changes nothing."},
		Case{Name: "Redrive", run: redrive,
			Law: "Operators can reenqueue the tasks of a queue in POISON by kind and by time, without the cancelled ones, and " +
				"count them first."},
	)
}

var kindPoisoned = dbq.Kind[dbq.PoisonNotice]{Name: dbq.KindPoison}

// deadLetter sets a queue's dead-letter queue.
func (t *test) deadLetter(c *dbq.Client, queue, to string) {
	t.must(admin.New(c).ConfigureQueue(t.ctx, queue, func(s *admin.QueueSettings) { s.DeadLetter = to }))
}

// notices returns the notices in a queue, by task and fence.
func (t *test) notices(c *dbq.Client, queue string) (out []dbq.PoisonNotice) {
	for _, task := range t.list(c, admin.Filter{Queue: queue, Kind: dbq.KindPoison}) {
		whole := t.get(c, task.ID)
		n, err := kindPoisoned.Decode(whole)
		t.must(err)
		if want := fmt.Sprintf("%s:%d", n.Task, n.Fence); whole.Reference != want {
			t.Errorf("a notice has the reference %q, want %q", whole.Reference, want)
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b dbq.PoisonNotice) int { return slices.Compare(a.Task[:], b.Task[:]) })
	return out
}

// wantNotices records a failure unless the queue has one notice for each of the tasks and no other.
func (t *test) wantNotices(what string, c *dbq.Client, queue string, tasks ...uuid.UUID) {
	var got []uuid.UUID
	for _, n := range t.notices(c, queue) {
		got = append(got, n.Task)
	}
	if slices.SortFunc(tasks, byBytes); !slices.Equal(got, tasks) {
		t.Errorf("%s: there are notices for %v, want %v", what, got, tasks)
	}
}

func noticeWithPoison(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.deadLetter(c, "q", "alerts")
	poisoned := t.takeNew(q, dbq.NewTask{Kind: "mail", Reference: "r/1", Payload: []byte("secret")}, long)
	before := t.now(c)
	t.must(q.Settle(t.ctx, poisoned.Lease, dbq.Poisoned(errBoom)))
	n := t.notices(c, "alerts")
	if len(n) != 1 {
		t.Fatalf("there are %d notices, want 1", len(n))
	}
	now := t.get(c, poisoned.ID)
	want := dbq.PoisonNotice{Task: poisoned.ID, Queue: "q", Kind: "mail", Reference: "r/1", Attempt: 1,
		Fence: now.Fence, Error: string(now.Result), At: n[0].At, Worker: n[0].Worker}
	if n[0] != want || n[0].Error == "" || !n[0].At.Equal(now.Updated) || n[0].At.Before(before) {
		t.Errorf("the notice is %+v, want %+v", n[0], want)
	}
	notice := t.take(c.Queue("alerts"), long)
	if notice.Kind != dbq.KindPoison || notice.Attempt != 1 || notice.MaxAttempts != dbq.DefaultMaxAttempts {
		t.Errorf("the notice is handed out as %s", show(notice))
	}
	t.must(c.Queue("alerts").Settle(t.ctx, notice.Lease, dbq.Deleted()))

	// In one batch: only what ends in POISON has a notice.
	ids := t.enqueueMany(q, 7, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i%2 })
	tasks := t.checkout(q, 10, long)
	var ss []dbq.Settlement
	for _, task := range tasks {
		o := dbq.RetryIn(long, errBoom) // with one attempt it is the last
		switch task.ID {
		case ids[2]:
			o = dbq.Poisoned(nil)
		case ids[3]:
			o = dbq.Completed(nil)
		case ids[4]:
			o = dbq.Parked(errBoom)
		case ids[5]:
			o = dbq.Released(0)
		case ids[6]:
			o = dbq.Deleted()
		}
		ss = append(ss, dbq.Settlement{Lease: task.Lease, Outcome: o})
	}
	out, err := q.SettleMany(t.ctx, ss)
	t.must(err)
	for i := range out {
		t.must(out[i].Err)
	}
	t.wantState(c, ids[1], dbq.StateError)
	t.wantNotices("after a batch", c, "alerts", ids[0], ids[2])

	// Without the history a failure is recorded nowhere else.
	last := t.takeNew(c.Queue("unrecorded"), dbq.NewTask{MaxAttempts: 1}, long)
	t.deadLetter(c, "unrecorded", "more alerts")
	_, err = c.Queue("unrecorded").SettleMany(t.ctx, []dbq.Settlement{access.Settlement(last.Lease,
		dbq.RetryIn(long, errBoom), access.SettleOptions{Unrecorded: true})})
	t.must(err)
	t.wantNotices("after a failure that is not recorded", c, "more alerts", last.ID)
}

func noticeByExhaustedLease(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.deadLetter(c, "q", "alerts")
	ids := t.enqueueMany(q, 5, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i/3 })
	var last dbq.Task
	for _, last = range t.checkout(q, 10, short) {
	}
	t.awaitExpiry(c, last.ID)
	var again []uuid.UUID
	t.eventually("checkouts take over what has attempts left", func() bool {
		for _, task := range t.checkout(q, 10, long) {
			again = append(again, task.ID)
		}
		return len(again) == 2 && t.get(c, ids[0]).State == dbq.StatePoison
	})
	t.wantNotices("after the leases expired", c, "alerts", ids[:3]...)
	for _, n := range t.notices(c, "alerts") {
		now := t.get(c, n.Task)
		if n.Fence != now.Fence || n.Attempt != 1 || n.Error != string(now.Result) || n.Worker == "" {
			t.Errorf("the notice is %+v, and the task %s with result %q", n, show(now), now.Result)
		}
	}
}

func noticeInCallersTx(t *test) {
	c := t.open()
	names, kinds := t.transactions()
	for _, name := range names {
		q := c.Queue("q " + name)
		t.deadLetter(c, q.Name(), "alerts")
		task := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, long)
		for _, commits := range []bool{false, true} {
			tx, commit, rollback, err := kinds[name](t.ctx, c)
			t.must(err)
			o := dbq.Poisoned(errBoom)
			if commits {
				o = dbq.RetryIn(long, errBoom)
			}
			err = q.SettleTx(t.ctx, tx, task.Lease, o)
			if err != nil {
				_ = rollback()
			}
			t.must(err)
			if commits {
				t.must(commit())
				t.wantState(c, task.ID, dbq.StatePoison)
				t.wantNotices(name+": after the commit", c, "alerts", task.ID)
			} else {
				t.must(rollback())
				t.wantState(c, task.ID, dbq.StateProcessing)
				t.wantNotices(name+": after the rollback", c, "alerts")
			}
		}
		for _, n := range t.checkout(c.Queue("alerts"), 10, long) {
			t.must(c.Queue("alerts").Settle(t.ctx, n.Lease, dbq.Deleted()))
		}
	}
}

func noticeByWorker(t *test) {
	c := t.open()
	t.deadLetter(c, "q", "alerts")
	ids := t.enqueueMany(c.Queue("q"), 3, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 })
	got := make(chan dbq.PoisonNotice, 10)
	var mux worker.Mux
	worker.Handle(&mux, kindPoisoned, func(_ context.Context, _ dbq.Task, n dbq.PoisonNotice) error {
		got <- n
		return nil
	})
	// It polls far too seldom: it is woken.
	stopAlerts := t.runWorker(worker.Worker{Queue: c.Queue("alerts"), Handler: &mux, PollMin: long, PollMax: long,
		Logger: quietLog})
	// It waits once it has handled a first notice.
	first, err := kindPoisoned.Task(dbq.PoisonNotice{Queue: "first"})
	t.must(err)
	t.enqueue(c.Queue("alerts"), first)
	select {
	case <-got:
	case <-t.ctx.Done():
	}
	time.Sleep(100 * time.Millisecond)
	stop := t.runWorker(worker.Worker{Queue: c.Queue("q"), Logger: quietLog, History: dbq.HistoryNone,
		Handler: worker.Func(func(context.Context, dbq.Task) error { return errBoom })})
	var tasks []uuid.UUID
	for range ids {
		select {
		case n := <-got:
			tasks = append(tasks, n.Task)
			if n.Error != errBoom.Error() || n.Queue != "q" || n.Worker == "" {
				t.Errorf("the notice is %+v", n)
			}
		case <-time.After(t.Patience):
			t.Fatalf("%d of %d notices arrived", len(tasks), len(ids))
		}
	}
	stop()
	stopAlerts()
	slices.SortFunc(tasks, byBytes)
	if slices.SortFunc(ids, byBytes); !slices.Equal(tasks, ids) {
		t.Errorf("there were notices for %v, want %v", tasks, ids)
	}
}

func noticeOncePerPoison(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.deadLetter(c, "q", "alerts")
	task := t.takeNew(q, dbq.NewTask{}, long)
	s := dbq.Settlement{Lease: task.Lease, Outcome: dbq.Poisoned(errBoom)}
	_, err := q.SettleMany(t.ctx, []dbq.Settlement{s, s})
	t.must(err)
	again := access.Settlement(s.Lease, s.Outcome, access.SettleOptions{Again: true})
	out, err := q.SettleMany(t.ctx, []dbq.Settlement{again})
	if t.must(err); out[0].Err != nil || out[0].State != dbq.StatePoison {
		t.Errorf("the repeated settlement gave %+v", out[0])
	}
	t.wantErr("settling once more", q.Settle(t.ctx, s.Lease, s.Outcome), dbq.ErrLeaseLost)
	t.wantNotices("after a repeated settlement", c, "alerts", task.ID)

	// Some other task has the reference of the notice to come: the task goes to POISON nevertheless.
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, task.ID))
	task = t.take(q, long)
	t.must(q.Settle(t.ctx, task.Lease, s.Outcome))
	t.wantNotices("after it went to POISON again", c, "alerts", task.ID, task.ID)
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, task.ID))
	task = t.take(q, long)
	t.enqueue(c.Queue("alerts"), dbq.NewTask{Reference: fmt.Sprintf("%s:%d", task.ID, task.Fence)})
	t.must(q.Settle(t.ctx, task.Lease, s.Outcome))
	t.wantState(c, task.ID, dbq.StatePoison)
	t.wantNotices("after its reference was taken", c, "alerts", task.ID, task.ID)
}

func noNotice(t *test) {
	c := t.open()
	ops := admin.New(c)
	task := t.takeNew(c.Queue("plain"), dbq.NewTask{}, long)
	t.must(c.Queue("plain").Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))
	t.must(ops.ConfigureQueue(t.ctx, "plain", func(s *admin.QueueSettings) { s.Batch = 7 }))
	task = t.takeNew(c.Queue("plain"), dbq.NewTask{}, long)
	t.must(c.Queue("plain").Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))

	t.deadLetter(c, "q", "alerts")
	waiting := t.enqueue(c.Queue("q"), dbq.NewTask{Delay: long})
	t.must(ops.Operate(t.ctx, admin.Cancel, waiting))
	running := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	t.must(ops.Operate(t.ctx, admin.Cancel, running.ID))
	parked := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	t.must(c.Queue("q").Settle(t.ctx, parked.Lease, dbq.Parked(errBoom)))
	t.must(ops.Operate(t.ctx, admin.Quarantine, parked.ID))
	t.wantNotices("after operators' events", c, "alerts")
	if got := t.list(c, admin.Filter{Kind: dbq.KindPoison}); len(got) > 0 {
		t.Errorf("there are %d notices, want none", len(got))
	}
}

func noNoticeOfNotice(t *test) {
	c := t.open()
	t.deadLetter(c, "q", "alerts")
	t.deadLetter(c, "alerts", "q")
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	t.must(c.Queue("q").Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))
	notice := t.take(c.Queue("alerts"), long)
	t.must(c.Queue("alerts").Settle(t.ctx, notice.Lease, dbq.Poisoned(errBoom)))
	t.wantState(c, notice.ID, dbq.StatePoison)
	t.wantNotices("after the notice went to POISON", c, "q")

	// By an expired lease, beside a task of another kind, which has one.
	t.enqueue(c.Queue("alerts"), dbq.NewTask{Kind: dbq.KindPoison, MaxAttempts: 1})
	other := t.enqueue(c.Queue("alerts"), dbq.NewTask{MaxAttempts: 1})
	t.checkout(c.Queue("alerts"), 10, short)
	t.awaitExpiry(c, other)
	t.eventually("a checkout finds them", func() bool {
		t.wantNone("their attempts are exhausted", c.Queue("alerts"))
		return t.get(c, other).State == dbq.StatePoison
	})
	t.wantNotices("after the leases expired", c, "q", other)
}

func noticeSettingChanges(t *test) {
	c, other := t.open(), t.open()
	q := other.Queue("q")
	poison := func() uuid.UUID {
		task := t.takeNew(q, dbq.NewTask{}, long)
		t.must(q.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))
		return task.ID
	}
	expire := func() uuid.UUID {
		id := t.enqueue(q, dbq.NewTask{MaxAttempts: 1})
		t.abandon(q)
		t.eventually("a checkout finds it", func() bool {
			t.wantNone("its attempts are exhausted", q)
			return t.get(c, id).State == dbq.StatePoison
		})
		return id
	}
	poison()
	want := map[string][]uuid.UUID{}
	for _, to := range []string{"a", "b", "", "a"} {
		t.deadLetter(c, "q", to)
		if ids := []uuid.UUID{poison(), expire()}; to != "" {
			want[to] = append(want[to], ids...)
		}
		t.wantNotices(fmt.Sprintf("a, when it is %q", to), c, "a", want["a"]...)
		t.wantNotices(fmt.Sprintf("b, when it is %q", to), c, "b", want["b"]...)
	}
	set, err := admin.New(other).QueueSettings(t.ctx, "q")
	if t.must(err); set.DeadLetter != "a" {
		t.Errorf("the settings are %+v", set)
	}
}

func noticeQueueRefused(t *test) {
	c := t.open()
	ops := admin.New(c)
	t.deadLetter(c, "q", "alerts")
	for to, want := range map[string]error{"q": dbq.ErrOption, "\x01": dbq.ErrQueueName} {
		t.wantErr(fmt.Sprintf("dead-letter queue %q", to), ops.ConfigureQueue(t.ctx, "q",
			func(s *admin.QueueSettings) { s.DeadLetter = to }), want)
	}
	if set, err := ops.QueueSettings(t.ctx, "q"); err != nil || set.DeadLetter != "alerts" {
		t.Errorf("after refused settings they are %+v, error %v", set, err)
	}
}
