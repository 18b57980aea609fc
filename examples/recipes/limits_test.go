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
	return admin.New(c).DeclareLimits(ctx, "partner-api", admin.QueueLimits{
		Rate: admin.Rate{Starts: 10, Per: time.Second, Burst: 5}, Concurrency: 5,
	})
}

// serializeCustomers runs the events of each customer one after the other. One that goes to POISON blocks those behind
// it until an operator reenqueues, cancels or removes it.
func serializeCustomers(ctx context.Context, c *dbq.Client) error {
	return admin.New(c).DeclareLimits(ctx, "events", admin.QueueLimits{Order: admin.OrderBlock})
}

// addEvent enqueues an event of a customer.
func addEvent(ctx context.Context, c *dbq.Client, customer, kind string) error {
	_, err := c.Queue("events").Enqueue(ctx, dbq.NewTask{Kind: kind, Key: customer})
	return err
}

func Example_rateLimitedAPI() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	must(limitAPI(ctx, c))
	const calls, atOnce, interval = 12, 5, time.Second / 10
	_, err := c.Queue("partner-api").EnqueueMany(ctx, make([]dbq.NewTask, calls))
	must(err)
	begin := time.Now()
	var mu sync.Mutex
	var last time.Duration
	workOn(ctx, c, "partner-api", worker.Func(func(context.Context, dbq.Task) error {
		mu.Lock()
		defer mu.Unlock()
		last = max(last, time.Since(begin))
		return nil
	}))
	const least = (calls - atOnce) * interval
	fmt.Printf("the last of %d calls began after at least %v: %v\n", calls, least, last >= least)
	// Output:
	// the last of 12 calls began after at least 700ms: true
}

func Example_oneAtATimePerCustomer() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	must(serializeCustomers(ctx, c))
	took := map[string]time.Duration{}
	for i := range 3 {
		for _, customer := range []string{"Ann", "Bob"} {
			kind := fmt.Sprint(customer, " ", i)
			took[kind] = time.Duration(2-i) * 100 * time.Millisecond // at the same time, the first one would end last
			must(addEvent(ctx, c, customer, kind))
		}
	}
	var mu sync.Mutex
	done := map[string][]string{}
	w := worker.Worker{
		Queue: c.Queue("events"), Concurrency: len(took), UntilEmpty: true, // for the example
		Handler: worker.Func(func(_ context.Context, t dbq.Task) error {
			time.Sleep(took[t.Kind])
			mu.Lock()
			defer mu.Unlock()
			done[t.Key] = append(done[t.Key], t.Kind)
			return nil
		}),
	}
	must(w.Run(ctx))
	fmt.Println(done["Ann"], done["Bob"])
	// Output:
	// [Ann 0 Ann 1 Ann 2] [Bob 0 Bob 1 Bob 2]
}
