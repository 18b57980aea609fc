// Command service works on the tasks of a queue until a signal ends it.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	client, err := dbq.Open(ctx, "sqlite:queue.db", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	handler := worker.Func(func(ctx context.Context, t dbq.Task) error {
		fmt.Printf("working on %s\n", t.Payload)
		return nil
	})
	w := worker.Worker{Queue: client.Queue("mail"), Handler: handler}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
