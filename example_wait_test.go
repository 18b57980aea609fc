package dbq_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// Enqueue a task and wait until somebody has done it.
func ExampleClient_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("shout")

	// The worker would be another process.
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		working, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { <-stop; cancel() }()
		w := worker.Worker{Queue: q, Handler: worker.HandlerFunc(func(_ context.Context, t dbq.Task) dbq.Outcome {
			return dbq.Completed([]byte(strings.ToUpper(string(t.Payload))))
		})}
		stopped <- w.Run(working)
	}()

	id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("hello")})
	if err != nil {
		log.Fatal(err)
	}
	t, err := c.Wait(ctx, id) // COMPLETED, POISON, or parked in ERROR
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", t.State, t.Result)

	close(stop)
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// COMPLETED: HELLO
}

// Handle tasks as they become due without package worker. What it does besides is yours then: extend leases of long
// work, retry with pauses, shut down.
func ExampleQueue_Consumer() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("hello"), Delay: 50 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}

	consumer := q.Consumer()
	defer consumer.Close()
	for handled := 0; handled < 1; { // or until ctx ends
		tasks, err := consumer.Checkout(ctx, 10, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range tasks {
			fmt.Printf("%s\n", t.Payload)
			if err := q.Complete(ctx, t.Lease, nil); err != nil {
				log.Fatal(err)
			}
			handled++
		}
	}
	// Output:
	// hello
}
