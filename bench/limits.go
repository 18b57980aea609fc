package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq/admin"
)

const (
	limitedBatch = 50
	limitedKeys  = 1000
	uncounted    = -1 // the number of tasks that are not measured
)

// limits measures the drain of queues with limits per key, beside one without limits. Tasks of the hot key are also
// drained, but neither waited for nor counted.
func (s samples) limits(ctx context.Context, o options, on *servers) ([]*entry, error) {
	many := func(i int) string { return fmt.Sprint("customer ", i%limitedKeys) }
	return on.onEach(o, func(g ground) (all []*entry, err error) {
		for _, e := range []struct {
			name   string
			key    func(i int) string
			limits admin.QueueLimits
			hot    int
		}{
			{"no limits", nil, admin.QueueLimits{}, 0},
			{"1,000 leased, no keys", nil, admin.QueueLimits{Concurrency: 1000}, 0},
			{"1,000 keys, no limits", many, admin.QueueLimits{}, 0},
			{"1,000 keys, 2 leased of each", many, admin.QueueLimits{KeyConcurrency: 2}, 0},
			{"1,000 keys, 1 leased of each", many, admin.QueueLimits{KeyConcurrency: 1}, 0},
			{"1,000 keys, 1 leased of each, behind a hot key with half of all tasks", many,
				admin.QueueLimits{KeyConcurrency: 1}, o.n},
		} {
			for _, kind := range []string{"loop", "worker"} {
				tasks := &dbqTasks{place: g.empty, worker: kind == "worker", batch: limitedBatch, key: e.key, limits: e.limits,
					hot: e.hot}
				all = append(all, &entry{contender: tasks, group: g.group, name: "dbq, " + kind + ", " + e.name, role: ours})
			}
		}
		all = o.matching(all)
		return all, inTurns(ctx, "limits, "+g.group, all, o.rounds, func(ctx context.Context, e *entry) error {
			if err := phase(ctx, e.Prepare); err != nil {
				return err
			}
			took, err := enqueueAndDrain(ctx, e, o.n)
			if err == nil {
				s.addRate(e, drain, o.n, took)
			}
			return errors.Join(err, phase(context.WithoutCancel(ctx), e.Close))
		})
	})
}
