package schedule_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/schedule"
)

// A program puts its schedules and fires them until it ends. Any number of processes may do so.
func Example() {
	ctx := context.Background()
	client, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	schedules := schedule.New(client)
	err = schedules.Put(ctx, schedule.Schedule{Name: "tick", Every: time.Second, Queue: "clock"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		tasks, err := client.Queue("clock").Consumer().Checkout(ctx, 1, time.Minute)
		if err == nil {
			fmt.Println("a task of", tasks[0].Headers[schedule.HeaderName])
		}
	}()
	if err := schedules.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: a task of tick
}

// The times of a schedule can be looked at before it is put.
func ExamplePreview() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	nightly := schedule.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}
	times, err := schedule.Preview(nightly, time.Date(2026, 3, 28, 12, 0, 0, 0, berlin), 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range times {
		fmt.Println(t)
	}
	// Output:
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}
