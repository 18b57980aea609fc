package conformance

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

func completeTxCases() []Case {
	return inGroup("CompleteTx",
		Case{Name: "AtomicWithCallersWrite", Law: "A completion in the caller's transaction is there together with the caller's own change, or neither is.",
			run: completeTxAtomic, once: true},
		Case{Name: "RollbackKeepsLease", Law: "When the caller's transaction rolls back the lease is as good as before.",
			run: completeTxRollback, once: true},
		Case{Name: "TwiceIsLeaseLost", Law: "Completing twice is ErrLeaseLost, in the same transaction and in a later one.",
			run: completeTxTwice, once: true},
		Case{Name: "LostLeaseRollsBackEffects", Law: "A worker whose task was taken over learns so inside its transaction, can still roll it back, and leaves nothing.",
			run: completeTxLost, once: true},
		Case{Name: "CompleteAndDelete", Law: "CompleteAndDelete removes the task in the same step, and a second call is ErrLeaseLost.",
			run: completeAndDelete, once: true},
		Case{Name: "CompleteAndDeleteTx", Law: "CompleteAndDeleteTx removes the task when the transaction commits, and only then.",
			run: completeAndDeleteTx, once: true},
		Case{Name: "WithEnqueue", Law: "Completing a task and enqueueing the next in one transaction makes both or neither.",
			run: completeTxAndEnqueue, once: true},
		Case{Name: "EachKindOfTx", Law: "Every kind of transaction that dbq takes can carry a completion.",
			run: completeTxKinds, once: true},
	)
}

// sideTable makes a table such as a worker's own, by SQL that every engine understands, and returns its name. It has a primary key,
// which some servers require of every table.
func (t *T) sideTable(c *dbq.Client) string {
	name := t.prefix + "side"
	_, err := c.DB().ExecContext(t.ctx, "CREATE TABLE "+name+" (n INTEGER NOT NULL PRIMARY KEY)")
	t.Must(err)
	t.makes(made{name, func(ctx context.Context) error {
		_, pool, err := dialect.Open(ctx, t.dsn)
		if err != nil {
			return err
		}
		defer pool.Close()
		_, err = pool.Write.ExecContext(ctx, "DROP TABLE "+name)
		return err
	}})
	return name
}

// sideRows counts the rows of the worker's own table.
func (t *T) sideRows(c *dbq.Client, table string) (n int) {
	t.Must(c.DB().QueryRowContext(t.ctx, "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func completeTxAtomic(t *T) {
	c, other := t.Open(), t.Open()
	q := c.Queue("q")
	side := t.sideTable(c)
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)

	tx := t.begin(c)
	_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
	t.Must(err)
	t.Must(q.CompleteTx(t.ctx, tx, task.Lease, []byte("result")))
	t.wantUnchanged("the transaction that has not committed", other, before)
	t.Must(tx.Commit())

	row := t.wantState(other, task.ID, dbq.StateCompleted)
	if string(row.Result) != "result" {
		t.Errorf("the result is %q, want %q", row.Result, "result")
	}
	if n := t.sideRows(c, side); n != 1 {
		t.Errorf("the caller's table has %d rows, want 1", n)
	}
}

func completeTxRollback(t *T) {
	c := t.Open()
	q := c.Queue("q")
	side := t.sideTable(c)
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	tx := t.begin(c)
	_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
	t.Must(err)
	t.Must(q.CompleteTx(t.ctx, tx, task.Lease, nil))
	t.Must(tx.Rollback())
	t.wantUnchanged("the transaction that rolled back", c, before)
	if n := t.sideRows(c, side); n != 0 {
		t.Errorf("the caller's table has %d rows, want none", n)
	}
	_, err = q.Extend(t.ctx, task.Lease, long)
	t.Must(err)
	t.Must(q.Complete(t.ctx, task.Lease, nil))
}

func completeTxTwice(t *T) {
	c := t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	tx := t.begin(c)
	t.Must(q.CompleteTx(t.ctx, tx, task.Lease, []byte("one")))
	t.WantErr("a second CompleteTx in the transaction", q.CompleteTx(t.ctx, tx, task.Lease, []byte("two")), dbq.ErrLeaseLost)
	t.Must(tx.Commit())
	tx = t.begin(c)
	t.WantErr("a CompleteTx in a later transaction", q.CompleteTx(t.ctx, tx, task.Lease, []byte("two")), dbq.ErrLeaseLost)
	t.Must(tx.Commit())
	if row := t.wantState(c, task.ID, dbq.StateCompleted); string(row.Result) != "one" {
		t.Errorf("the result is %q, want the first, %q", row.Result, "one")
	}
}

func completeTxLost(t *T) {
	c := t.Open()
	q := c.Queue("q")
	side := t.sideTable(c)
	id := t.enqueue(q, dbq.NewTask{})
	old := t.abandon(q)
	t.takeOver(q, id, long)
	before := t.get(c, id)
	for name, complete := range map[string]func(tx dbq.Tx) error{
		"CompleteTx":          func(tx dbq.Tx) error { return q.CompleteTx(t.ctx, tx, old.Lease, nil) },
		"CompleteAndDeleteTx": func(tx dbq.Tx) error { return q.CompleteAndDeleteTx(t.ctx, tx, old.Lease) },
	} {
		tx := t.begin(c)
		_, err := tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (1)")
		t.Must(err)
		t.WantErr(name+" after the task was taken over", complete(tx), dbq.ErrLeaseLost)
		_, err = tx.ExecContext(t.ctx, "INSERT INTO "+side+" (n) VALUES (2)")
		if err != nil {
			t.Errorf("the transaction cannot be used after ErrLeaseLost from %s: %v", name, err)
		}
		t.Must(tx.Rollback())
		t.wantUnchanged(name+" by the old holder", c, before)
	}
	if n := t.sideRows(c, side); n != 0 {
		t.Errorf("the old holder left %d rows in its own table, want none", n)
	}
}

func completeAndDelete(t *T) {
	c := t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	out, err := q.Settle(t.ctx, []dbq.Settlement{dbq.CompletedAndDeleted(task.Lease), dbq.CompletedAndDeleted(task.Lease)})
	t.Must(err)
	t.Must(out[0].Err)
	t.WantErr("a second time in one call", out[1].Err, dbq.ErrLeaseLost)
	t.wantGone(c, task.ID)
	t.WantErr("a second call", q.CompleteAndDelete(t.ctx, task.Lease), dbq.ErrLeaseLost)
	t.WantErr("complete after it", q.Complete(t.ctx, task.Lease, nil), dbq.ErrLeaseLost)
	_, err = q.Extend(t.ctx, task.Lease, long)
	t.WantErr("extend after it", err, dbq.ErrLeaseLost)
}

func completeAndDeleteTx(t *T) {
	c, other := t.Open(), t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	before := t.get(c, task.ID)
	tx := t.begin(c)
	t.Must(q.CompleteAndDeleteTx(t.ctx, tx, task.Lease))
	t.wantUnchanged("the transaction that has not committed", other, before)
	t.Must(tx.Rollback())
	t.wantUnchanged("the transaction that rolled back", c, before)
	tx = t.begin(c)
	t.Must(q.CompleteAndDeleteTx(t.ctx, tx, task.Lease))
	t.Must(tx.Commit())
	t.wantGone(other, task.ID)
}

func completeTxAndEnqueue(t *T) {
	c := t.Open()
	first, second := c.Queue("first"), c.Queue("second")
	task := t.takeNew(first, dbq.NewTask{}, long)
	for _, commit := range []bool{false, true} {
		tx := t.begin(c)
		t.Must(first.CompleteTx(t.ctx, tx, task.Lease, nil))
		id, err := second.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "next"})
		t.Must(err)
		if commit {
			t.Must(tx.Commit())
			t.wantState(c, task.ID, dbq.StateCompleted)
			t.wantState(c, id, dbq.StateCreated)
		} else {
			t.Must(tx.Rollback())
			t.wantState(c, task.ID, dbq.StateProcessing)
			t.wantGone(c, id)
		}
	}
}

func completeTxKinds(t *T) {
	c := t.Open()
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
				err = q.CompleteAndDeleteTx(t.ctx, tx, removed.Lease)
			}
			if err != nil {
				_ = rollback()
				t.Fatalf("in a %s: %v", kind, err)
			}
			t.WantErr("completing twice in a "+kind, q.CompleteTx(t.ctx, tx, kept.Lease, nil), dbq.ErrLeaseLost)
			t.Must(finish())
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
