package dbq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A pause holds for all workers at once, whatever client they have. Nothing is lost meanwhile.
func ExampleQueue_Pause() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	if err := q.Pause(ctx, "the mail server is down"); err != nil {
		log.Fatal(err)
	}
	if _, err := q.Enqueue(ctx, dbq.NewTask{}); err != nil { // new tasks are taken in
		log.Fatal(err)
	}
	take := func() {
		tasks, err := q.Checkout(ctx, 10, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("tasks handed out:", len(tasks))
	}
	take()
	queues, err := c.Queues(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range queues {
		fmt.Printf("%s is paused: %s\n", i.Queue, i.Reason)
	}
	if err := q.Resume(ctx); err != nil {
		log.Fatal(err)
	}
	take()
	// Output:
	// tasks handed out: 0
	// mail is paused: the mail server is down
	// tasks handed out: 1
}

// Settings are for all workers of a queue, while they run. Configure changes what the function changes, and leaves the rest as others
// have set it.
func ExampleQueue_Configure() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	for _, change := range []func(*dbq.QueueSettings){
		func(s *dbq.QueueSettings) { s.Concurrency, s.Lease = 20, 2*time.Minute },
		func(s *dbq.QueueSettings) { s.Retention.Completed = 24 * time.Hour },
		func(s *dbq.QueueSettings) { s.Lease = 0 }, // each worker's own again
	} {
		if err := q.Configure(ctx, change); err != nil {
			log.Fatal(err)
		}
	}
	err = q.Configure(ctx, func(s *dbq.QueueSettings) { s.Lease = 48 * time.Hour })
	fmt.Println("refused:", err != nil)
	s, err := q.Settings(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("concurrency", s.Concurrency, "lease", s.Lease, "completed tasks are kept for", s.Retention.Completed)
	// Output:
	// refused: true
	// concurrency 20 lease 0s completed tasks are kept for 24h0m0s
}

// What has ended is kept for ever, unless a queue's Retention says otherwise. Then its workers call Clean, as here, again and again.
func ExampleQueue_Clean() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	workBadly(ctx, q) // see the operator's example: of 5 tasks 2 are completed and 2 are poison
	time.Sleep(10 * time.Millisecond)

	done, err := q.Clean(ctx, dbq.Retention{Completed: time.Millisecond, Poison: 30 * 24 * time.Hour, Archive: true})
	if err != nil {
		log.Fatal(err)
	}
	left, err := c.List(ctx, dbq.Filter{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	archived, err := c.Archived(ctx, dbq.Filter{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d archived, %d left\n", done.Tasks, len(left))
	for _, t := range archived {
		fmt.Println(t.Reference, t.State)
	}
	// Output:
	// 2 archived, 3 left
	// to-ann COMPLETED
	// to-cat COMPLETED
}
