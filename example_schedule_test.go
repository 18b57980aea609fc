package dbq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A task for later is handed out when its time has come, by the database's clock. Among those that are due, the lower
// priority number goes first.
func ExampleNewTask_delay() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("reminders")

	_, err = q.EnqueueMany(ctx, []dbq.NewTask{
		{Payload: []byte("soon"), Delay: time.Second},
		{Payload: []byte("next week"), RunAt: time.Now().AddDate(0, 0, 7)},
		{Payload: []byte("now"), Priority: 5},
		{Payload: []byte("now, and first"), Priority: 0},
	})
	if err != nil {
		log.Fatal(err)
	}
	take := func() {
		tasks, err := q.Checkout(ctx, 10, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range tasks {
			fmt.Printf("%s\n", t.Payload)
		}
	}
	take()
	time.Sleep(1100 * time.Millisecond)
	take()
	// Output:
	// now, and first
	// now
	// soon
}
