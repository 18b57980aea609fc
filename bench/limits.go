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
	hotShare     = 100 // one of so many tasks has the hot key
)

// limited measures the drain of queues with limits per key, beside one without limits.
func limited(ctx context.Context, o options, s *servers) ([]result, error) {
	taken := samples{}
	var entries []*entry
	for _, g := range s.grounds() {
		if !o.only.MatchString(g.group + ": dbq") {
			continue
		}
		many := func(i int) string { return fmt.Sprint("customer ", i%limitedKeys) }
		hot := func(i int) string {
			if i%hotShare == 0 {
				return "hot"
			}
			return many(i)
		}
		var all []*entry
		for _, e := range []struct {
			name   string
			key    func(i int) string
			limits admin.QueueLimits
		}{
			{"no limits", nil, admin.QueueLimits{}},
			{"1,000 keys, no limits", many, admin.QueueLimits{}},
			{"1,000 keys, 2 leased of each", many, admin.QueueLimits{KeyLeased: 2}},
			{"a hot key among them, 1 leased of each", hot, admin.QueueLimits{KeyLeased: 1}},
		} {
			tasks := &dbqTasks{place: g.empty, batch: limitedBatch, key: e.key, limits: e.limits}
			all = append(all, &entry{contender: tasks, group: g.group, name: "dbq, loop, " + e.name, role: ours})
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
