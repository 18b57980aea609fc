package dbq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// What an operator does: look, count, put failed tasks back, and clear away what is done.
func Example_operator() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	workBadly(ctx, c.Queue("mail"))

	stats, err := c.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range stats {
		fmt.Printf("%s: %d created, %d completed, %d poison\n", s.Queue,
			s.Count[dbq.StateCreated], s.Count[dbq.StateCompleted], s.Count[dbq.StatePoison])
	}

	poison := dbq.Filter{Queue: "mail", States: []dbq.State{dbq.StatePoison}}
	tasks, err := c.List(ctx, poison) // a page of up to 100; Filter.After continues
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tasks {
		fmt.Printf("%s: %s\n", t.Reference, t.Result)
	}

	poison.Limit = 1000 // a call that changes many tasks wants to know how many at most
	n, err := c.ReenqueueMany(ctx, poison)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("put back:", n)

	n, err = c.PurgeMany(ctx, dbq.Filter{Queue: "mail", States: []dbq.State{dbq.StateCompleted}, Limit: 1000})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("cleared away:", n)
	// Output:
	// mail: 1 created, 2 completed, 2 poison
	// to-bob: no such address
	// to-dan: no such address
	// put back: 2
	// cleared away: 2
}

// workBadly takes 4 of 5 tasks and fails every other one for good.
func workBadly(ctx context.Context, q *dbq.Queue) {
	for _, name := range []string{"ann", "bob", "cat", "dan", "eve"} {
		if _, err := q.Enqueue(ctx, dbq.NewTask{Reference: "to-" + name}); err != nil {
			log.Fatal(err)
		}
	}
	tasks, err := q.Checkout(ctx, 4, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for i, t := range tasks {
		if i%2 == 0 {
			err = q.Complete(ctx, t.Lease, nil)
		} else {
			err = q.Poison(ctx, t.Lease, errors.New("no such address"))
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
