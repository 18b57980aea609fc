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

// Workers clean their queues once a minute. Clean does it now, and may archive tasks instead of removing them.
func ExampleAdmin_Clean() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	workBadly(ctx, c.Queue("mail")) // of 5 tasks, 2 are completed and 2 are in POISON
	time.Sleep(10 * time.Millisecond)

	ops := admin.New(c)
	done, err := ops.
		Clean(ctx, "mail", dbq.Retention{Completed: time.Millisecond, Poison: 30 * 24 * time.Hour, Archive: true})
	if err != nil {
		log.Fatal(err)
	}
	left, err := ops.List(ctx, admin.Filter{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	archived, err := ops.Archived(ctx, admin.Filter{Queue: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d archived, %d left\n", done.Tasks, len(left.Tasks))
	for _, t := range archived.Tasks {
		fmt.Println(t.Reference, t.State)
	}
	// Output:
	// 2 archived, 3 left
	// to-ann COMPLETED
	// to-cat COMPLETED
}
