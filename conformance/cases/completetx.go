package cases

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

func completeTxCases() []Case {
	return inGroup("CompleteTx",
		Case{Name: "AtomicWithCallersWrite", Once: true, run: completeTxAtomic,
			Law: "A completion in a transaction and the caller's own changes become visible together or not at all."},
		Case{Name: "LostLeaseRollsBackEffects", Once: true, run: completeTxLost,
			Law: "A worker whose task was taken over gets ErrLeaseLost in its transaction; rolled back, it leaves no effects."},
		Case{Name: "Deleted", Once: true, run: settleDeleted,
			Law: "Deleted completes and removes the task in one step, and a second call returns ErrLeaseLost."},
		Case{Name: "EachKindOfTx", Once: true, run: completeTxKinds,
			Law: "CompleteTx works in every kind of transaction that dbq accepts."},
	)
}

// createTable creates a table as an application has, by SQL that every engine understands, and returns its name. The
// columns need a primary key, which some servers require of every table.
func (t *test) createTable(c *dbq.Client, name, columns string) string {
	name = t.Prefix + name
	must(c.DB().ExecContext(t.ctx, fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)))
	t.drops(Object{name, func(ctx context.Context) error {
		_, pool, err := sqlrun.Open(ctx, t.DSN, nil)
		if err != nil {
			return err
		}
		defer pool.Close()
		_, err = pool.Write.ExecContext(ctx, "DROP TABLE "+name)
		return err
	}})
	return name
}

// sideTable creates a table of numbers.
func (t *test) sideTable(c *dbq.Client) string {
	return t.createTable(c, "side", "n INTEGER NOT NULL PRIMARY KEY")
}

func completeTxAtomic(t *test) {
	c, other := t.open(), t.open()
	q := c.Queue("q")
	side := t.sideTable(c)
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)

	tx := t.beginTx(c)
	must(tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)"))
	t.must(q.CompleteTx(t.ctx, tx, task.Lease, []byte("result")))
	t.wantUnchanged("the transaction that has not committed", other, before)
	t.must(tx.Commit())

	t.wantResult(other, task.ID, "result")
	if n := t.rows(c.DB(), side); n != 1 {
		t.Errorf("the caller's table has %d rows, want 1", n)
	}
}

func completeTxLost(t *test) {
	c, q := t.openQueue()
	side := t.sideTable(c)
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	before := t.get(c, id)
	for name, complete := range map[string]func(tx dbq.Tx) error{
		"CompleteTx": func(tx dbq.Tx) error { return q.CompleteTx(t.ctx, tx, old.Lease, nil) },
		"SettleTx":   func(tx dbq.Tx) error { return q.SettleTx(t.ctx, tx, old.Lease, dbq.Deleted()) },
	} {
		tx := t.beginTx(c)
		must(tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)"))
		t.wantErr(name+" after the task was taken over", complete(tx), dbq.ErrLeaseLost)
		_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (2)")
		t.failIf(err != nil, "the transaction cannot be used after ErrLeaseLost from %s: %v", name, err)
		t.must(tx.Rollback())
		t.wantUnchanged(name+" by the old holder", c, before)
	}
	if n := t.rows(c.DB(), side); n != 0 {
		t.Errorf("the old holder left %d rows in its own table, want none", n)
	}
}

func settleDeleted(t *test) {
	c, q := t.openQueue()
	task := t.takeNew(q, dbq.NewTask{}, long)
	remove := settlement(task.Lease, dbq.Deleted())
	out := must(q.SettleMany(t.ctx, []dbq.Settlement{remove, remove}))
	t.must(out[0].Err)
	t.wantErr("a second time in one call", out[1].Err, dbq.ErrLeaseLost)
	t.wantGone(c, task.ID)
	t.wantErr("a second call", q.Settle(t.ctx, task.Lease, dbq.Deleted()), dbq.ErrLeaseLost)
	t.wantErr("complete after it", q.Complete(t.ctx, task.Lease, nil), dbq.ErrLeaseLost)
	_, err := q.Extend(t.ctx, task.Lease, long)
	t.wantErr("extend after it", err, dbq.ErrLeaseLost)
}

func completeTxKinds(t *test) {
	c := t.open()
	side, n := t.sideTable(c), 0
	t.eachKindOfTx(c, func(kind string, begin func() (dbq.Tx, func(commit bool))) {
		n++
		q := c.Queue(kind)
		kept, removed := t.takeNew(q, dbq.NewTask{}, long), t.takeNew(q, dbq.NewTask{}, long)
		for _, commit := range []bool{false, true} {
			tx, end := begin()
			must(tx.ExecContext(t.ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, n)))
			t.must(q.CompleteTx(t.ctx, tx, kept.Lease, []byte{0, 255}))
			t.must(q.SettleTx(t.ctx, tx, removed.Lease, dbq.Deleted()))
			t.wantErr("completing twice in a "+kind, q.CompleteTx(t.ctx, tx, kept.Lease, nil), dbq.ErrLeaseLost)
			end(commit)
			if !commit {
				t.wantState(c, kept.ID, dbq.StateProcessing)
				t.wantState(c, removed.ID, dbq.StateProcessing)
			}
		}
		t.wantResult(c, kept.ID, "\x00\xff")
		t.wantGone(c, removed.ID)
		if got := t.rows(c.DB(), side); got != n {
			t.Errorf("after a %s committed the caller's table has %d rows, want %d", kind, got, n)
		}
	})
}
