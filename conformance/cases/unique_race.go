package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// uniqueRaces are the promises about unique keys that several clients want at once.
func uniqueRaces() []Case {
	return inGroup("Unique",
		Case{Name: "OnlyOneIsAdded", Once: true, run: uniqueRace,
			Law: "Of many concurrent enqueues with one key, exactly one adds a task and the others get its id, whether the " +
				"key is new or that of a task that has ended."},
		Case{Name: "ConcurrentBatches", Once: true, run: uniqueMany,
			Law: "Concurrent batches with keys in common, in any order and with any rules, all succeed, and leave one task " +
				"for each key."},
		Case{Name: "OnlyOneRuns", run: uniqueOnlyOneRuns,
			Law: "Beside workers, two tasks with one key that is held until its task ends never run at the same time."},
		Case{Name: "ReplacedWhileCheckedOut", run: uniqueReplacedRace,
			Law: "When a task is replaced while it is checked out, either it runs with what it was replaced by, or another " +
				"one does."},
		Case{Name: "WaitsForTheTransaction", Once: true, run: uniqueWaits,
			Law: "An enqueue with a key that an open transaction has taken is a duplicate if that commits, and adds a task if " +
				"it rolls back."},
		Case{Name: "DoesNotStartBeforeTheCommit", run: uniqueKeptTaskWaits,
			Law: "A waiting task that makes an enqueue in a transaction a duplicate does not start before that transaction " +
				"ends."},
		Case{Name: "SeesWhatTheTransactionChanged", run: uniqueSeesChange,
			Law: "Whatever a transaction changes, a task that it enqueues with a key, or the one that makes it a duplicate, " +
				"runs after it has committed."},
		Case{Name: "AtEveryIsolationLevel", Once: true, run: uniqueLevels,
			Law: "At every isolation level, a transaction either enqueues unique tasks by the state at its commit, or fails " +
				"with ErrConflict."},
		Case{Name: "CompleteAndEnqueueSuccessor", Once: true, run: uniqueSuccessor,
			Law: "A transaction that completes a task can enqueue its successor with the same key while others enqueue it, " +
				"too."},
	)
}

func uniqueRace(t *test) {
	clients := t.twoClients()
	const racers = 8
	period, window := &dbq.Unique{Key: "k", Period: dbq.MaxUniquePeriod}, &dbq.Unique{Key: "k", Window: time.Hour}
	for _, u := range []*dbq.Unique{pending("k"), unfinished("k"), period, window} {
		for round := range 2 {
			name := fmt.Sprintf("q %s %v %v", u.While, u.Period, u.Window)
			var mu sync.Mutex
			added, ids := 0, map[uuid.UUID]bool{}
			t.concurrently(racers, func(ctx context.Context, i int) {
				out, err := clients[i%2].Queue(name).EnqueueMany(ctx, []dbq.NewTask{{Unique: u}})
				if err != nil {
					t.Errorf("racer %d: %v", i, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[out[0].ID] = true
				if !out[0].Duplicate {
					added++
				}
			})
			if want := 1 - round*min(int(u.Period+u.Window), 1); added != want || len(ids) != 1 {
				t.Errorf("%s, round %d: %d tasks were added, want %d; the racers got %d ids, want 1", name, round, added, want,
					len(ids))
			}
			for id := range ids {
				if t.get(clients[0], id).State == dbq.StateCreated {
					t.must(admin.New(clients[0]).Operate(t.ctx, admin.Cancel, id))
				}
			}
		}
	}
}

func uniqueMany(t *test) {
	clients := t.twoClients()
	const racers = 8
	keys := t.load(40)
	rng := t.rngs(racers)
	rules := []dbq.UniqueConflict{dbq.UniqueKeep, dbq.UniqueReplace, dbq.UniqueDebounce}
	var added atomic.Int64
	t.concurrently(racers, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("unique")
		order := rng[i].Perm(keys)
		for len(order) > 0 {
			ts := make([]dbq.NewTask, min(len(order), 1+rng[i].IntN(keys)))
			for k := range ts {
				ts[k] = dbq.NewTask{Delay: long, Priority: rng[i].IntN(3), Unique: &dbq.Unique{
					Key: fmt.Sprint(order[k]), While: dbq.UniqueUnfinished, OnConflict: rules[rng[i].IntN(3)],
				}}
			}
			order = order[len(ts):]
			out, err := q.EnqueueMany(ctx, ts)
			if err != nil {
				t.Errorf("racer %d: enqueue of %d: %v", i, len(ts), err)
				return
			}
			for _, o := range out {
				if !o.Duplicate && !o.Replaced && !o.Debounced {
					added.Add(1)
				}
			}
		}
	})
	if n := t.count(clients[0], "unique"); n != keys || int(added.Load()) != keys {
		t.Errorf("there are %d tasks, and %d were reported as added, want %d", n, added.Load(), keys)
	}
}

func uniqueOnlyOneRuns(t *test) {
	clients := t.twoClients()
	const keys, producers, workers = 3, 3, 3
	var running [keys]atomic.Int64 // tasks with each key
	var producing atomic.Int64
	producing.Store(producers)
	nt := func(k int) dbq.NewTask { return dbq.NewTask{Priority: k, Unique: unfinished(fmt.Sprint(k))} }
	t.concurrently(producers+workers, func(ctx context.Context, i int) {
		q := clients[i%2].Queue("q")
		if i < producers {
			defer producing.Add(-1)
			for n := range t.load(30) {
				if _, err := q.Enqueue(ctx, nt((n+i)%keys)); err != nil && !errors.Is(err, dbq.ErrDuplicate) {
					t.Errorf("enqueue: %v", err)
					return
				}
			}
			return
		}
		for {
			more := producing.Load() > 0
			tasks, err := q.Checkout(ctx, 2, time.Minute)
			if err != nil {
				t.Errorf("checkout: %v", err)
				return
			}
			for _, task := range tasks {
				if n := running[task.Priority].Add(1); n != 1 {
					t.Errorf("%d tasks of one key run at the same time", n)
				}
			}
			for _, task := range tasks {
				running[task.Priority].Add(-1)
				if err := q.Complete(ctx, task.Lease, nil); err != nil {
					t.Errorf("complete: %v", err)
				}
			}
			if len(tasks) == 0 && !more {
				return
			}
		}
	})
}

func uniqueReplacedRace(t *test) {
	clients := t.twoClients()
	const last = 30
	var got atomic.Value
	got.Store("")
	var done atomic.Bool
	t.concurrently(2, func(ctx context.Context, i int) {
		q := clients[i].Queue("q")
		if i == 0 {
			defer done.Store(true)
			for n := range last {
				nt := dbq.NewTask{Payload: fmt.Append(nil, n), Unique: replacing("k")}
				if _, err := q.Enqueue(ctx, nt); err != nil {
					t.Errorf("enqueue: %v", err)
					return
				}
			}
			return
		}
		for {
			more := !done.Load()
			tasks, err := q.Checkout(ctx, 1, time.Minute)
			if err != nil {
				t.Errorf("checkout: %v", err)
				return
			}
			for _, task := range tasks {
				got.Store(string(task.Payload))
				if err := q.Complete(ctx, task.Lease, nil); err != nil {
					t.Errorf("complete: %v", err)
				}
			}
			if len(tasks) == 0 && !more {
				return
			}
		}
	})
	if got.Load() != fmt.Sprint(last-1) {
		t.Errorf("the last task ran with the payload %q, want that of the last enqueue, %d", got.Load(), last-1)
	}
}

func uniqueWaits(t *test) {
	for _, commits := range []bool{true, false} {
		c, other := t.open(), t.open()
		nt := dbq.NewTask{Unique: pending(fmt.Sprint(commits))}
		tx := t.beginTx(c)
		id, err := c.Queue("q").EnqueueTx(t.ctx, tx, nt)
		t.must(err)
		var otherID uuid.UUID
		answered := make(chan error)
		go func() {
			var err error
			otherID, err = other.Queue("q").Enqueue(t.ctx, nt)
			answered <- err
		}()
		select {
		case err := <-answered:
			t.Errorf("the other enqueue did not wait for the transaction: %v", err)
			return
		case <-time.After(50 * time.Millisecond):
		}
		if commits {
			t.must(tx.Commit())
			t.wantErr("after the commit", <-answered, dbq.ErrDuplicate)
		} else {
			t.must(tx.Rollback())
			t.must(<-answered)
		}
		if commits != (otherID == id) {
			t.Errorf("commit %v: the other enqueue returned %s, the transaction %s", commits, otherID, id)
		}
	}
}

func uniqueKeptTaskWaits(t *test) {
	c, other := t.open(), t.open()
	q := c.Queue("q")
	t.enqueue(q, dbq.NewTask{Unique: pending("k")})
	tx := t.beginTx(c)
	_, err := tx.ExecContext(t.ctx, "DELETE FROM "+t.Prefix+"attempt WHERE 1 = 0") // on SQLite it begins to write
	t.must(err)
	t.skipOneWriter(tx)
	_, err = q.EnqueueTx(t.ctx, tx, dbq.NewTask{Unique: pending("k")})
	t.wantErr("enqueue", err, dbq.ErrDuplicate)
	if len(t.checkout(other.Queue("q"), 1, long)) != 0 {
		t.Fatalf("it was checked out before the commit")
	}
	t.must(tx.Commit())
	t.eventually("it starts after the commit", func() bool { return len(t.checkout(other.Queue("q"), 1, long)) == 1 })
}

func uniqueSeesChange(t *test) {
	clients := t.twoClients()
	side := t.sideTable(clients[0])
	const producers = 3
	each := t.load(10)
	var producing, seen atomic.Int64
	producing.Store(producers)
	change := func(ctx context.Context, c *dbq.Client, n int) error {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (n) VALUES (%d)", side, n)); err != nil {
			return err
		}
		_, err = c.Queue("q").EnqueueTx(ctx, tx, dbq.NewTask{Unique: pending("k")})
		if err != nil && !errors.Is(err, dbq.ErrDuplicate) {
			return err
		}
		return tx.Commit()
	}
	t.concurrently(producers+1, func(ctx context.Context, i int) {
		c := clients[i%2]
		if i < producers {
			defer producing.Add(-1)
			for n := range each {
				err := change(ctx, c, i*each+n)
				for tries := 0; err != nil && tries < 50 && ctx.Err() == nil; tries++ { // a deadlock, or a busy writer
					err = change(ctx, c, i*each+n)
				}
				if err != nil {
					t.Errorf("producer %d: %v", i, err)
					return
				}
			}
			return
		}
		for {
			more := producing.Load() > 0
			tasks, err := c.Queue("q").Checkout(ctx, 1, time.Minute)
			if err != nil {
				t.Errorf("checkout: %v", err)
				return
			}
			for _, task := range tasks {
				seen.Store(int64(t.sideRows(c, side)))
				if err := c.Queue("q").Complete(ctx, task.Lease, nil); err != nil {
					t.Errorf("complete: %v", err)
				}
			}
			if len(tasks) == 0 && !more {
				return
			}
		}
	})
	if n := int(seen.Load()); n != producers*each {
		t.Errorf("the last task saw %d changes, want all %d", n, producers*each)
	}
}

func uniqueLevels(t *test) {
	c, other := t.open(), t.open()
	if c.Info().Server.OneWriter {
		t.Skipf("the database has one writer at a time: nothing changes beside a transaction")
	}
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for name, between := range map[string]func(q *dbq.Queue) uuid.UUID{
			"nothing": func(*dbq.Queue) uuid.UUID { return uuid.Nil },
			"added":   func(q *dbq.Queue) uuid.UUID { return t.enqueue(q, dbq.NewTask{Delay: long, Unique: unfinished("k")}) },
			"taken": func(q *dbq.Queue) uuid.UUID {
				return t.takeNew(q, dbq.NewTask{Unique: unfinished("k")}, long).ID
			},
			"gone": func(q *dbq.Queue) uuid.UUID {
				task := t.takeNew(q, dbq.NewTask{Unique: unfinished("k")}, long)
				t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted()))
				return uuid.Nil
			},
		} {
			queue := fmt.Sprintf("%v %s", level, name)
			tx, err := c.DB().BeginTx(t.ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Logf("%v: %v", level, err) // the driver does not have it
				continue
			}
			var n int // from here on, a transaction has its snapshot
			t.must(tx.QueryRowContext(t.ctx, "SELECT COUNT(*) FROM "+t.Prefix+"migration").Scan(&n))
			holder := between(other.Queue(queue))
			id, err := c.Queue(queue).EnqueueTx(t.ctx, tx, dbq.NewTask{Delay: long, Unique: unfinished("k")})
			failed := errors.Is(err, dbq.ErrConflict)
			switch {
			case failed:
				_ = tx.Rollback()
			case errors.Is(err, dbq.ErrDuplicate) && holder == id && holder != uuid.Nil, err == nil:
				err = tx.Commit()
			}
			if err != nil && !failed && !errors.Is(err, dbq.ErrDuplicate) {
				t.Errorf("%s: %v", queue, err)
				_ = tx.Rollback()
			}
			alive := 0
			for _, task := range t.list(other, admin.Filter{Queue: queue}) {
				if !task.Ended() {
					alive++
				}
			}
			if alive != 1 && !(failed && holder == uuid.Nil && alive == 0) {
				t.Errorf("%s: there are %d unfinished tasks, want 1", queue, alive)
			}
		}
	}
}

func uniqueSuccessor(t *test) {
	clients := t.twoClients()
	q := clients[0].Queue("q")
	t.enqueue(q, dbq.NewTask{Unique: unfinished("k")})
	var done atomic.Bool
	t.concurrently(3, func(ctx context.Context, i int) {
		if i > 0 {
			for !done.Load() {
				nt := dbq.NewTask{Priority: 1, Unique: &dbq.Unique{Key: "k", While: dbq.UniqueUnfinished,
					OnConflict: dbq.UniqueReplace}}
				if _, err := clients[1].Queue("q").Enqueue(ctx, nt); err != nil && !errors.Is(err, dbq.ErrDuplicate) {
					t.Errorf("enqueue: %v", err)
					return
				}
			}
			return
		}
		defer done.Store(true)
		for range t.load(25) {
			tasks := t.checkout(q, 10, time.Minute)
			if len(tasks) > 1 {
				t.Errorf("%d tasks with one key were checked out", len(tasks))
			}
			for _, task := range tasks {
				tx := t.beginTx(clients[0])
				t.must(q.CompleteTx(ctx, tx, task.Lease, nil))
				_, err := q.EnqueueTx(ctx, tx, dbq.NewTask{Unique: unfinished("k")})
				t.must(err)
				t.must(tx.Commit())
			}
		}
	})
}
