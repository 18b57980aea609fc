package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

type payment struct {
	Account string
	Cents   int
}

var credit = dbq.Kind[payment]{Name: "credit", Queue: "payments"}

// requestCredit enqueues a payment once, however often the request for it is repeated.
func requestCredit(ctx context.Context, c *dbq.Client, request string, p payment) error {
	_, err := credit.Enqueue(ctx, c, p, func(t *dbq.NewTask) { t.Reference = request })
	if errors.Is(err, dbq.ErrDuplicate) {
		return nil // an earlier request has enqueued it
	}
	return err
}

// creditHere changes an account in the queue's database, in the transaction that completes the task.
func creditHere(ctx context.Context, tx *sql.Tx, _ dbq.Task, p payment) error {
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents + ? WHERE name = ?", p.Cents, p.Account)
	return err
}

// creditElsewhere changes an account in another database. The table done has the ids of the tasks whose effect that
// database has; its primary key keeps a later or a concurrent attempt from repeating the effect.
func creditElsewhere(bank *sql.DB) func(ctx context.Context, t dbq.Task, p payment) error {
	return func(ctx context.Context, t dbq.Task, p payment) error {
		tx, err := bank.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		const once = "INSERT INTO done (task) VALUES (?) ON CONFLICT DO NOTHING" // MySQL: INSERT IGNORE
		first, err := tx.ExecContext(ctx, once, t.ID.String())
		if err != nil {
			return err
		}
		if n, err := first.RowsAffected(); err != nil || n == 0 {
			return err // an earlier attempt has committed
		}
		const change = "UPDATE accounts SET cents = cents + ? WHERE name = ?"
		if _, err := tx.ExecContext(ctx, change, p.Cents, p.Account); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// The request is repeated, and so is the attempt: its worker fails after the effect is committed.
func Example_exactlyOnce() {
	ctx := context.Background()
	const accounts = "CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER)"
	const ann = "INSERT INTO accounts VALUES ('ann', 0)"
	c := open(ctx, accounts, ann)
	defer c.Close()
	bank := open(ctx, accounts, ann, "CREATE TABLE done (task TEXT PRIMARY KEY)")
	defer bank.Close()

	for range 2 {
		must(requestCredit(ctx, c, "request 1", payment{"ann", 500}))
		must(requestCredit(ctx, c, "request 2", payment{"ann", 500}))
	}
	mux := worker.NewMux()
	var attempts atomic.Int32 // a worker handles several tasks at once
	elsewhere := creditElsewhere(bank.DB())
	worker.Handle(mux, credit, func(ctx context.Context, t dbq.Task, p payment) error {
		err := elsewhere(ctx, t, p)
		if attempts.Add(1); t.Attempt == 1 && err == nil {
			return dbq.RetryIn(time.Millisecond, errors.New("the worker failed after the effect"))
		}
		return err
	})
	for number(ctx, c, "SELECT count(*) FROM dbq_task WHERE state <> 2") > 0 {
		work(ctx, c, credit.Queue, mux)
	}
	fmt.Println("attempts:", attempts.Load(), "cents:", number(ctx, bank, "SELECT cents FROM accounts"))

	must(requestCredit(ctx, c, "request 3", payment{"ann", 500}))
	mux = worker.NewMux()
	worker.HandleTx(mux, credit, creditHere)
	work(ctx, c, credit.Queue, mux)
	fmt.Println("cents:", number(ctx, c, "SELECT cents FROM accounts"))
	// Output:
	// attempts: 4 cents: 1000
	// cents: 500
}
