package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
)

// Serve works on the queues of all kinds whose handlers are registered with mux by Handle, HandleResult, HandleTx or
// HandleTxResult, so that no queue is forgotten. It runs a Worker for each queue, in a Group if there are several,
// until ctx ends; then it drains, as Worker.Run does.
//
// Each of configure may change the Group before it runs: its Concurrency, and the fields of its Workers, which are in
// the order of their queues' names.
//
//	err := worker.Serve(ctx, client, mux, func(g *worker.Group) { g.Concurrency = 50 })
//
// It returns ErrConfig if no kind has a Queue.
func Serve(ctx context.Context, c *dbq.Client, mux *Mux, configure ...func(*Group)) error {
	var g Group
	for _, queue := range mux.queues() {
		g.Workers = append(g.Workers, Worker{Queue: c.Queue(queue), Handler: mux})
	}
	if len(g.Workers) == 0 {
		return fmt.Errorf("%w: no kind of the Mux has a Queue; register handlers by worker.Handle, or run a Worker",
			ErrConfig)
	}
	for _, change := range configure {
		change(&g)
	}
	if len(g.Workers) != 1 {
		return g.Run(ctx)
	}
	alone := g.Workers[0] // which leases tasks ahead
	alone.Concurrency = cmp.Or(alone.Concurrency, g.Concurrency)
	return alone.Run(ctx)
}

// queues returns the queues of the kinds, sorted.
func (m *Mux) queues() (names []string) {
	for _, k := range m.kinds {
		if k.queue != "" {
			names = append(names, k.queue)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
