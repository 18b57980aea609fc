// Command quickstart puts a task on a queue in a SQLite file and works on it.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

func main() {
	ctx := context.Background()
	client, err := dbq.Open(ctx, "sqlite:queue.db", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	mail := client.Queue("mail")
	if _, err := mail.Enqueue(ctx, dbq.NewTask{Payload: []byte("ann@example.com")}); err != nil {
		log.Fatal(err)
	}

	send := func(ctx context.Context, t dbq.Task) error {
		fmt.Printf("sending mail to %s\n", t.Payload)
		return nil // completed; after an error the task is retried
	}
	w := worker.Worker{Queue: mail, Handler: worker.Func(send), UntilEmpty: true}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
