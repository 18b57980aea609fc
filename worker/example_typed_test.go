package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

type invoice struct {
	Customer string
	Cents    int
}

var sendInvoice = dbq.Kind[invoice]{Name: "send-invoice", Queue: "billing"}

// Tasks of a kind carry values of one Go type. A Mux hands each kind to its handler.
func Example_typed() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := sendInvoice.Enqueue(ctx, c, invoice{"Ann", 1200}); err != nil {
		log.Fatal(err)
	}
	q := c.Queue(sendInvoice.Queue)
	broken, err := q.Enqueue(ctx, dbq.NewTask{Kind: "send-invoice", Payload: []byte(`{"Cents": "many"}`)})
	if err != nil {
		log.Fatal(err)
	}

	mux := worker.NewMux()
	worker.Handle(mux, sendInvoice, func(_ context.Context, _ dbq.Task, i invoice) error {
		fmt.Printf("invoice to %s over %d cents\n", i.Customer, i.Cents)
		return nil
	})
	mux.SetPolicy(sendInvoice.Name, worker.Policy{MaxAttempts: 5})
	w := worker.Worker{Queue: q, Handler: mux, UntilEmpty: true}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}

	t, err := c.Get(ctx, broken)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the broken one:", t.State, "parked:", t.Parked())
	// Output:
	// invoice to Ann over 1200 cents
	// the broken one: ERROR parked: true
}

// A BatchHandler gets several tasks in one call, and returns the outcome of each.
func ExampleBatchHandler() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("rows")
	if _, err := q.EnqueueMany(ctx, []dbq.NewTask{{Payload: []byte("1")}, {Payload: []byte("2")},
		{Payload: []byte("x")}}); err != nil {
		log.Fatal(err)
	}
	w := worker.Worker{Queue: q, Concurrency: 1, BatchSize: 3, UntilEmpty: true,
		BatchHandler: worker.BatchFunc(func(_ context.Context, ts []dbq.Task) []dbq.Outcome {
			out := make([]dbq.Outcome, len(ts)) // completed, unless it says otherwise
			for i, t := range ts {
				if string(t.Payload) == "x" {
					out[i] = dbq.Poisoned(errors.New("not a number"))
				}
			}
			return out
		})}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	stats, err := admin.New(c).Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats[0].Count[dbq.StateCompleted], "completed,", stats[0].Count[dbq.StatePoison], "poison")
	// Output: 2 completed, 1 poison
}

// Middleware is done around every attempt.
func ExampleMiddleware() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("hello")}); err != nil {
		log.Fatal(err)
	}
	announce := func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
			fmt.Println("attempt", t.Attempt)
			return next.HandleTask(ctx, t)
		})
	}
	w := worker.Worker{Queue: q, Middleware: []worker.Middleware{announce}, UntilEmpty: true,
		Handler: worker.Func(func(_ context.Context, t dbq.Task) error {
			fmt.Printf("%s\n", t.Payload)
			return nil
		})}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt 1
	// hello
}
