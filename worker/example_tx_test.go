package worker_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// The order is marked as shipped in the transaction that completes its task: both happen, or neither, and never twice.
func ExampleHandleTx() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DB().ExecContext(ctx, "CREATE TABLE shipped (name TEXT)"); err != nil {
		log.Fatal(err)
	}
	q := c.Queue("shipping")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("books")}); err != nil {
		log.Fatal(err)
	}

	w := worker.Worker{Queue: q, UntilEmpty: true,
		Handler: worker.HandleTx(func(ctx context.Context, tx *sql.Tx, t dbq.Task) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO shipped (name) VALUES (?)", string(t.Payload))
			return err
		})}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	var name string
	if err := c.DB().QueryRowContext(ctx, "SELECT name FROM shipped").Scan(&name); err != nil {
		log.Fatal(err)
	}
	fmt.Println("shipped:", name)
	// Output: shipped: books
}
