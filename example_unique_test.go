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

// While a task with the same key waits, an enqueue adds nothing, or changes that task.
func ExampleUnique() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("index")

	task := dbq.NewTask{Payload: []byte("first"), Delay: time.Hour, Unique: &dbq.Unique{Key: "book-42"}}
	first, err := q.Enqueue(ctx, task)
	if err != nil {
		log.Fatal(err)
	}
	again, err := q.Enqueue(ctx, task)
	fmt.Println("duplicate:", errors.Is(err, dbq.ErrDuplicate), again == first)

	task.Payload, task.Delay = []byte("second"), 0
	task.Unique = &dbq.Unique{Key: "book-42", OnConflict: dbq.UniqueReplace}
	out, err := q.EnqueueMany(ctx, []dbq.NewTask{task})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("replaced:", out[0].Replaced, out[0].ID == first)

	due, err := q.Checkout(ctx, 10, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d task, %s\n", len(due), due[0].Payload)

	// The task runs now: its key is free.
	next, err := q.Enqueue(ctx, task)
	fmt.Println("another:", err == nil && next != first)
	// Output:
	// duplicate: true true
	// replaced: true true
	// 1 task, second
	// another: true
}
