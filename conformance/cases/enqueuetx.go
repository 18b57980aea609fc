package cases

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

func enqueueTxCases() []Case {
	return inGroup("EnqueueTx",
		Case{Name: "InvisibleBeforeCommit", Once: true, run: enqueueTxInvisible,
			Law: "A task enqueued in a transaction is invisible to others until the commit."},
		Case{Name: "DuplicateLeavesTxUsable", Once: true, run: enqueueTxDuplicate,
			Law: "ErrDuplicate leaves the caller's transaction usable."},
		Case{Name: "ManyTx", Once: true, run: enqueueTxMany,
			Law: "EnqueueManyTx adds all its tasks with the transaction or none, even beyond the limits of one statement."},
		Case{Name: "EachKindOfTx", Once: true, run: enqueueTxKinds,
			Law: "EnqueueTx works in every kind of transaction that dbq accepts."},
		Case{Name: "FinishedTransaction", Once: true, run: enqueueTxFinished,
			Law: "Every call in a transaction that has committed or rolled back returns ErrTx and changes nothing."},
	)
}

// beginTx starts a transaction. It is rolled back after the case if it is still open, since SQLite's only writer
// depends on it.
func (t *test) beginTx(c *dbq.Client) *sql.Tx {
	tx := must(c.DB().BeginTx(t.ctx, nil))
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// end commits a transaction or rolls it back.
func (t *test) end(tx *sql.Tx, commit bool) {
	if commit {
		t.must(tx.Commit())
	} else {
		t.must(tx.Rollback())
	}
}

// wantWaits ends the case if a call that should wait for an open transaction returns.
func (t *test) wantWaits(call string, answered <-chan error) {
	select {
	case err := <-answered:
		t.Fatalf("%s did not wait for the transaction: %v", call, err)
	case <-time.After(50 * time.Millisecond):
	}
}

// inTx does something in a transaction, and commits it.
func (t *test) inTx(c *dbq.Client, do func(tx *sql.Tx) error) {
	tx := t.beginTx(c)
	t.must(do(tx))
	t.must(tx.Commit())
}

func enqueueTxInvisible(t *test) {
	c, other := t.open(), t.open() // nothing else of c may be used while its transaction is open
	tx := t.beginTx(c)
	id := must(c.Queue("q").EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "r"}))
	t.wantGone(other, id)
	t.wantCount(other, "q", 0)
	_, err := other.Queue("q").Find(t.ctx, "r")
	t.wantErr("find before the commit", err, dbq.ErrNotFound)
	t.must(tx.Commit())
	t.wantState(other, id, dbq.StateCreated)
}

func enqueueTxDuplicate(t *test) {
	c, q := t.openQueue()
	old := t.enqueue(q, dbq.NewTask{Reference: "r"})
	before := t.get(c, old)
	tx := t.beginTx(c)
	for range 2 {
		id, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "r"})
		t.wantErr("enqueue of a taken reference", err, dbq.ErrDuplicate)
		t.failIf(id != old, "the id is %s, want the existing task's, %s", id, old)
		_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{ID: old})
		t.wantErr("enqueue of a taken id", err, dbq.ErrDuplicate)
	}
	first := must(q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "new"}))
	again, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "new"})
	t.wantErr("enqueue of a reference taken in the same transaction", err, dbq.ErrDuplicate)
	t.failIf(again != first, "the id is %s, want that of the task enqueued before in the transaction, %s", again, first)
	t.must(tx.Commit())
	t.wantState(c, first, dbq.StateCreated)
	t.wantUnchanged("the refused enqueue", c, before)
	t.wantCount(c, "q", 2)
}

func enqueueTxMany(t *test) {
	c, q := t.openQueue()
	n := t.overOneStatement(t.statements().Insert)
	add := func() (*sql.Tx, []dbq.Enqueued) {
		tx := t.beginTx(c)
		out := must(q.EnqueueManyTx(t.ctx, tx, make([]dbq.NewTask, n)))
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
	stats := must(admin.New(c).Stats(t.ctx, admin.CountAll()))
	t.failIf(len(stats) != 1 || stats[0].Count[dbq.StateCreated] != int64(n), "stats say %+v, want %d tasks", stats, n)
}

func enqueueTxKinds(t *test) {
	c := t.open()
	t.eachKindOfTx(c, func(kind string, begin func() (dbq.Tx, func(commit bool))) {
		q := c.Queue(kind)
		old := t.enqueue(q, dbq.NewTask{Reference: "old"})
		var ids []uuid.UUID
		for _, commit := range []bool{false, true} {
			tx, end := begin()
			nt := dbq.NewTask{Reference: "r", Payload: []byte{0, 1, 255}, Kind: kind, Headers: map[string]string{"k": "v"}}
			ids = append(ids, must(q.EnqueueTx(t.ctx, tx, nt)))
			got, err := q.EnqueueTx(t.ctx, tx, dbq.NewTask{Reference: "old"})
			t.wantErr("a duplicate in a "+kind, err, dbq.ErrDuplicate)
			t.failIf(got != old, "a duplicate in a %s is reported as %s, want %s", kind, got, old)
			end(commit)
		}
		t.wantGone(c, ids[0])
		task := t.get(c, ids[1])
		t.failIf(task.Reference != "r" || string(task.Payload) != "\x00\x01\xff" || task.Kind != kind ||
			task.Headers["k"] != "v", "enqueued in a %s: got %s", kind, show(task))
	})
}

// wantErrTx checks that every call with the transaction returns ErrTx and changes nothing.
func (t *test) wantErrTx(c *dbq.Client, what string, task dbq.Task, tx dbq.Tx) {
	before := t.get(c, task.ID)
	for _, call := range callsTx(c.Queue(task.Queue), task.Lease) {
		err := call.tx(t.ctx, tx)
		t.wantErr(fmt.Sprintf("%s with %s", call.name, what), err, dbq.ErrTx)
		t.wantErr(fmt.Sprintf("%s with %s", call.name, what), err, dbq.ErrInvalid)
	}
	t.wantUnchanged("a call with "+what, c, before)
	t.wantCount(c, task.Queue, 1)
}

func enqueueTxFinished(t *test) {
	c := t.open()
	t.eachKindOfTx(c, func(kind string, begin func() (dbq.Tx, func(commit bool))) {
		task := t.takeNew(c.Queue(kind), dbq.NewTask{}, long)
		for _, commit := range []bool{false, true} {
			tx, end := begin()
			end(commit)
			t.wantErrTx(c, fmt.Sprintf("a %s that has ended (committed: %v)", kind, commit), task, tx)
		}
	})
}

// A txKind begins one kind of transaction on a client's database.
type txKind = func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)

// eachKindOfTx calls do with each kind of transaction to test, and a function that begins one of it.
func (t *test) eachKindOfTx(c *dbq.Client, do func(kind string, begin func() (tx dbq.Tx, end func(commit bool)))) {
	kinds := map[string]txKind{
		"*sql.Tx": wrapping(func(tx *sql.Tx) dbq.Tx { return tx }),
		"wrapper": wrapping(func(tx *sql.Tx) dbq.Tx { return wrapper{tx} }),
	}
	maps.Copy(kinds, t.Transactions)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("in a %s", kind)
		do(kind, func() (dbq.Tx, func(commit bool)) {
			tx, commit, rollback, err := kinds[kind](t.ctx, c)
			t.must(err)
			ended := false
			t.Cleanup(func() {
				if !ended {
					_ = rollback()
				}
			})
			return tx, func(commits bool) {
				ended = true
				if commits {
					t.must(commit())
				} else {
					t.must(rollback())
				}
			}
		})
	}
}

func wrapping(wrap func(*sql.Tx) dbq.Tx) txKind {
	return func(ctx context.Context, c *dbq.Client) (dbq.Tx, func() error, func() error, error) {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return wrap(tx), tx.Commit, tx.Rollback, nil
	}
}

// wrapper is known by its methods alone, as a transaction that logs or traces is.
type wrapper struct{ inner *sql.Tx }

func (w wrapper) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return w.inner.ExecContext(ctx, query, args...)
}

func (w wrapper) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return w.inner.QueryContext(ctx, query, args...)
}

func (w wrapper) Commit() error   { return w.inner.Commit() }
func (w wrapper) Rollback() error { return w.inner.Rollback() }
