package admin_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A pause applies to all workers of the queue, whichever client they use. New tasks wait until the queue is resumed.
func ExampleAdmin_PauseQueue() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	mail, ops := c.Queue("mail"), admin.New(c)
	checkout := func() {
		tasks, err := mail.Checkout(ctx, 10, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("tasks handed out:", len(tasks))
	}

	if err := ops.PauseQueue(ctx, "mail", admin.Reason("the mail server is down")); err != nil {
		log.Fatal(err)
	}
	if _, err := mail.Enqueue(ctx, dbq.NewTask{}); err != nil {
		log.Fatal(err)
	}
	checkout()
	queues, err := ops.Queues(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range queues {
		fmt.Printf("%s is paused: %s\n", q.Queue, q.Reason)
	}
	if err := ops.ResumeQueue(ctx, "mail"); err != nil {
		log.Fatal(err)
	}
	checkout()
	// Output:
	// tasks handed out: 0
	// mail is paused: the mail server is down
	// tasks handed out: 1
}

// Settings apply to all workers of a queue, while they run. ConfigureQueue changes the fields that the function
// changes, and leaves the others as they are.
func ExampleAdmin_ConfigureQueue() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ops := admin.New(c)
	for _, change := range []func(*admin.QueueSettings){
		func(s *admin.QueueSettings) { s.Concurrency, s.Lease = 20, 2*time.Minute },
		func(s *admin.QueueSettings) { s.Retention.Completed = 24 * time.Hour },
		func(s *admin.QueueSettings) { s.Lease = 0 }, // each worker uses its own again
	} {
		if err := ops.ConfigureQueue(ctx, "mail", change); err != nil {
			log.Fatal(err)
		}
	}
	err = ops.ConfigureQueue(ctx, "mail", func(s *admin.QueueSettings) { s.Lease = 48 * time.Hour })
	fmt.Println("refused:", err != nil)
	s, err := ops.QueueSettings(ctx, "mail")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("concurrency", s.Concurrency, "lease", s.Lease, "completed tasks are kept for", s.Retention.Completed)
	// Output:
	// refused: true
	// concurrency 20 lease 0s completed tasks are kept for 24h0m0s
}
