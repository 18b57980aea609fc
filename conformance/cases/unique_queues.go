package cases

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// ofQueueCases are about ids and unique keys of several queues, and of enqueues that are refused.
func ofQueueCases() []Case {
	return inGroup("Unique",
		Case{Name: "RefusedEnqueueLeavesKeyFree", Once: true, run: refusedLeavesKeyFree,
			Law: "An enqueue that is refused because of its id takes no key, neither while a task waits nor for a period or " +
				"a window."},
		Case{Name: "KeyIsOfItsQueue", Once: true, run: keyIsOfItsQueue,
			Law: "A key names tasks of its own queue alone: one that moved to another queue under its id neither has the " +
				"key nor is changed by it."},
		Case{Name: "IDOfAnotherQueue", Once: true, run: idOfAnotherQueue,
			Law: "An enqueue with the id of another queue's task is refused with ErrWrongQueue and adds none of its tasks, " +
				"and a caller's transaction stays usable."},
		Case{Name: "IDTakenMeanwhile", Once: true, run: idTakenMeanwhile,
			Law: "Of two concurrent enqueues of one id, one adds the task. The other reports a duplicate or, for another " +
				"queue, ErrWrongQueue; a transaction that cannot see the task may get ErrConflict. With an error it adds none of " +
				"its tasks, and a caller's transaction stays usable."},
	)
}

func refusedLeavesKeyFree(t *test) {
	c := t.open()
	q := c.Queue("q")
	taken := t.enqueue(q, dbq.NewTask{RunAt: time.Now().Add(long)})
	elsewhere := t.enqueue(c.Queue("other"), dbq.NewTask{Delay: long})
	for name, unique := range map[string]*dbq.Unique{
		"waiting": pending("a"), "unfinished": unfinished("b"),
		"period": {Key: "c", Period: 24 * time.Hour}, "window": {Key: "d", Window: time.Hour},
	} {
		_, err := q.Enqueue(t.ctx, dbq.NewTask{ID: taken, Unique: unique})
		t.wantErr(name+": the id is taken", err, dbq.ErrDuplicate)
		_, err = q.Enqueue(t.ctx, dbq.NewTask{ID: elsewhere, Unique: unique})
		t.wantErr(name+": the id is another queue's", err, dbq.ErrWrongQueue)
		tx := t.beginTx(c)
		_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{ID: taken, Unique: unique})
		t.wantErr(name+": the id is taken, in a transaction", err, dbq.ErrDuplicate)
		_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{ID: elsewhere, Unique: unique})
		t.wantErr(name+": the id is another queue's, in a transaction", err, dbq.ErrWrongQueue)
		t.must(tx.Commit())
		t.enqueue(q, dbq.NewTask{Unique: unique})
	}
}

func keyIsOfItsQueue(t *test) {
	c := t.open()
	a, b := c.Queue("a"), c.Queue("b")
	for name, by := range map[string]struct{ first, then *dbq.Unique }{
		"kept":       {pending("a"), pending("a")},
		"unfinished": {unfinished("b"), unfinished("b")},
		"replaced":   {pending("c"), replacing("c")},
		"debounced":  {pending("d"), debouncing("d", 0)},
	} {
		id := t.enqueue(a, dbq.NewTask{Priority: 1, Unique: by.first})
		task := t.take(a, long)
		t.must(a.Settle(t.ctx, task.Lease, dbq.Deleted()))
		_, err := b.Enqueue(t.ctx, dbq.NewTask{ID: id, Delay: long})
		t.must(err)
		moved := t.get(c, id)
		added := t.enqueueOne(a, dbq.NewTask{Delay: long, Unique: by.then})
		if added.Duplicate || added.Replaced || added.Debounced || added.ID == id {
			t.Errorf("%s: got %+v, want a new task", name, added)
		}
		t.wantUnchanged(name, c, moved)
	}
}

func idOfAnotherQueue(t *test) {
	c := t.open()
	a, b := c.Queue("a"), c.Queue("b")
	id := t.enqueue(a, dbq.NewTask{Delay: long})
	before := t.get(c, id)
	calls := map[string][]dbq.NewTask{
		"one":         {{ID: id}},
		"of several":  {{}, {ID: id}, {Reference: "r"}},
		"unique":      {{ID: id, Unique: pending("u")}},
		"some unique": {{Unique: pending("v")}, {ID: id}},
	}
	for name, ts := range calls {
		_, err := b.EnqueueMany(t.ctx, ts)
		t.wantErr(name, err, dbq.ErrWrongQueue)
		tx := t.beginTx(c)
		_, err = b.EnqueueManyTx(t.ctx, tx, ts)
		t.wantErr(name+", in a transaction", err, dbq.ErrWrongQueue)
		t.must(tx.Commit())
		if got := t.list(c, admin.Filter{Queue: "b"}); len(got) > 0 {
			t.Errorf("%s: it has added %d tasks", name, len(got))
		}
		t.wantUnchanged(name, c, before)
	}
}

func idTakenMeanwhile(t *test) {
	c, other := t.open(), t.open()
	way := 0
	for what, first := range map[string]dbq.NewTask{"plain": {}, "unique": {Unique: pending("k")}} {
		for _, kind := range []string{"alone", "in a transaction", "in a transaction that has read"} {
			for _, same := range []bool{true, false} {
				way++
				name := fmt.Sprintf("%s, %s, same queue: %v", what, kind, same)
				a, b := fmt.Sprint("a", way), fmt.Sprint("b", way)
				if same {
					b = a
				}
				ts := []dbq.NewTask{first, {ID: dbq.NewID()}, {ID: dbq.NewID()}}
				tx := t.beginTx(c)
				_, err := c.Queue(a).EnqueueTx(t.ctx, tx, ts[1])
				t.must(err)
				var out []dbq.Enqueued
				answered := make(chan error, 1)
				go func() {
					out, err = t.enqueueMeanwhile(other.Queue(b), ts, kind)
					answered <- err
				}()
				select {
				case err := <-answered:
					t.Fatalf("%s: the other enqueue did not wait for the transaction: %v", name, err)
				case <-time.After(50 * time.Millisecond):
				}
				t.must(tx.Commit())
				err = <-answered
				want := 0
				switch {
				case kind == "in a transaction that has read" && errors.Is(err, dbq.ErrConflict):
				case !same:
					t.wantErr(name, err, dbq.ErrWrongQueue)
				case err != nil || out[0].Duplicate || !out[1].Duplicate || out[1].ID != ts[1].ID || out[2].Duplicate:
					t.Errorf("%s: got %+v and error %v, want only the second to be a duplicate", name, out, err)
				default:
					want = 2
				}
				if same {
					want++
				}
				if n := t.count(c, b); n != want {
					t.Errorf("%s: the queue has %d tasks, want %d", name, n, want)
				}
			}
		}
	}
}

// enqueueMeanwhile enqueues by itself or in a transaction of the given kind, which it commits whatever the outcome.
func (t *test) enqueueMeanwhile(q *dbq.Queue, ts []dbq.NewTask, kind string) ([]dbq.Enqueued, error) {
	if kind == "alone" {
		return q.EnqueueMany(t.ctx, ts)
	}
	tx, err := q.Client().DB().BeginTx(t.ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	if kind == "in a transaction that has read" { // on some engines it then has its snapshot
		var n int
		if err := tx.QueryRowContext(t.ctx, "SELECT COUNT(*) FROM "+t.Prefix+"migration").Scan(&n); err != nil {
			return nil, err
		}
	}
	out, err := q.EnqueueManyTx(t.ctx, tx, ts)
	if end := tx.Commit(); end != nil {
		t.Errorf("commit after %v: %v", err, end)
	}
	return out, err
}
