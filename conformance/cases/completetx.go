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
			Law: "A completion in the caller's transaction and the caller's own changes become visible together or not at " +
				"all."},
		Case{Name: "RollbackKeepsLease", Once: true, run: completeTxRollback,
			Law: "When the caller's transaction rolls back, the lease is as valid as before."},
		Case{Name: "TwiceIsLeaseLost", Once: true, run: completeTxTwice,
			Law: "Completing twice returns ErrLeaseLost, in the same transaction and in a later one."},
		Case{Name: "LostLeaseRollsBackEffects", Once: true, run: completeTxLost,
			Law: "A worker whose task was taken over gets ErrLeaseLost inside its transaction, can still roll it back, and " +
				"leaves no effects."},
		Case{Name: "Deleted", Once: true, run: settleDeleted,
			Law: "Deleted completes and removes the task in one step, and a second call returns ErrLeaseLost."},
		Case{Name: "DeletedTx", Once: true, run: settleDeletedTx,
			Law: "SettleTx with Deleted removes the task when the transaction commits, and only then."},
		Case{Name: "WithEnqueue", Once: true, run: completeTxAndEnqueue,
			Law: "A task's completion and the enqueue of the next one in the same transaction happen together or not at all."},
		Case{Name: "EachKindOfTx", Once: true, run: completeTxKinds,
			Law: "CompleteTx works in every kind of transaction that dbq accepts."},
	)
}

// sideTable creates a table as an application has, by SQL that every engine understands, and returns its name. It has a
// primary key, which some servers require of every table.
func (t *test) sideTable(c *dbq.Client) string {
	name := t.Prefix + "side"
	_, err := c.DB().ExecContext(t.ctx, "CREATE TABLE "+name+" (n INTEGER NOT NULL PRIMARY KEY)")
	t.must(err)
	t.drops(Object{name, func(ctx context.Context) error {
		_, pool, err := sqlrun.Open(ctx, t.DSN)
		if err != nil {
			return err
		}
		defer pool.Close()
		_, err = pool.Write.ExecContext(ctx, "DROP TABLE "+name)
		return err
	}})
	return name
}

// sideRows counts the rows of the application's table.
func (t *test) sideRows(c *dbq.Client, table string) (n int) {
	t.must(c.DB().QueryRowContext(t.ctx, "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func completeTxAtomic(t *test) {
	c, other := t.open(), t.open()
	q := c.Queue("q")
	side := t.sideTable(c)
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)

	tx := t.beginTx(c)
	_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
	t.must(err)
	t.must(q.CompleteTx(t.ctx, tx, task.Lease, []byte("result")))
	t.wantUnchanged("the transaction that has not committed", other, before)
	t.must(tx.Commit())

	row := t.wantState(other, task.ID, dbq.StateCompleted)
	if string(row.Result) != "result" {
		t.Errorf("the result is %q, want %q", row.Result, "result")
	}
	if n := t.sideRows(c, side); n != 1 {
		t.Errorf("the caller's table has %d rows, want 1", n)
	}
}

func completeTxRollback(t *test) {
	c := t.open()
	q := c.Queue("q")
	side := t.sideTable(c)
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	tx := t.beginTx(c)
	_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
	t.must(err)
	t.must(q.CompleteTx(t.ctx, tx, task.Lease, nil))
	t.must(tx.Rollback())
	t.wantUnchanged("the transaction that rolled back", c, before)
	if n := t.sideRows(c, side); n != 0 {
		t.Errorf("the caller's table has %d rows, want none", n)
	}
	_, err = q.Extend(t.ctx, task.Lease, long)
	t.must(err)
	t.must(q.Complete(t.ctx, task.Lease, nil))
}

func completeTxTwice(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	tx := t.beginTx(c)
	t.must(q.CompleteTx(t.ctx, tx, task.Lease, []byte("one")))
	t.wantErr("a second CompleteTx in the transaction", q.CompleteTx(t.ctx, tx, task.Lease, []byte("two")),
		dbq.ErrLeaseLost)
	t.must(tx.Commit())
	tx = t.beginTx(c)
	t.wantErr("a CompleteTx in a later transaction", q.CompleteTx(t.ctx, tx, task.Lease, []byte("two")), dbq.ErrLeaseLost)
	t.must(tx.Commit())
	if row := t.wantState(c, task.ID, dbq.StateCompleted); string(row.Result) != "one" {
		t.Errorf("the result is %q, want the first, %q", row.Result, "one")
	}
}

func completeTxLost(t *test) {
	c := t.open()
	q := c.Queue("q")
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
		_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
		t.must(err)
		t.wantErr(name+" after the task was taken over", complete(tx), dbq.ErrLeaseLost)
		_, err = tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (2)")
		if err != nil {
			t.Errorf("the transaction cannot be used after ErrLeaseLost from %s: %v", name, err)
		}
		t.must(tx.Rollback())
		t.wantUnchanged(name+" by the old holder", c, before)
	}
	if n := t.sideRows(c, side); n != 0 {
		t.Errorf("the old holder left %d rows in its own table, want none", n)
	}
}

func settleDeleted(t *test) {
	c := t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	remove := settlement(task.Lease, dbq.Deleted())
	out, err := q.SettleMany(t.ctx, []dbq.Settlement{remove, remove})
	t.must(err)
	t.must(out[0].Err)
	t.wantErr("a second time in one call", out[1].Err, dbq.ErrLeaseLost)
	t.wantGone(c, task.ID)
	t.wantErr("a second call", q.Settle(t.ctx, task.Lease, dbq.Deleted()), dbq.ErrLeaseLost)
	t.wantErr("complete after it", q.Complete(t.ctx, task.Lease, nil), dbq.ErrLeaseLost)
	_, err = q.Extend(t.ctx, task.Lease, long)
	t.wantErr("extend after it", err, dbq.ErrLeaseLost)
}

func settleDeletedTx(t *test) {
	c, other := t.open(), t.open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	tx := t.beginTx(c)
	t.must(q.SettleTx(t.ctx, tx, task.Lease, dbq.Deleted()))
	t.wantUnchanged("the transaction that has not committed", other, before)
	t.must(tx.Rollback())
	t.wantUnchanged("the transaction that rolled back", c, before)
	tx = t.beginTx(c)
	t.must(q.SettleTx(t.ctx, tx, task.Lease, dbq.Deleted()))
	t.must(tx.Commit())
	t.wantGone(other, task.ID)
}

func completeTxAndEnqueue(t *test) {
	c := t.open()
	first, second := c.Queue("first"), c.Queue("second")
	task := t.takeNew(first, dbq.NewTask{}, long)
	for _, commit := range []bool{false, true} {
		tx := t.beginTx(c)
		t.must(first.CompleteTx(t.ctx, tx, task.Lease, nil))
		id, err := second.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "next"})
		t.must(err)
		if commit {
			t.must(tx.Commit())
			t.wantState(c, task.ID, dbq.StateCompleted)
			t.wantState(c, id, dbq.StateCreated)
		} else {
			t.must(tx.Rollback())
			t.wantState(c, task.ID, dbq.StateProcessing)
			t.wantGone(c, id)
		}
	}
}

func completeTxKinds(t *test) {
	c := t.open()
	side := t.sideTable(c)
	names, kinds := t.transactions()
	for i, kind := range names {
		q := c.Queue(kind)
		kept, removed := t.takeNew(q, dbq.NewTask{}, long), t.takeNew(q, dbq.NewTask{}, long)
		for _, end := range []string{"rollback", "commit"} {
			tx, commit, rollback, err := kinds[kind](t.ctx, c)
			if err != nil {
				t.Fatalf("begin of a %s: %v", kind, err)
			}
			finish := map[string]func() error{"rollback": rollback, "commit": commit}[end]
			if _, err = tx.ExecContext(t.ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, i)); err == nil {
				err = q.CompleteTx(t.ctx, tx, kept.Lease, []byte{0, 255})
			}
			if err == nil {
				err = q.SettleTx(t.ctx, tx, removed.Lease, dbq.Deleted())
			}
			if err != nil {
				_ = rollback()
				t.Fatalf("in a %s: %v", kind, err)
			}
			t.wantErr("completing twice in a "+kind, q.CompleteTx(t.ctx, tx, kept.Lease, nil), dbq.ErrLeaseLost)
			t.must(finish())
			if end == "rollback" {
				t.wantState(c, kept.ID, dbq.StateProcessing)
				t.wantState(c, removed.ID, dbq.StateProcessing)
			}
		}
		if row := t.wantState(c, kept.ID, dbq.StateCompleted); string(row.Result) != "\x00\xff" {
			t.Errorf("completed in a %s with the result %q, want %q", kind, row.Result, "\x00\xff")
		}
		t.wantGone(c, removed.ID)
		if n := t.sideRows(c, side); n != i+1 {
			t.Errorf("after a %s committed the caller's table has %d rows, want %d", kind, n, i+1)
		}
	}
}
