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

type mail struct{ To string }

var sendMail = dbq.Kind[mail]{Name: "send-mail", Queue: "mail"}

func main() {
	ctx := context.Background()
	client, err := dbq.Open(ctx, "sqlite:queue.db", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	if _, err := sendMail.Enqueue(ctx, client, mail{To: "ann@example.com"}); err != nil {
		log.Fatal(err)
	}

	mux := worker.NewMux()
	worker.Handle(mux, sendMail, func(ctx context.Context, t dbq.Task, m mail) error {
		fmt.Printf("sending mail to %s\n", m.To)
		return nil // completed; after an error the task is retried
	})
	w := worker.Worker{Queue: client.Queue("mail"), Handler: mux, UntilEmpty: true}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
