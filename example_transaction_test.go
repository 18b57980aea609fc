package dbq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// placeOrder stores an order and enqueues its shipment: both, or neither.
func placeOrder(ctx context.Context, c *dbq.Client, order string, fail error) error {
	tx, err := c.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (name, shipped) VALUES (?, 0)", order); err != nil {
		return err
	}
	if _, err := c.Queue("shipping").EnqueueTx(ctx, tx, dbq.NewTask{Payload: []byte(order)}); err != nil {
		return err
	}
	if fail != nil {
		return fail
	}
	return tx.Commit()
}

// ship marks an order as shipped and completes its task: both, or neither. A worker that was taken over marks nothing.
func ship(ctx context.Context, c *dbq.Client, t dbq.Task) error {
	tx, err := c.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	const count = "UPDATE orders SET shipped = shipped + 1 WHERE name = ?"
	if _, err := tx.ExecContext(ctx, count, string(t.Payload)); err != nil {
		return err
	}
	if err := c.Queue("shipping").CompleteTx(ctx, tx, t.Lease, nil); err != nil {
		return err
	}
	return tx.Commit()
}

// A task is enqueued in the transaction that stores the data that it is about.
func Example_enqueueTx() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DB().ExecContext(ctx, "CREATE TABLE orders (name TEXT, shipped INTEGER)"); err != nil {
		log.Fatal(err)
	}

	fmt.Println("books:", placeOrder(ctx, c, "books", nil))
	fmt.Println("shoes:", placeOrder(ctx, c, "shoes", errors.New("the card was declined")))
	// Output:
	// books: <nil>
	// shoes: the card was declined
}

// A task is completed in the same transaction as the data that it is about.
func Example_transaction() {
	ctx := context.Background()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DB().ExecContext(ctx, "CREATE TABLE orders (name TEXT, shipped INTEGER)"); err != nil {
		log.Fatal(err)
	}

	if err := placeOrder(ctx, c, "books", nil); err != nil {
		log.Fatal(err)
	}
	tasks, err := c.Queue("shipping").Checkout(ctx, 10, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tasks {
		fmt.Printf("ship %s: %v\n", t.Payload, ship(ctx, c, t))
		fmt.Println("and again:", errors.Is(ship(ctx, c, t), dbq.ErrLeaseLost))
	}
	var shipped int
	if err := c.DB().QueryRowContext(ctx, "SELECT sum(shipped) FROM orders").Scan(&shipped); err != nil {
		log.Fatal(err)
	}
	fmt.Println("shipped:", shipped)
	// Output:
	// ship books: <nil>
	// and again: true
	// shipped: 1
}
