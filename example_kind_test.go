package dbq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

type reminder struct{ To, Text string }

var remind = dbq.Kind[reminder]{Name: "remind", Queue: "reminders",
	Defaults: func(t *dbq.NewTask) { t.Priority, t.MaxAttempts = 5, 3 }}

// A Kind enqueues values of one Go type to its queue. Defaults sets the other fields of the task, and options set those
// of one call.
func ExampleKind() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = remind.Enqueue(ctx, c, reminder{"Ann", "renew the license"}, func(t *dbq.NewTask) {
		t.Delay, t.Reference = 7*24*time.Hour, "license-2026"
	})
	if err != nil {
		log.Fatal(err)
	}
	urgent := func(t *dbq.NewTask) { t.Priority = 0 }
	_, err = remind.EnqueueMany(ctx, c, []reminder{{"Ben", "call Ann"}, {"Cid", "call Ben"}}, urgent)
	if err != nil {
		log.Fatal(err)
	}

	tasks, err := c.Queue(remind.Queue).Checkout(ctx, 10, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tasks {
		r, err := remind.Decode(t)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, at most %d attempts\n", r.To, r.Text, t.MaxAttempts)
	}
	// Output:
	// Ben: call Ann, at most 3 attempts
	// Cid: call Ben, at most 3 attempts
}
