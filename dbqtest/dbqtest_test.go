package dbqtest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/state"
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

func TestEnqueuedSeesEachNewTask(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	db.WantNothingEnqueued()
	tx, err := db.DB().BeginTx(t.Context(), nil)
	check.OK(t, err)
	_, err = ship.EnqueueTx(t.Context(), tx, db.Client, order{"a pen"}, func(n *dbq.NewTask) {
		n.Delay, n.Key, n.Priority, n.Reference = time.Hour, "ann", 3, "o1"
	})
	check.OK(t, err)
	got := dbqtest.Enqueued(db, ship)
	if len(got) != 1 || got[0].Value.Item != "a pen" || got[0].Queue != "orders" || got[0].Delay != time.Hour ||
		got[0].Key != "ann" || got[0].Priority != 3 || got[0].Reference != "o1" {
		t.Errorf("in the open transaction: %+v", got)
	}
	check.OK(t, tx.Rollback())
	if got := dbqtest.Waiting(db, ship); len(got) != 0 {
		t.Errorf("after the rollback, %v waits", got)
	}
	if got := dbqtest.Enqueued(db, dbq.Kind[string]{Name: "other"}); len(got) != 0 {
		t.Errorf("of another kind: %v", got)
	}
}

func TestPerformHandlesOneTaskOnce(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	check.OK(t, buy(t.Context(), db.Client, "another one"))
	var items []string
	mux := worker.NewMux()
	worker.HandleResult(mux, ship, func(ctx context.Context, task dbq.Task, o order) (string, error) {
		items = append(items, o.Item)
		if worker.Client(ctx) == nil || worker.SetProgress(ctx, []byte("half")) != nil {
			t.Error("the handler's context has no worker")
		}
		if o.Item == "" {
			return "", dbq.Parked(errors.New("no item"))
		}
		return "sent to " + task.Key, nil
	})
	task, outcome := dbqtest.Perform(db, mux, ship, order{"a book"}, func(n *dbq.NewTask) { n.Key = "ann" })
	if task.State != dbq.StateCompleted || string(task.Result) != `"sent to ann"` || outcome.Cause() != nil {
		t.Errorf("got %v with %q, %v", task.State, task.Result, outcome)
	}
	if task, outcome := dbqtest.Perform(db, mux, ship, order{}); !task.Parked() || outcome.String() != "parked" {
		t.Errorf("without an item: %v, %v", task.State, outcome)
	}
	if len(items) != 2 {
		t.Errorf("the handler got %q", items)
	}
	db.WantTasks("orders", dbq.StateCreated, 1)
}

func TestInlineHandlesWhatIsEnqueued(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	mail := dbq.Kind[string]{Name: "mail", Queue: "mails"}
	mux := worker.NewMux()
	worker.Handle(mux, ship, func(ctx context.Context, _ dbq.Task, o order) error {
		_, err := mail.Enqueue(ctx, worker.Client(ctx), "shipped "+o.Item)
		return err
	})
	var mails []string
	worker.Handle(mux, mail, func(_ context.Context, _ dbq.Task, text string) error {
		mails = append(mails, text)
		return nil
	})
	db.Inline(worker.Worker{Queue: db.Queue("orders"), Handler: mux},
		worker.Worker{Queue: db.Queue("mails"), Handler: mux})
	check.OK(t, buy(t.Context(), db.Client, "a book"))
	if len(mails) != 1 || mails[0] != "shipped a book" {
		t.Errorf("when the enqueue returned, the mails were %q", mails)
	}
}

func TestSchedulesFireByAStep(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := schedule.For(ship, order{"a paper"}, schedule.Schedule{Name: "daily", Cron: "0 6 * * *"})
	check.OK(t, schedule.New(db.Client).Put(t.Context(), s))
	db.Fire(schedule.New(db.Client))
	db.WantTasks("orders", dbq.StateCreated, 0)
	db.Advance(24 * time.Hour)
	db.Fire(schedule.New(db.Client))
	db.Fire(schedule.New(db.Client))
	if got := dbqtest.Only(db, ship); got.Item != "a paper" {
		t.Errorf("the schedule enqueued %q", got.Item)
	}
}

func TestInlineHandlesTasksOfTransactionsAfterwards(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	shipped := 0
	db.Inline(worker.Worker{Queue: db.Queue("orders"), Handler: shipping(func(string) error { shipped++; return nil })})
	for range 2 {
		tx, err := db.DB().BeginTx(t.Context(), nil)
		check.OK(t, err)
		_, err = ship.EnqueueTx(t.Context(), tx, db.Client, order{"a pen"})
		check.OK(t, err)
		check.OK(t, tx.Commit())
	}
	if shipped != 0 {
		t.Errorf("%d orders were shipped before a call that follows the commits", shipped)
	}
	check.OK(t, buy(t.Context(), db.Client, "a book"))
	if shipped != 3 {
		t.Errorf("%d orders were shipped, want 3", shipped)
	}
	s := schedule.New(db.Client)
	check.OK(t, s.Put(t.Context(), schedule.For(ship, order{"a paper"}, schedule.Schedule{Name: "s", Every: time.Hour})))
	for range 2 {
		db.Advance(time.Hour)
		db.Fire(s)
	}
	if shipped != 5 {
		t.Errorf("%d orders were shipped after two fires, want 5", shipped)
	}
}

func TestInlineHandlesWhatSeveralGoroutinesEnqueue(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	db.Inline(worker.Worker{Queue: db.Queue("orders"), Handler: shipping(func(string) error { return nil })})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := buy(context.WithoutCancel(t.Context()), db.Client, "a book"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	db.WantTasks("orders", dbq.StateCompleted, 8)
}

func TestPerformReportsAPanic(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	task, outcome := dbqtest.Perform(db, shipping(func(string) error { panic("no carrier") }), ship, order{"a book"})
	if task.State != dbq.StateError || outcome.Event() != state.Fail {
		t.Errorf("got %v and the outcome %s", task.State, outcome.String())
	}
}
