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

type shipment struct{ Item string }

var ship = dbq.Kind[shipment]{Name: "ship", Queue: "shipping"}

// The item is marked as shipped in the transaction that completes its task: both happen, or neither, and never twice.
func Example_transaction() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DB().ExecContext(ctx, "CREATE TABLE shipped (name TEXT)"); err != nil {
		log.Fatal(err)
	}
	if _, err := ship.Enqueue(ctx, c, shipment{"books"}); err != nil {
		log.Fatal(err)
	}

	mux := worker.NewMux()
	worker.HandleTx(mux, ship, func(ctx context.Context, tx *sql.Tx, _ dbq.Task, s shipment) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO shipped (name) VALUES (?)", s.Item)
		return err
	})
	w := worker.Worker{Queue: c.Queue(ship.Queue), Handler: mux, UntilEmpty: true}
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
