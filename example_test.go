package dbq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// Enqueue a task, and work on it by hand. Package worker does the second part for you.
func Example() {
	ctx := context.Background()
	// A queue that lasts is in a file, "sqlite:queue.db", or on a server, "postgres://app@db.example/app".
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	q := c.Queue("mail")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("hello")}); err != nil {
		log.Fatal(err)
	}

	// Up to 10 tasks are ours for a minute. Who dies in that minute loses them to the next checkout.
	tasks, err := q.Checkout(ctx, 10, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tasks {
		fmt.Printf("attempt %d of %d: %s\n", t.Attempt, t.MaxAttempts, t.Payload)
		if err := q.Complete(ctx, t.Lease, []byte("sent")); err != nil {
			log.Fatal(err) // ErrLeaseLost: somebody else has the task now
		}
	}
	// Output:
	// attempt 1 of 20: hello
}
