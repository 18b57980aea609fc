package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
)

type (
	sale   struct{ Order, Card, Goods string }
	charge struct{ ID string }
	parcel struct{ Number string }
)

var (
	chargeCard   = dbq.Kind[sale]{Name: "charge-card", Queue: "orders"}
	reserveGoods = dbq.Kind[sale]{Name: "reserve-goods", Queue: "orders"}
	shipGoods    = dbq.Kind[sale]{Name: "ship-goods", Queue: "orders"}
	mailParcel   = dbq.Kind[sale]{Name: "mail-parcel", Queue: "orders"}
	refundCharge = dbq.Kind[sale]{Name: "refund-charge", Queue: "orders"}
)

// fulfill enqueues the tasks of a sale. For an order that has them already, it does nothing.
func fulfill(ctx context.Context, c *dbq.Client, s sale) error {
	pay := workflow.NewStep("charge", chargeCard, s)
	pay.Task.Reference = s.Order
	refund := workflow.NewStep("refund", refundCharge, s, "charge", "ship")
	refund.OnFailure = workflow.IgnoreFailure // it runs in any case, after both have ended
	_, err := workflow.Enqueue(ctx, c, []workflow.Step{
		pay,
		workflow.NewStep("reserve", reserveGoods, s, "charge"),
		workflow.NewStep("ship", shipGoods, s, "reserve"),
		workflow.NewStep("mail", mailParcel, s, "ship"),
		refund,
	})
	if errors.Is(err, dbq.ErrDuplicate) {
		return nil
	}
	return err
}

// mail tells the customer the number of the parcel.
func mail(send func(s sale, text string) error) func(ctx context.Context, t dbq.Task, s sale) error {
	return func(ctx context.Context, t dbq.Task, s sale) error {
		p, err := workflow.Result[parcel](ctx, worker.Client(ctx), t.ID, "ship")
		if err != nil {
			return err
		}
		return send(s, "your parcel is "+p.Number)
	}
}

// refund pays back what was charged, unless the goods were shipped.
func refund(payBack func(charge) error) func(ctx context.Context, t dbq.Task, s sale) error {
	return func(ctx context.Context, t dbq.Task, _ sale) error {
		c := worker.Client(ctx)
		_, notShipped := workflow.Result[parcel](ctx, c, t.ID, "ship")
		if !errors.Is(notShipped, workflow.ErrNoResult) {
			return notShipped // nil if they were shipped
		}
		paid, err := workflow.Result[charge](ctx, c, t.ID, "charge")
		if errors.Is(err, workflow.ErrNoResult) {
			return nil // nothing was charged
		}
		if err != nil {
			return err
		}
		return payBack(paid)
	}
}

func Example_orderFulfillment() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	for _, s := range []sale{{"A-1", "visa", "lamp"}, {"A-2", "visa", "unicorn"}, {"A-1", "visa", "lamp"}} {
		must(fulfill(ctx, c, s))
	}

	mux := worker.NewMux()
	worker.HandleResult(mux, chargeCard, func(_ context.Context, _ dbq.Task, s sale) (charge, error) {
		return charge{"charge of " + s.Order}, nil
	})
	worker.Handle(mux, reserveGoods, func(_ context.Context, _ dbq.Task, s sale) error {
		if s.Goods == "unicorn" {
			return dbq.Poisoned(errors.New("out of stock"))
		}
		return nil
	})
	worker.HandleResult(mux, shipGoods, func(_ context.Context, _ dbq.Task, s sale) (parcel, error) {
		return parcel{"parcel of " + s.Order}, nil
	})
	worker.Handle(mux, mailParcel, mail(func(s sale, text string) error {
		fmt.Println(s.Order, "mail:", text)
		return nil
	}))
	worker.Handle(mux, refundCharge, refund(func(p charge) error {
		fmt.Println("refund:", p.ID)
		return nil
	}))
	workOn(ctx, c, "orders", mux)
	// Unordered output:
	// A-1 mail: your parcel is parcel of A-1
	// refund: charge of A-2
}
