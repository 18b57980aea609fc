package worker_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// A strict group starts tasks of the second queue only while the first one has none.
func ExampleGroup() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, queue := range []string{"reports", "mail"} {
		if _, err := c.Queue(queue).EnqueueMany(ctx, make([]dbq.NewTask, 2)); err != nil {
			log.Fatal(err)
		}
	}
	handler := worker.Func(func(_ context.Context, t dbq.Task) error {
		fmt.Println(t.Queue)
		return nil
	})
	g := worker.Group{Concurrency: 1, Strict: true, Workers: []worker.Worker{
		{Queue: c.Queue("mail"), Handler: handler, UntilEmpty: true},
		{Queue: c.Queue("reports"), Handler: handler, UntilEmpty: true},
	}}
	if err := g.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// mail
	// mail
	// reports
	// reports
}
