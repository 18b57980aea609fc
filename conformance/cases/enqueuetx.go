package cases

import (
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

func enqueueTxCases() []Case {
	return inGroup("EnqueueTx",
		Case{Name: "InvisibleBeforeCommit", Once: true, run: enqueueTxInvisible,
			Law: "A task enqueued in a transaction is invisible to others until the commit."},
		Case{Name: "VisibleAfterCommit", Once: true, run: enqueueTxVisible,
			Law: "A task enqueued in a transaction can be checked out once the transaction has committed."},
		Case{Name: "GoneAfterRollback", Once: true, run: enqueueTxRollback,
			Law: "A task enqueued in a transaction that rolls back does not exist."},
		Case{Name: "DuplicateLeavesTxUsable", Once: true, run: enqueueTxDuplicate,
			Law: "ErrDuplicate leaves the caller's transaction usable."},
		Case{Name: "ManyTx", Once: true, run: enqueueTxMany,
			Law: "EnqueueManyTx adds all its tasks with the transaction or none, even beyond the limits of one statement."},
		Case{Name: "EachKindOfTx", Once: true, run: enqueueTxKinds,
			Law: "EnqueueTx works in every kind of transaction that dbq accepts."},
		Case{Name: "NotATransaction", Once: true, run: enqueueTxNone,
			Law: "Every call that takes a transaction returns ErrTx for a nil one."},
		Case{Name: "FinishedTransaction", Once: true, run: enqueueTxFinished,
			Law: "Every call that takes a transaction returns ErrTx for one that has committed or rolled back, and changes " +
				"nothing."},
	)
}

// beginTx starts a transaction. It is rolled back after the case if it is still open, since SQLite's only writer
// depends on it.
func (t *test) beginTx(c *dbq.Client) *sql.Tx {
	tx, err := c.DB().BeginTx(t.ctx, nil)
	t.must(err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func enqueueTxInvisible(t *test) {
	c, other := t.open(), t.open() // nothing else of c may be used while its transaction is open
	tx := t.beginTx(c)
	id, err := c.Queue("q").EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "r"})
	t.must(err)
	t.wantGone(other, id)
	if n := t.count(other, "q"); n != 0 {
		t.Errorf("another client counts %d tasks before the commit, want none", n)
	}
	_, err = other.Queue("q").Find(t.ctx, "r")
	t.wantErr("find before the commit", err, dbq.ErrNotFound)
	t.must(tx.Commit())
	t.wantState(other, id, dbq.StateCreated)
}

func enqueueTxVisible(t *test) {
	c := t.open()
	tx := t.beginTx(c)
	id, err := c.Queue("q").EnqueueTx(t.ctx, tx, dbq.NewTask{Payload: []byte("x")})
	t.must(err)
	t.must(tx.Commit())
	if task := t.take(t.open().Queue("q"), long); task.ID != id || string(task.Payload) != "x" {
		t.Errorf("got %s, want task %s with payload x", show(task), id)
	}
}

func enqueueTxRollback(t *test) {
	c := t.open()
	q := c.Queue("q")
	tx := t.beginTx(c)
	id, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "r"})
	t.must(err)
	t.must(tx.Rollback())
	t.wantGone(c, id)
	t.wantNone("after the rollback", q)
	t.enqueue(q, dbq.NewTask{Reference: "r"}) // the reference is free
}

func enqueueTxDuplicate(t *test) {
	c := t.open()
	q := c.Queue("q")
	old := t.enqueue(q, dbq.NewTask{Reference: "r"})
	before := t.get(c, old)
	tx := t.beginTx(c)
	for range 2 {
		id, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "r"})
		t.wantErr("enqueue of a taken reference", err, dbq.ErrDuplicate)
		if id != old {
			t.Errorf("the id is %s, want the existing task's, %s", id, old)
		}
		_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{ID: old})
		t.wantErr("enqueue of a taken id", err, dbq.ErrDuplicate)
	}
	first, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "new"})
	if err != nil {
		t.Fatalf("the transaction cannot be used after ErrDuplicate: %v", err)
	}
	again, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "new"})
	t.wantErr("enqueue of a reference taken in the same transaction", err, dbq.ErrDuplicate)
	if again != first {
		t.Errorf("the id is %s, want that of the task enqueued before in the transaction, %s", again, first)
	}
	t.must(tx.Commit())
	t.wantState(c, first, dbq.StateCreated)
	t.wantUnchanged("the refused enqueue", c, before)
	if n := t.count(c, "q"); n != 2 {
		t.Errorf("%d tasks are there, want 2", n)
	}
}

func enqueueTxMany(t *test) {
	c := t.open()
	q := c.Queue("q")
	n := t.overOneStatement(t.statements().Insert)
	add := func() (*sql.Tx, []dbq.Enqueued) {
		tx := t.beginTx(c)
		out, err := q.EnqueueManyTx(t.ctx, tx, make([]dbq.NewTask, n))
		t.must(err)
		if len(out) != n {
			t.Fatalf("EnqueueManyTx returned %d tasks, want %d", len(out), n)
		}
		return tx, out
	}
	tx, out := add()
	t.must(tx.Rollback())
	t.wantGone(c, out[0].ID)
	t.wantGone(c, out[n-1].ID)
	tx, out = add()
	t.must(tx.Commit())
	t.wantState(c, out[0].ID, dbq.StateCreated)
	t.wantState(c, out[n-1].ID, dbq.StateCreated)
	stats, err := admin.New(c).Stats(t.ctx, admin.CountAll())
	t.must(err)
	if len(stats) != 1 || stats[0].Count[dbq.StateCreated] != int64(n) {
		t.Errorf("stats say %+v, want %d tasks", stats, n)
	}
}

func enqueueTxKinds(t *test) {
	c := t.open()
	names, kinds := t.transactions()
	for _, kind := range names {
		q := c.Queue(kind)
		old := t.enqueue(q, dbq.NewTask{Reference: "old"})
		var ids [2]uuid.UUID
		for i, end := range []string{"rollback", "commit"} {
			tx, commit, rollback, err := kinds[kind](t.ctx, c)
			if err != nil {
				t.Fatalf("begin of a %s: %v", kind, err)
			}
			nt := dbq.NewTask{Reference: "r", Payload: []byte{0, 1, 255}, Kind: kind, Headers: map[string]string{"k": "v"}}
			if ids[i], err = q.EnqueueTx(t.ctx, tx, nt); err != nil {
				_ = rollback()
				t.Fatalf("EnqueueTx in a %s: %v", kind, err)
			}
			got, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "old"})
			t.wantErr("a duplicate in a "+kind, err, dbq.ErrDuplicate)
			if got != old {
				t.Errorf("a duplicate in a %s is reported as %s, want %s", kind, got, old)
			}
			if end == "commit" {
				err = commit()
			} else {
				err = rollback()
			}
			if err != nil {
				t.Fatalf("%s of a %s: %v", end, kind, err)
			}
		}
		t.wantGone(c, ids[0])
		task := t.get(c, ids[1])
		if task.Reference != "r" || string(task.Payload) != "\x00\x01\xff" || task.Kind != kind || task.Headers["k"] != "v" {
			t.Errorf("enqueued in a %s: got %s", kind, show(task))
		}
	}
}

// txCalls returns every call that takes a transaction.
func (t *test) txCalls(q *dbq.Queue, tx dbq.Tx, l dbq.Lease) map[string]func() error {
	return map[string]func() error{
		"EnqueueTx":     func() error { _, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{}); return err },
		"EnqueueManyTx": func() error { _, err := q.EnqueueManyTx(t.ctx, tx, make([]dbq.NewTask, 2)); return err },
		"CompleteTx":    func() error { return q.CompleteTx(t.ctx, tx, l, nil) },
		"SettleTx":      func() error { return q.SettleTx(t.ctx, tx, l, dbq.Deleted()) },
		"GetTx":         func() error { _, err := q.Client().GetTx(t.ctx, tx, l.Task); return err },
		"OperateTx":     func() error { return admin.New(q.Client()).OperateTx(t.ctx, tx, admin.Revoke, l.Task) },
	}
}

// wantErrTx checks that every call with the transaction returns ErrTx and changes nothing.
func (t *test) wantErrTx(c *dbq.Client, what string, task dbq.Task, tx dbq.Tx) {
	before := t.get(c, task.ID)
	for name, call := range t.txCalls(c.Queue(task.Queue), tx, task.Lease) {
		err := call()
		t.wantErr(fmt.Sprintf("%s with %s", name, what), err, dbq.ErrTx)
		t.wantErr(fmt.Sprintf("%s with %s", name, what), err, dbq.ErrInvalid)
	}
	t.wantUnchanged("a call with "+what, c, before)
	if n := t.count(c, task.Queue); n != 1 {
		t.Errorf("after calls with %s %d tasks are there, want 1", what, n)
	}
}

func enqueueTxNone(t *test) {
	c := t.open()
	task := t.takeNew(c.Queue("q"), dbq.NewTask{}, long)
	for _, tx := range []dbq.Tx{nil, (*sql.Tx)(nil), (*sqlx.Tx)(nil), &sqlx.Tx{}, rewriting{}} {
		t.wantErrTx(c, fmt.Sprintf("a nil %T", tx), task, tx)
	}
}

func enqueueTxFinished(t *test) {
	c := t.open()
	names, kinds := t.transactions()
	for _, kind := range names {
		task := t.takeNew(c.Queue(kind), dbq.NewTask{}, long)
		for _, end := range []string{"committed", "rolled back"} {
			tx, commit, rollback, err := kinds[kind](t.ctx, c)
			if err != nil {
				t.Fatalf("begin of a %s: %v", kind, err)
			}
			finish := map[string]func() error{"committed": commit, "rolled back": rollback}[end]
			t.must(finish())
			t.wantErrTx(c, fmt.Sprintf("a %s that was %s", kind, end), task, tx)
		}
	}
}
