package admin_test

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

// Count the tasks, list those that failed, let them run again, and remove those that are completed.
func Example() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	workBadly(ctx, c.Queue("mail"))

	ops := admin.New(c)
	stats, err := ops.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range stats {
		fmt.Printf("%s: %d created, %d completed, %d poison\n", s.Queue,
			s.Count[dbq.StateCreated], s.Count[dbq.StateCompleted], s.Count[dbq.StatePoison])
	}

	poison := admin.Filter{Queue: "mail", States: []dbq.State{dbq.StatePoison}}
	page, err := ops.List(ctx, poison) // up to 100 tasks; Filter.From(page.Next) continues
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range page.Tasks {
		fmt.Printf("%s: %s\n", t.Reference, t.Result)
	}

	poison.Limit = 1000 // a call that changes tasks needs a limit
	done, err := ops.OperateMany(ctx, admin.Reenqueue, poison)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reenqueued:", done.Changed)

	done, err = ops.
		OperateMany(ctx, admin.Purge, admin.Filter{Queue: "mail", States: []dbq.State{dbq.StateCompleted}, Limit: 1000})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("purged:", done.Changed)
	// Output:
	// mail: 1 created, 2 completed, 2 poison
	// to-bob: no such address
	// to-dan: no such address
	// reenqueued: 2
	// purged: 2
}

// workBadly checks out 4 of 5 tasks, and poisons every other one.
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
			err = q.Settle(ctx, t.Lease, dbq.Poisoned(errors.New("no such address")))
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
