package cases

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/internal/access"
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
			Law: "A task that goes to POISON in a transaction has its notice if that commits, and none if it rolls back."},
		Case{Name: "BesideOperators", Once: true, run: noticeBesideOperators,
			Law: "A transaction that moves a task to POISON delays no operator who changes settings, at any isolation level."},
		Case{Name: "OncePerPoison", run: noticeOncePerPoison,
			Law: "A repeated settlement makes no second notice; a task that goes to POISON again has another."},
		Case{Name: "AnswerLostToSettle", Once: true, run: noticeAnswerLostToSettle,
			Law: "Whichever request or answer of a settlement is lost, the task has a notice if and only if it is POISON."},
		Case{Name: "AnswerLostToCheckout", run: noticeAnswerLostToCheckout,
			Law: "Whichever request of a checkout is lost that finds an expired last lease, or the answer to it, the task has " +
				"a notice if and only if it is POISON."},
		Case{Name: "SeveralClients", run: noticesOfSeveral,
			Law: "Clients that move tasks of several queues to POISON at the same time do not disturb each other."},
		Case{Name: "Redrive", run: redrive,
			Law: "Operators can reenqueue tasks in POISON by kind and time, without cancelled ones, and count them first."},
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
		n := must(kindPoisoned.Decode(whole))
		if want := fmt.Sprintf("%s:%d", n.TaskID, n.Fence); whole.Reference != want {
			t.Errorf("a notice has the reference %q, want %q", whole.Reference, want)
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b dbq.PoisonNotice) int { return slices.Compare(a.TaskID[:], b.TaskID[:]) })
	return out
}

// wantNotices records a failure unless the queue has one notice for each of the tasks and no other.
func (t *test) wantNotices(what string, c *dbq.Client, queue string, tasks ...uuid.UUID) {
	var got []uuid.UUID
	for _, n := range t.notices(c, queue) {
		got = append(got, n.TaskID)
	}
	t.wantSameIDs("notices "+what, got, tasks)
}

func noticeWithPoison(t *test) {
	c, q := t.openQueue()
	t.deadLetter(c, "q", "alerts")
	poisoned := t.takeNew(q, dbq.NewTask{Kind: "mail", Reference: "r/1", Payload: []byte("secret")}, long)
	before := t.now(c)
	t.must(q.Settle(t.ctx, poisoned.Lease, dbq.Poisoned(errBoom)))
	n := t.notices(c, "alerts")
	if len(n) != 1 {
		t.Fatalf("there are %d notices, want 1", len(n))
	}
	now := t.get(c, poisoned.ID)
	want := dbq.PoisonNotice{TaskID: poisoned.ID, Queue: "q", Kind: "mail", Reference: "r/1", Attempt: 1,
		Fence: now.Fence, Error: string(now.Result), At: n[0].At, Worker: n[0].Worker}
	t.failIf(n[0] != want || n[0].Error == "" || !n[0].At.Equal(now.Updated) || n[0].At.Before(before),
		"the notice is %+v, want %+v", n[0], want)
	notice := t.take(c.Queue("alerts"), long)
	t.failIf(notice.Kind != dbq.KindPoison || notice.Attempt != 1 || notice.MaxAttempts != dbq.DefaultMaxAttempts,
		"the notice is handed out as %s", show(notice))
	t.must(c.Queue("alerts").Settle(t.ctx, notice.Lease, dbq.Deleted()))

	// In one batch: only tasks that end in POISON have a notice.
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
	t.settleAll(q, ss)
	t.wantState(c, ids[1], dbq.StateError)
	t.wantNotices("after a batch", c, "alerts", ids[0], ids[2])

	// Without the history a failure is recorded nowhere else.
	last := t.takeNew(c.Queue("unrecorded"), dbq.NewTask{MaxAttempts: 1}, long)
	t.deadLetter(c, "unrecorded", "more alerts")
	must(c.Queue("unrecorded").SettleMany(t.ctx, []dbq.Settlement{access.Settlement(last.Lease,
		dbq.RetryIn(long, errBoom), access.SettleOptions{Unrecorded: true})}))
	t.wantNotices("after a failure that is not recorded", c, "more alerts", last.ID)
}

func noticeByExhaustedLease(t *test) {
	c, q := t.openQueue()
	t.deadLetter(c, "q", "alerts")
	ids := t.enqueueMany(q, 5, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i/3 })
	t.abandonN(q, 10)
	var again []uuid.UUID
	t.eventually("checkouts take over what has attempts left", func() bool {
		for _, task := range t.checkout(q, 10, long) {
			again = append(again, task.ID)
		}
		return len(again) == 2 && t.get(c, ids[0]).State == dbq.StatePoison
	})
	t.wantNotices("after the leases expired", c, "alerts", ids[:3]...)
	for _, n := range t.notices(c, "alerts") {
		now := t.get(c, n.TaskID)
		t.failIf(n.Fence != now.Fence || n.Attempt != 1 || n.Error != string(now.Result) || n.Worker == "",
			"the notice is %+v, and the task %s with result %q", n, show(now), now.Result)
	}
}

func noticeInCallersTx(t *test) {
	c := t.open()
	t.eachKindOfTx(c, func(kind string, begin func() (dbq.Tx, func(commit bool))) {
		q := c.Queue("q " + kind)
		alerts := c.Queue("alerts " + kind)
		t.deadLetter(c, q.Name(), alerts.Name())
		task := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, long)
		tx, end := begin()
		t.must(q.SettleTx(t.ctx, tx, task.Lease, dbq.Poisoned(errBoom)))
		end(false)
		t.wantState(c, task.ID, dbq.StateProcessing)
		t.wantNotices(kind+": after the rollback", c, alerts.Name())
		tx, end = begin()
		t.must(q.SettleTx(t.ctx, tx, task.Lease, dbq.RetryIn(long, errBoom)))
		end(true)
		t.wantState(c, task.ID, dbq.StatePoison)
		t.wantNotices(kind+": after the commit", c, alerts.Name(), task.ID)
	})
}

func noticeOncePerPoison(t *test) {
	c, q := t.openQueue()
	t.deadLetter(c, "q", "alerts")
	task := t.takeNew(q, dbq.NewTask{}, long)
	s := dbq.Settlement{Lease: task.Lease, Outcome: dbq.Poisoned(errBoom)}
	must(q.SettleMany(t.ctx, []dbq.Settlement{s, s}))
	again := access.Settlement(s.Lease, s.Outcome, access.SettleOptions{Again: true})
	out := must(q.SettleMany(t.ctx, []dbq.Settlement{again}))
	t.failIf(out[0].Err != nil || out[0].State != dbq.StatePoison, "the repeated settlement gave %+v", out[0])
	t.wantErr("settling once more", q.Settle(t.ctx, s.Lease, s.Outcome), dbq.ErrLeaseLost)
	t.wantNotices("after a repeated settlement", c, "alerts", task.ID)

	// Some other task has the reference of the notice to come: the task goes to POISON nevertheless.
	t.operate(c, admin.Reenqueue, task.ID)
	task = t.take(q, long)
	t.must(q.Settle(t.ctx, task.Lease, s.Outcome))
	t.wantNotices("after it went to POISON again", c, "alerts", task.ID, task.ID)
	t.operate(c, admin.Reenqueue, task.ID)
	task = t.take(q, long)
	t.enqueue(c.Queue("alerts"), dbq.NewTask{Reference: fmt.Sprintf("%s:%d", task.ID, task.Fence)})
	t.must(q.Settle(t.ctx, task.Lease, s.Outcome))
	t.wantState(c, task.ID, dbq.StatePoison)
	t.wantNotices("after its reference was taken", c, "alerts", task.ID, task.ID)
}

// noticeAnswerLost loses each request of a call in turn that moves a task to POISON, or the answer to it.
func (t *test) noticeAnswerLost(call func(ctx context.Context, q *dbq.Queue, task dbq.Task), lease time.Duration) {
	p, dsn := t.throughProxy()
	direct := t.open()
	poisoned := 0
	t.eachRequestAndAnswer("the call", proxy.Rule{}, func(r proxy.Rule) bool {
		q := ownQueue(direct)
		alerts := q.Name() + " alerts"
		t.deadLetter(direct, q.Name(), alerts)
		task := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, lease)
		if lease == short {
			t.awaitExpiry(direct, task.ID)
		}
		c := t.oneConnection(dsn)
		fired := t.callUnder(p, r, c, func(ctx context.Context) { call(ctx, c.Queue(q.Name()), task) }, nil)
		t.eventually(fmt.Sprintf("cut at %v, the task has a notice if and only if it is POISON", r), func() bool {
			is, n := t.get(direct, task.ID).State, len(t.notices(direct, alerts))
			if is == dbq.StatePoison {
				poisoned++
			}
			return n == 0 && is == dbq.StateProcessing || n == 1 && is == dbq.StatePoison
		})
		return fired
	})
	t.failIf(poisoned == 0, "no call moved its task to POISON")
}

func noticeAnswerLostToSettle(t *test) {
	t.noticeAnswerLost(func(ctx context.Context, q *dbq.Queue, task dbq.Task) {
		_ = q.Settle(ctx, task.Lease, dbq.Poisoned(errBoom))
	}, long)
}

func noticeAnswerLostToCheckout(t *test) {
	t.noticeAnswerLost(func(ctx context.Context, q *dbq.Queue, _ dbq.Task) { _, _ = q.Checkout(ctx, 5, long) }, short)
}

func noticeBesideOperators(t *test) {
	c, other := t.open(), t.open()
	t.rowLocks(c)
	q, ops := c.Queue("q"), admin.New(other)
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable} {
		task := t.takeNew(q, dbq.NewTask{}, long)
		tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Logf("%v: %v", level, err) // the driver does not have it
			continue
		}
		t.must(q.SettleTx(t.ctx, tx, task.Lease, dbq.Poisoned(errBoom)))
		ctx, cancel := context.WithTimeout(t.ctx, 3*time.Second)
		err = ops.PauseQueue(ctx, fmt.Sprint("beside ", level))
		if err == nil {
			err = ops.ConfigureQueue(ctx, "q", func(s *admin.QueueSettings) { s.MaxCheckout = 100 })
		}
		cancel()
		t.failIf(err != nil, "beside a transaction at %v: %v", level, err)
		t.must(tx.Commit())
	}
}

func noticesOfSeveral(t *test) {
	const clients, rounds = 4, 5
	c := t.open()
	var all []uuid.UUID
	var queues []*dbq.Queue
	for i := range clients {
		q := t.open().Queue(fmt.Sprintf("q%d", i%2)) // two clients for each queue
		t.deadLetter(c, q.Name(), "alerts")
		all = append(all, t.enqueueMany(q, 10*rounds, func(n int, nt *dbq.NewTask) { nt.MaxAttempts = 1 })...)
		queues = append(queues, q)
	}
	t.concurrently(clients, func(ctx context.Context, i int) {
		for idle := 0; idle < 3; { // until the others have the rest
			tasks := must(queues[i].Checkout(ctx, 10, long))
			must(queues[i].SettleMany(ctx, allTo(dbq.RetryIn(0, errBoom), leasesOf(tasks)...)))
			if idle++; len(tasks) > 0 {
				idle = 0
			}
		}
	})
	t.wantNotices("after all", c, "alerts", all...)
}

// redrive reenqueues some of the tasks in POISON, some at a time.
func redrive(t *test) {
	c, q := t.openQueue()
	ops := admin.New(c)
	poison := func(kind string, n int) []uuid.UUID {
		ids := t.enqueueMany(q, n, func(_ int, nt *dbq.NewTask) { nt.Kind = kind })
		t.endAll(q, t.checkout(q, n, long), dbq.Poisoned(errBoom))
		return ids
	}
	poison("mail", 2) // before the time
	since := t.now(c)
	t.eventually("time passes", func() bool { return t.now(c).Sub(since) > 300*time.Millisecond })
	since = t.now(c)
	want := poison("mail", 5)
	poison("other", 2)
	cancelled := t.enqueue(q, dbq.NewTask{Kind: "mail", Delay: long})
	t.operate(c, admin.Cancel, cancelled)
	f := admin.Filter{Queue: "q", Kind: "mail", States: []dbq.State{dbq.StatePoison}, NotCancelled: true, Limit: 100}
	// On a slow machine a window ends too late for some, and never begins early enough for those before the time.
	window := func() { f.EnteredWithin = t.now(c).Sub(since) + 150*time.Millisecond }
	t.eventually("a dry run counts what a reenqueue would change", func() bool {
		window()
		done, err := ops.OperateMany(t.ctx, admin.Reenqueue, f, admin.DryRun())
		n := done.Changed
		if err != nil || n > len(want) {
			t.Fatalf("a dry run counts %d tasks with error %v, want %d", n, err, len(want))
		}
		return n == len(want)
	})
	t.wantNone("after a dry run", q)
	f.Limit = 3
	total := 0
	t.eventually("calls reenqueue all, and each goes on where the last one stopped", func() bool {
		window()
		done, err := ops.OperateMany(t.ctx, admin.Reenqueue, f)
		n := done.Changed
		if total += n; err != nil || n > f.Limit || total > len(want) {
			t.Fatalf("reenqueued %d tasks with error %v, want %d, %d at most in a call", total, err, len(want), f.Limit)
		}
		return total == len(want)
	})
	t.wantSameIDs("reenqueued", idsOf(t.checkout(q, 100, long)), want)
}
