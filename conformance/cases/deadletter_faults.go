package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/google/uuid"
)

// noticeAnswerLost loses each request of a call in turn that moves a task to POISON, or the answer to it.
func (t *test) noticeAnswerLost(call func(ctx context.Context, q *dbq.Queue, task dbq.Task), lease time.Duration) {
	p, dsn := t.throughProxy()
	direct := t.open()
	poisoned := 0
	for _, answer := range []bool{false, true} {
		for k := 1; k <= maxRequests; k++ {
			name := fmt.Sprintf("fault %d", subjects.Add(1))
			q := direct.Queue(name)
			t.deadLetter(direct, name, name+" alerts")
			task := t.takeNew(q, dbq.NewTask{MaxAttempts: 1}, lease)
			if lease == short {
				t.awaitExpiry(direct, task.ID)
			}
			c := t.oneConnection(dsn)
			rule := proxy.Rule{AtRequest: k, LoseAnswer: answer}
			fired := t.callUnder(p, rule, c, func(ctx context.Context) { call(ctx, c.Queue(name), task) }, nil)
			t.eventually(fmt.Sprintf("cut at %v, the task has a notice if and only if it is POISON", rule), func() bool {
				is, n := t.get(direct, task.ID).State, len(t.notices(direct, name+" alerts"))
				if is == dbq.StatePoison {
					poisoned++
				}
				return n == 0 && is == dbq.StateProcessing || n == 1 && is == dbq.StatePoison
			})
			if !fired {
				break // the call has fewer requests
			}
		}
	}
	if poisoned == 0 {
		t.Errorf("no call moved its task to POISON")
	}
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
	if c.Info().Server.OneWriter {
		t.Skipf("the database has one writer at a time")
	}
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
			err = ops.ConfigureQueue(ctx, "q", func(s *admin.QueueSettings) { s.Batch = 100 })
		}
		cancel()
		if err != nil {
			t.Errorf("beside a transaction at %v: %v", level, err)
		}
		t.must(tx.Commit())
	}
}

// childPoison moves every task that it can get to POISON, until it is killed: some by settling them, and others by
// leaving their leases to expire in the last attempt.
func childPoison(ctx context.Context, w *transcript.Caller, s childSpec) error {
	for n := 0; ctx.Err() == nil; n++ {
		tasks, err := w.Queue.Checkout(ctx, 2, s.Lease)
		if err != nil {
			return err
		}
		for _, task := range tasks {
			if n%2 == 0 {
				continue
			}
			err := w.Queue.Settle(ctx, task.Lease, dbq.Poisoned(errBoom))
			if err != nil && !errors.Is(err, dbq.ErrLeaseLost) {
				return err
			}
		}
	}
	return nil
}

func noticeKilledBetween(t *test) {
	c := t.open()
	t.deadLetter(c, "q", "alerts")
	poison := func() (ids []uuid.UUID) {
		for _, task := range t.list(c, admin.Filter{Queue: "q", States: []dbq.State{dbq.StatePoison}}) {
			ids = append(ids, task.ID)
		}
		slices.SortFunc(ids, byBytes)
		return ids
	}
	for range 3 {
		t.enqueueMany(c.Queue("q"), 60, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 1 })
		before := len(poison())
		p := t.start(childSpec{Do: "poison", Name: "killed", Queue: "q", Lease: 20 * time.Millisecond})
		t.eventually("some tasks are POISON", func() bool {
			if p.gone() {
				t.Fatalf("it ended by itself: %v\n%s", p.err, p.stderr.String())
			}
			return len(poison()) > before+t.rand.IntN(10)
		})
		p.kill()
	}
	t.eventually("what the killed process has sent is done", func() bool { // or rolled back
		ids := poison()
		var noted []uuid.UUID
		for _, n := range t.notices(c, "alerts") {
			noted = append(noted, n.Task)
		}
		return slices.Equal(ids, noted) && slices.Equal(ids, poison())
	})
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
			tasks, err := queues[i].Checkout(ctx, 10, long)
			var ss []dbq.Settlement
			for _, task := range tasks {
				ss = append(ss, dbq.Settlement{Lease: task.Lease, Outcome: dbq.RetryIn(0, errBoom)})
			}
			if err == nil {
				_, err = queues[i].SettleMany(ctx, ss)
			}
			if err != nil {
				t.Errorf("poisoning: %v", err)
				return
			}
			if idle++; len(tasks) > 0 {
				idle = 0
			}
		}
	})
	t.wantNotices("after all", c, "alerts", all...)
}
