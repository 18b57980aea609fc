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

// A revoked task is parked, and keeps who revoked it and why. Its history has the attempt that was ended.
func ExampleAdmin_Operate() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("mail")
	id, err := q.Enqueue(ctx, dbq.NewTask{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.Checkout(ctx, 1, time.Hour); err != nil { // by a worker that is stuck
		log.Fatal(err)
	}

	ops := admin.New(c)
	if err := ops.Operate(ctx, admin.Revoke, id, admin.By("ann"), admin.Reason("wrong list")); err != nil {
		log.Fatal(err)
	}
	task, err := c.Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	attempts, err := ops.Attempts(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", task.State, task.Result)
	fmt.Printf("attempt %d was %s\n", attempts[0].Number, attempts[0].Outcome)

	err = ops.Operate(ctx, admin.Revoke, id)
	fmt.Println("again:", errors.Is(err, dbq.ErrWrongState))
	// Output:
	// ERROR: revoked by ann: wrong list
	// attempt 1 was revoked
	// again: true
}
