package dbqtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/worker"
)

type order struct{ Item string }

var ship = dbq.Kind[order]{Name: "ship", Queue: "orders"}

// buy is code under test: it enqueues.
func buy(ctx context.Context, c *dbq.Client, item string) error {
	_, err := ship.Enqueue(ctx, c, order{item})
	return err
}

// shipping is code under test: it handles.
func shipping(carrier func(item string) error) worker.Handler {
	mux := worker.NewMux()
	worker.Handle(mux, ship, func(_ context.Context, _ dbq.Task, o order) error { return carrier(o.Item) })
	return mux
}

func TestPurchaseIsShipped(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	if err := buy(t.Context(), db.Client, "a book"); err != nil {
		t.Fatal(err)
	}
	if got := dbqtest.Only(db, ship); got.Item != "a book" {
		t.Errorf("enqueued %q", got.Item)
	}
	task, found := db.Step(worker.Worker{Queue: db.Queue("orders"), Handler: shipping(func(string) error { return nil })})
	if !found || task.State != dbq.StateCompleted {
		t.Errorf("got %v, %v", task.State, found)
	}
	if _, found := db.Step(worker.Worker{Queue: db.Queue("orders"), Handler: shipping(nil)}); found {
		t.Error("a second step found something")
	}
}

func TestRetryIsDueAfterAdvance(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	if err := buy(t.Context(), db.Client, "a book"); err != nil {
		t.Fatal(err)
	}
	fail := true
	w := worker.Worker{Queue: db.Queue("orders"), Backoff: func(int) time.Duration { return time.Hour },
		Handler: shipping(func(string) error {
			if fail {
				return errors.New("no carrier")
			}
			return nil
		})}
	if done := db.Run(w); len(done) != 1 || done[0].State != dbq.StateError {
		t.Fatalf("got %v", done)
	}
	db.Advance(59 * time.Minute)
	if done := db.Run(w); len(done) != 0 {
		t.Errorf("something was due a minute early: %v", done)
	}
	fail = false
	db.Advance(time.Minute)
	if done := db.Run(w); len(done) != 1 || done[0].Attempt != 2 {
		t.Errorf("got %v, want the second attempt", done)
	}
	db.WantTasks("orders", dbq.StateCompleted, 1)
}

func TestAdvanceMovesTheDatabasesClock(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	q := db.Queue("q")
	before, err := db.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := q.Enqueue(t.Context(), dbq.NewTask{Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	db.Advance(2 * time.Hour)
	if now, err := db.Now(t.Context()); err != nil || now.Sub(before) < 2*time.Hour {
		t.Errorf("the clock went from %v to %v (%v)", before, now, err)
	}
	tasks, err := q.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("got %v, %v: want the delayed task", tasks, err)
	}
	db.Advance(2 * time.Minute)
	again, err := q.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(again) != 1 || again[0].ID != id {
		t.Fatalf("got %v, %v: want the task whose lease expired", again, err)
	}
	if err := q.Complete(t.Context(), tasks[0].Lease, nil); !errors.Is(err, dbq.ErrLeaseLost) {
		t.Errorf("got %v, want ErrLeaseLost", err)
	}
	if err := q.Complete(t.Context(), again[0].Lease, nil); err != nil {
		t.Fatal(err)
	}
	if task := db.Tasks("q")[0]; task.Updated.Sub(before) < 2*time.Hour {
		t.Errorf("completed at %v, the clock began at %v", task.Updated, before)
	}
	purge := func() (int, error) {
		old := admin.Filter{InStateFor: time.Hour, Limit: 10}
		done, err := admin.New(db.Client).OperateMany(t.Context(), admin.Purge, old)
		return done.Changed, err
	}
	if n, err := purge(); n != 0 || err != nil {
		t.Errorf("purged %d, %v before their time", n, err)
	}
	db.Advance(time.Hour)
	if n, err := purge(); n != 1 || err != nil {
		t.Errorf("purged %d, %v, want 1", n, err)
	}
}

func TestDatabasesOfTwoTestsAreIndependent(t *testing.T) {
	t.Parallel()
	a, b := dbqtest.New(t), dbqtest.New(t)
	if err := buy(t.Context(), a.Client, "a book"); err != nil {
		t.Fatal(err)
	}
	a.Advance(time.Hour)
	b.WantTasks("orders", dbq.StateCreated, 0)
	na, err := a.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nb, err := b.Now(t.Context())
	if err != nil || na.Sub(nb) < 59*time.Minute {
		t.Errorf("the other clock moved, too: %v and %v (%v)", na, nb, err)
	}
}

// TestErrorsAreShownWhole has an error with a text like a part of the database's path, which is no secret.
func TestErrorsAreShownWhole(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	_, err := db.Queue("q").Enqueue(t.Context(), dbq.NewTask{Kind: strings.Repeat("x", 2001)})
	if !errors.Is(err, dbq.ErrInvalid) || !strings.Contains(err.Error(), "2001") {
		t.Errorf("got %v", err)
	}
}
