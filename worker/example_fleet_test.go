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

// The history has each attempt of a task: who made it, when, how it ended and why.
func ExampleWorker_history() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	id, err := q.Enqueue(ctx, dbq.NewTask{})
	if err != nil {
		log.Fatal(err)
	}
	w := worker.Worker{Queue: q, ID: "web-3", History: dbq.HistoryAll, UntilEmpty: true,
		Backoff: func(int) time.Duration { return 0 }, // for this example; the default is a second at first
		Handler: worker.Func(func(_ context.Context, t dbq.Task) error {
			if t.Attempt == 1 {
				return errors.New("cannot connect")
			}
			return nil
		})}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	attempts, err := admin.New(c).Attempts(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range attempts {
		fmt.Printf("attempt %d on %s: %s %s\n", a.Number, a.Worker, a.Outcome, a.Error)
	}
	// Output:
	// attempt 1 on web-3: failed cannot connect
	// attempt 2 on web-3: completed
}

// Workers are in a registry, and an operator gives one of them orders.
func ExampleWorker_registry() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	if _, err := q.Enqueue(ctx, dbq.NewTask{}); err != nil {
		log.Fatal(err)
	}
	handled, ended := make(chan struct{}), make(chan error)
	w := worker.Worker{Queue: q, ID: "web-3",
		Handler: worker.Func(func(context.Context, dbq.Task) error {
			close(handled)
			return nil
		})}
	go func() { ended <- w.Run(ctx) }()

	ops := admin.New(c)
	var workers []admin.WorkerInfo
	for len(workers) == 0 { // it takes a moment to begin
		time.Sleep(time.Millisecond)
		if workers, err = ops.Workers(ctx); err != nil {
			log.Fatal(err)
		}
	}
	for _, i := range workers {
		fmt.Println(i.ID, "on", i.Queue, "is", i.State)
	}
	<-handled
	if err := ops.CommandWorker(ctx, "web-3", dbq.CommandStop); err != nil {
		log.Fatal(err)
	}
	fmt.Println("it ended with", <-ended)
	// Output:
	// web-3 on mail is running
	// it ended with <nil>
}
