package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq/admin"
)

const (
	limitedDrain figure = "drain in batches of 50"

	limitedBatch = 50
	limitedKeys  = 1000
	uncounted    = -1 // the number of tasks that are not measured
)

// limited measures the drain of queues with limits per key, beside one without limits. Tasks of the hot key are also
// drained, but neither waited for nor counted.
func limited(ctx context.Context, o options, s *servers) ([]result, error) {
	taken := samples{}
	var entries []*entry
	for _, g := range s.grounds() {
		many := func(i int) string { return fmt.Sprint("customer ", i%limitedKeys) }
		var all []*entry
		for _, e := range []struct {
			name   string
			key    func(i int) string
			limits admin.QueueLimits
			hot    int
		}{
			{"no limits", nil, admin.QueueLimits{}, 0},
			{"1,000 leased, no keys", nil, admin.QueueLimits{Leased: 1000}, 0},
			{"1,000 keys, no limits", many, admin.QueueLimits{}, 0},
			{"1,000 keys, 2 leased of each", many, admin.QueueLimits{KeyLeased: 2}, 0},
			{"1,000 keys, 1 leased of each", many, admin.QueueLimits{KeyLeased: 1}, 0},
			{"1,000 keys, 1 leased of each, behind a hot key with half of all tasks", many,
				admin.QueueLimits{KeyLeased: 1}, o.n},
		} {
			for _, worker := range []bool{false, true} {
				tasks := &dbqTasks{place: g.empty, worker: worker, batch: limitedBatch, key: e.key, limits: e.limits, hot: e.hot}
				name := "dbq, loop, " + e.name
				if worker {
					name = "dbq, worker, " + e.name
				}
				if o.only.MatchString(g.group + ": " + name) {
					all = append(all, &entry{contender: tasks, group: g.group, name: name, role: ours})
				}
			}
		}
		err := inTurns(ctx, "limits, "+g.group, all, o.rounds, func(ctx context.Context, e *entry) error {
			if err := phase(ctx, e.Prepare); err != nil {
				return err
			}
			took, err := enqueueAndDrain(ctx, e, o.n)
			if err == nil {
				taken.addRate(e, limitedDrain, o.n, took)
			}
			return errors.Join(err, phase(context.WithoutCancel(ctx), e.Close))
		})
		if err != nil {
			return nil, err
		}
		entries = append(entries, all...)
	}
	return perFirst(results(entries, taken)), nil
}
