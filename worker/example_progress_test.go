package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// A handler reports each step that it has done. The attempt after a failure resumes there.
func ExampleSetProgress() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := c.Queue("exports")
	if _, err := q.Enqueue(ctx, dbq.NewTask{}); err != nil {
		log.Fatal(err)
	}

	const pages = 4
	full := true
	w := worker.Worker{
		Queue: q, UntilEmpty: true,
		Backoff: func(int) time.Duration { return 0 },
		Handler: worker.Func(func(ctx context.Context, t dbq.Task) error {
			done, _ := strconv.Atoi(string(worker.Progress(ctx))) // 0 in the first attempt
			fmt.Printf("attempt %d begins after page %d\n", t.Attempt, done)
			for ; done < pages; done++ {
				if done == 2 && full {
					full = false
					return errors.New("the disk is full")
				}
				fmt.Println("page", done+1)
				if err := worker.SetProgress(ctx, []byte(strconv.Itoa(done+1))); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt 1 begins after page 0
	// page 1
	// page 2
	// attempt 2 begins after page 2
	// page 3
	// page 4
}
