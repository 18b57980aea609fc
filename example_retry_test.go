package dbq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A failed task is tried again until its attempts are exhausted; then it is POISON and waits for a person.
func Example_retry() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("webhooks")
	id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("https://example.com"), MaxAttempts: 3})
	if err != nil {
		log.Fatal(err)
	}

	for {
		tasks, err := q.Checkout(ctx, 1, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		if len(tasks) == 0 {
			break // nothing is due any more
		}
		t := tasks[0]
		cause := errors.New("the server says 503")
		// At once, for this example; real retries wait, and longer each time.
		if err := q.Settle(ctx, t.Lease, dbq.RetryIn(0, cause)); err != nil {
			log.Fatal(err)
		}
		now, err := c.Get(ctx, t.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("attempt %d: %s, now %v\n", t.Attempt, now.Result, now.State)
	}

	// Somebody repaired the server: try again, with attempts starting over.
	if err := admin.New(c).Operate(ctx, admin.Reenqueue, id); err != nil {
		log.Fatal(err)
	}
	t, err := c.Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v, attempt %d of %d\n", t.State, t.Attempt, t.MaxAttempts)
	// Output:
	// attempt 1: the server says 503, now ERROR
	// attempt 2: the server says 503, now ERROR
	// attempt 3: the server says 503, now POISON
	// CREATED, attempt 0 of 3
}
