package dbq_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// A reference is unique in its queue: an enqueue can be repeated, and the task is there once.
func ExampleNewTask_reference() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("invoices")

	first, err := q.Enqueue(ctx, dbq.NewTask{Reference: "2026-0815"})
	if err != nil {
		log.Fatal(err)
	}
	again, err := q.Enqueue(ctx, dbq.NewTask{Reference: "2026-0815"})
	fmt.Println("there already:", errors.Is(err, dbq.ErrDuplicate))
	fmt.Println("the same task:", again == first)

	// For many at once a duplicate is no error: each outcome says so.
	out, err := q.EnqueueMany(ctx, []dbq.NewTask{{Reference: "2026-0815"}, {Reference: "2026-0816"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range out {
		fmt.Println("duplicate:", o.Duplicate)
	}
	// Output:
	// there already: true
	// the same task: true
	// duplicate: true
	// duplicate: false
}
