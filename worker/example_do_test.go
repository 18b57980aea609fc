package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

type receipt struct{ Number int }

// A handler does its work in steps. The attempt after a failure has the values of the steps that were done.
func ExampleDo() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("orders")
	if _, err := q.Enqueue(ctx, dbq.NewTask{}); err != nil {
		log.Fatal(err)
	}

	w := worker.Worker{
		Queue: q, UntilEmpty: true,
		Backoff: func(int) time.Duration { return 0 },
		Handler: worker.Func(func(ctx context.Context, t dbq.Task) error {
			paid, err := worker.Do(ctx, "charge", func(context.Context) (receipt, error) {
				fmt.Println("the card is charged")
				return receipt{Number: 17}, nil
			})
			if err != nil {
				return err
			}
			if t.Attempt == 1 {
				return errors.New("the mail server is down")
			}
			fmt.Printf("attempt %d mails receipt %d\n", t.Attempt, paid.Number)
			return nil
		}),
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the card is charged
	// attempt 2 mails receipt 17
}
