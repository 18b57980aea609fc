package recipes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
)

// limitAPI allows ten calls of the partner's API in a second, up to five of them at once, by all workers together.
func limitAPI(ctx context.Context, c *dbq.Client) error {
	return admin.New(c).ConfigureLimits(ctx, "partner-api", func(l *admin.QueueLimits) {
		l.Rate = admin.Rate{Starts: 10, Per: time.Second, Burst: 5}
		l.Leased = 5
	})
}

// serializeCustomers runs the events of each customer one after the other. One that goes to POISON blocks those behind
// it until an operator reenqueues, cancels or removes it.
func serializeCustomers(ctx context.Context, c *dbq.Client) error {
	return admin.New(c).ConfigureLimits(ctx, "events", func(l *admin.QueueLimits) { l.Order = admin.OrderBlock })
}

// addEvent enqueues an event of a customer.
func addEvent(ctx context.Context, c *dbq.Client, customer, kind string) error {
	_, err := c.Queue("events").Enqueue(ctx, dbq.NewTask{Kind: kind, Key: customer})
	return err
}

func Example_oneAtATimePerCustomer() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	must(limitAPI(ctx, c))
	must(serializeCustomers(ctx, c))
	for i := range 3 {
		must(addEvent(ctx, c, "Ann", fmt.Sprint("ann ", i)))
		must(addEvent(ctx, c, "Bob", fmt.Sprint("bob ", i)))
	}
	var mu sync.Mutex
	done := map[string][]string{}
	w := worker.Worker{
		Queue: c.Queue("events"), UntilEmpty: true, // for the example; a service runs until its context ends
		Handler: worker.Func(func(_ context.Context, t dbq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			done[t.Key] = append(done[t.Key], t.Kind)
			return nil
		}),
	}
	must(w.Run(ctx))
	fmt.Println(done["Ann"], done["Bob"])
	// Output:
	// [ann 0 ann 1 ann 2] [bob 0 bob 1 bob 2]
}
