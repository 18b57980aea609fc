package recipes

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// queues are the workers of one process. They share ten handlers. While both queues have due tasks, three mails are
// sent for each report, and no more than two reports run at once.
func queues(c *dbq.Client, mail, reports worker.Handler) worker.Group {
	return worker.Group{Concurrency: 10, Workers: []worker.Worker{
		{Queue: c.Queue("mail"), Handler: mail, Weight: 3},
		{Queue: c.Queue("reports"), Handler: reports, Concurrency: 2},
	}}
}

func Example_severalQueues() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	var done [2]atomic.Int32
	handler := func(i int) worker.Handler {
		return worker.Func(func(context.Context, dbq.Task) error { done[i].Add(1); return nil })
	}
	g := queues(c, handler(0), handler(1))
	for i := range g.Workers {
		_, err := c.Queue(g.Workers[i].Queue.Name()).EnqueueMany(ctx, make([]dbq.NewTask, 20))
		must(err)
		g.Workers[i].UntilEmpty = true // for the example; a service runs until its context ends
	}
	must(g.Run(ctx))
	fmt.Println("mails:", done[0].Load(), "reports:", done[1].Load())
	// Output:
	// mails: 20 reports: 20
}
