package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// A task is handed out at least once. What must happen once is written in the transaction that completes the task:
// both are there, or neither.
func ExampleSettled() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DB().ExecContext(ctx, "CREATE TABLE payment (customer TEXT)"); err != nil {
		log.Fatal(err)
	}
	q := c.Queue("payments")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("Ann")}); err != nil {
		log.Fatal(err)
	}
	pay := func(ctx context.Context, t dbq.Task) error {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO payment VALUES (?)", string(t.Payload)); err != nil {
			return err
		}
		if err := q.CompleteTx(ctx, tx, t.Lease, nil); err != nil { // ErrLeaseLost when another has it by now
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		return nil // the worker finds that the task is completed
	}
	w := worker.Worker{Queue: q, Handler: worker.Func(pay), UntilEmpty: true}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	stats, err := admin.New(c).Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var payments int
	if err := c.DB().QueryRowContext(ctx, "SELECT count(*) FROM payment").Scan(&payments); err != nil {
		log.Fatal(err)
	}
	fmt.Println("completed:", stats[0].Count[dbq.StateCompleted], "payments:", payments)
	// Output: completed: 1 payments: 1
}

// OnPoison reports tasks that now wait for a person.
func ExampleWorker_onPoison() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Reference: "to-ann", MaxAttempts: 2}); err != nil {
		log.Fatal(err)
	}
	w := worker.Worker{Queue: q, UntilEmpty: true,
		Backoff: func(int) time.Duration { return 0 }, // for this example; the default is a second at first
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			return errors.New("cannot connect")
		}),
		OnPoison: func(_ context.Context, t dbq.Task, err error) {
			fmt.Printf("%s is poison after attempt %d: %v\n", t.Reference, t.Attempt, err)
		}}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: to-ann is poison after attempt 2: cannot connect
}

// Timeout bounds an attempt, whatever its lease, which is renewed meanwhile.
func ExampleWorker_timeout() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("reports")
	id, err := q.Enqueue(ctx, dbq.NewTask{})
	if err != nil {
		log.Fatal(err)
	}
	w := worker.Worker{Queue: q, Timeout: 20 * time.Millisecond, UntilEmpty: true,
		Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
			<-ctx.Done() // as what is given ctx does: a query, a request
			fmt.Println("stopped:", errors.Is(context.Cause(ctx), worker.ErrTimeout))
			return ctx.Err()
		})}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	t, err := c.Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.State, "to be tried again:", !t.Parked())
	// Output:
	// stopped: true
	// ERROR to be tried again: true
}
