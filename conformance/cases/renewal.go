package cases

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/internal/access"
)

// renewalCases are about renewals beside transactions of callers and strangers.
func renewalCases() []Case {
	return inGroup("Renewal",
		Case{Name: "LockedRowDelaysNothing", run: renewalLocked,
			Law: "A renewal does not wait for a transaction that has locked a task's row, and loses no lease."},
		Case{Name: "BesideCompleteTxAtEachLevel", Once: true, run: renewalLevels,
			Law: "A transaction that completes a task commits at every isolation level, whatever was renewed since it began."},
		Case{Name: "KeepsOthersOut", run: renewalKeepsOut,
			Law: "A renewal and a simultaneous takeover of one task never both succeed."},
		Case{Name: "StoppedDelaysNoCheckout", Once: true, run: renewalStalled,
			Law: "A client that stops at any point of a renewal, with its connection open, delays no checkout."},
	)
}

func renewalLocked(t *test) {
	c, q := t.openQueue()
	t.rowLocks(c)
	tasks := t.takeAll(q, 20, time.Minute)
	leases := leasesOf(tasks)
	other := t.open()
	tx := t.beginTx(other)
	t.must(other.Queue("q").CompleteTx(t.ctx, tx, leases[7], nil))
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience/2) // a server gives up waiting for a lock later
	defer cancel()
	renewed, lost, err := q.ExtendMany(ctx, leases, long)
	t.must(err)
	t.failIf(len(renewed) != len(leases),
		"%d of %d leases were renewed and %d lost beside a transaction that completes one of the tasks, want all renewed",
		len(renewed), len(leases), len(lost))
	still := must(access.StillHeld(ctx, q, leases))
	t.failIf(len(still) != len(leases),
		"%d of %d leases are still held before the transaction commits, want all", len(still), len(leases))
	t.must(tx.Commit())
	t.wantState(c, leases[7].TaskID, dbq.StateCompleted)
	renewed, lost, err = q.ExtendMany(ctx, leases, long)
	t.must(err)
	t.failIf(len(renewed) != len(leases)-1 || len(lost) != 1 || lost[0].TaskID != leases[7].TaskID,
		"after the commit %d leases were renewed and %d are lost, want only that of the completed task lost",
		len(renewed), len(lost))
}

func renewalLevels(t *test) {
	c, other := t.open(), t.open()
	t.rowLocks(c)
	side := t.sideTable(c)
	q, beats := c.Queue("q"), other.Queue("q")
	checked := 0
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable} {
		for _, complete := range []func(tx dbq.Tx, l dbq.Lease) error{
			func(tx dbq.Tx, l dbq.Lease) error { return q.CompleteTx(t.ctx, tx, l, []byte("done")) },
			func(tx dbq.Tx, l dbq.Lease) error { return q.SettleTx(t.ctx, tx, l, dbq.Deleted()) },
		} {
			t.Logf("at level %v", level)
			task := t.takeNew(q, dbq.NewTask{}, long)
			tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Logf("no transactions: %v", err)
				t.must(q.Complete(t.ctx, task.Lease, nil))
				continue
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			t.rows(tx, side) // begins the transaction's snapshot
			must(beats.Extend(t.ctx, task.Lease, long))
			must(tx.ExecContext(t.ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, checked)))
			t.must(complete(tx, task.Lease))
			must(c.Queue("next").EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: fmt.Sprint("after ", checked)}))
			must(beats.Extend(t.ctx, task.Lease, long))
			t.must(tx.Commit())
			checked++
		}
	}
	t.wantCount(c, "next", checked)
	if n := t.rows(c.DB(), side); n != checked {
		t.Errorf("%d transactions committed, and there are %d of their rows", checked, n)
	}
}

// renewalKeepsOut makes renewals and takeovers of expired leases meet, until in some round each has got some.
func renewalKeepsOut(t *test) {
	c, other := t.open(), t.open()
	q, rival := c.Queue("q"), other.Queue("q")
	const each = 20
	met, took, end := 0, time.Millisecond, time.Now().Add(t.Patience)
	for round := 0; round < t.load(15) || met == 0; round++ {
		if met == 0 && time.Now().After(end) {
			t.Fatalf("renewals met a takeover in none of %d rounds", round)
		}
		leases := leasesOf(t.takeAll(q, each, short))
		t.awaitExpiry(c, leases[len(leases)-1].TaskID)
		var renewed []dbq.Lease
		var taken []dbq.Task
		begin, pause := time.Now(), time.Duration(t.rand.Int64N(int64(took)))
		t.concurrently(2, func(ctx context.Context, i int) {
			if i > 0 {
				_ = sleep(ctx, pause)
				taken = must(rival.Checkout(ctx, each, long))
				return
			}
			for part := range slices.Chunk(leases, 4) {
				some, _, err := q.ExtendMany(ctx, part, long)
				t.must(err)
				renewed = append(renewed, some...)
			}
			took = time.Since(begin)
		})
		for _, l := range renewed {
			for _, task := range taken {
				if task.ID == l.TaskID {
					t.Fatalf("task %s was renewed under fence %d and taken over under fence %d", l.TaskID, l.Fence, task.Fence)
				}
			}
		}
		met += min(len(renewed), len(taken), 1)
		t.settleAll(q, allTo(dbq.Completed(nil), append(leasesOf(taken), renewed...)...))
		t.eventually("what neither got is taken over and completed", func() bool {
			t.completeDue(rival)
			return t.idle(t.ctx, c)
		})
	}
	t.Logf("renewals met a takeover in %d rounds", met)
}

// renewalStalled makes a client stop before each request of a renewal in turn, with the connection open. A process does
// so if it is stopped or its machine sleeps.
func renewalStalled(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	const stoppedFor = 3 * time.Second // other clients must not notice
	t.eachRequest("the renewal", proxy.Rule{Stall: true}, func(r proxy.Rule) bool {
		q := ownQueue(direct)
		task := t.takeNew(q, dbq.NewTask{}, short)
		t.awaitExpiry(direct, task.ID)
		t.enqueue(q, dbq.NewTask{})
		c := t.oneConnection(dsn)
		return t.callUnder(p, r, c, func(ctx context.Context) {
			_, _ = c.Queue(q.Name()).Extend(ctx, task.Lease, long)
		}, func(returned <-chan struct{}) {
			if t.awaitFault(p, returned) {
				return
			}
			ctx, cancel := context.WithTimeout(t.ctx, stoppedFor)
			defer cancel()
			for _, want := range []string{"the one that is due", "an answer"} { // the second one searches for expired leases
				tasks, err := q.Checkout(ctx, 5, long)
				t.failIf(err != nil,
					"beside a renewal that stopped before its request %d, a checkout returned %d tasks and %v, want %s",
					r.AtRequest, len(tasks), err, want)
			}
		})
	})
}
