package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
)

type refundOf struct{ Order string }

var payRefund = dbq.Kind[refundOf]{Name: "pay-refund", Queue: "refunds"}

var errNotPending = errors.New("no refund of this order waits for an approval")

// approve records who approved a refund and enqueues its payment. The second approval of a refund changes nothing.
func approve(ctx context.Context, c *dbq.Client, order, by string) error {
	tx, err := c.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	const first = "UPDATE refunds SET approved_by = ? WHERE name = ? AND approved_by IS NULL"
	approved, err := tx.ExecContext(ctx, first, by, order)
	if err != nil {
		return err
	}
	if n, err := approved.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return errNotPending
	}
	if _, err := payRefund.EnqueueTx(ctx, tx, c, refundOf{order}); err != nil {
		return err
	}
	return tx.Commit()
}

var approveRefund = dbq.Kind[refundOf]{Name: "approve-refund", Queue: "refunds"}

// requestRefund enqueues the approval of a refund and, as a second step that needs it, the payment.
func requestRefund(ctx context.Context, c *dbq.Client, r refundOf) error {
	approval := workflow.NewStep("approve", approveRefund, r)
	approval.Task.Reference = r.Order
	_, err := workflow.Enqueue(ctx, c, []workflow.Step{approval, workflow.NewStep("pay", payRefund, r, "approve")})
	return err
}

// awaitApproval approves small refunds. A large one is parked in ERROR until a person approves it.
func awaitApproval(ctx context.Context, _ dbq.Task, r refundOf) error {
	var cents int
	var by sql.NullString
	const read = "SELECT cents, approved_by FROM refunds WHERE name = ?"
	if err := worker.Client(ctx).DB().QueryRowContext(ctx, read, r.Order).Scan(&cents, &by); err != nil {
		return err
	}
	if cents > 10000 && !by.Valid {
		return dbq.Parked(errors.New("waits for an approval"))
	}
	return nil
}

// approveParked records the approval and makes the parked task due again, in one transaction. While the task's attempt
// is still running it returns dbq.ErrWrongState and records nothing: ask the approver to try again.
func approveParked(ctx context.Context, c *dbq.Client, order, by string) error {
	task, err := c.Queue(approveRefund.Queue).Find(ctx, order) // the task's Reference is the order
	if err != nil {
		return err
	}
	tx, err := c.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := admin.New(c).OperateTx(ctx, tx, admin.Reenqueue, task, admin.By(by)); err != nil {
		return err
	}
	const record = "UPDATE refunds SET approved_by = ? WHERE name = ?"
	if _, err := tx.ExecContext(ctx, record, by, order); err != nil {
		return err
	}
	return tx.Commit()
}

const refunds = "CREATE TABLE refunds (name TEXT PRIMARY KEY, cents INTEGER, approved_by TEXT, paid INTEGER DEFAULT 0)"

// pay pays a refund.
func pay(ctx context.Context, tx *sql.Tx, _ dbq.Task, r refundOf) error {
	_, err := tx.ExecContext(ctx, "UPDATE refunds SET paid = 1 WHERE name = ?", r.Order)
	return err
}

// A refund has no task until it is approved.
func Example_approval() {
	ctx := context.Background()
	c := open(ctx, refunds, "INSERT INTO refunds (name, cents) VALUES ('books', 500)")
	defer c.Close()
	mux := worker.NewMux()
	worker.HandleTx(mux, payRefund, pay)

	fmt.Println("ann:", approve(ctx, c, "books", "ann"))
	fmt.Println("bob:", approve(ctx, c, "books", "bob"))
	workOn(ctx, c, payRefund.Queue, mux)
	fmt.Println("paid:", number(ctx, c, "SELECT sum(paid) FROM refunds"))
	// Output:
	// ann: <nil>
	// bob: no refund of this order waits for an approval
	// paid: 1
}

// A task that finds out by itself that it needs an approval is parked until then.
func Example_approvalStep() {
	ctx := context.Background()
	c := open(ctx, refunds, "INSERT INTO refunds (name, cents) VALUES ('piano', 90000), ('books', 500)")
	defer c.Close()
	for _, order := range []string{"piano", "books"} {
		must(requestRefund(ctx, c, refundOf{order}))
	}
	mux := worker.NewMux()
	worker.Handle(mux, approveRefund, awaitApproval)
	worker.HandleTx(mux, payRefund, pay)

	fmt.Println("too early:", errors.Is(approveParked(ctx, c, "piano", "ann"), dbq.ErrWrongState))
	workOn(ctx, c, "refunds", mux)
	fmt.Println("paid:", number(ctx, c, "SELECT sum(paid) FROM refunds"))
	fmt.Println("approved:", approveParked(ctx, c, "piano", "ann"))
	workOn(ctx, c, "refunds", mux)
	fmt.Println("paid:", number(ctx, c, "SELECT sum(paid) FROM refunds"))
	// Output:
	// too early: true
	// paid: 1
	// approved: <nil>
	// paid: 2
}
