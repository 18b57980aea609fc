package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/spf13/pflag"
)

// addCreate adds the flag for a queue that nobody has used yet.
func addCreate(f *pflag.FlagSet, create *bool) {
	f.BoolVar(create, "create", false, "allow a queue that has no tasks, workers or settings yet")
}

// mustBeKnown refuses a queue that has no task, no worker and no setting: its name is probably mistyped.
func mustBeKnown(ctx context.Context, c *dbq.Client, queue string, create bool) error {
	if create {
		return nil
	}
	queues, err := c.Queues(ctx)
	if err != nil || slices.ContainsFunc(queues, func(q dbq.QueueInfo) bool { return q.Queue == queue }) {
		return err
	}
	workers, err := c.Workers(ctx)
	if err != nil || slices.ContainsFunc(workers, func(w dbq.WorkerInfo) bool { return w.Queue == queue }) {
		return err
	}
	tasks, err := c.List(ctx, dbq.Filter{Queue: queue, Limit: 1})
	if err != nil || len(tasks) > 0 {
		return err
	}
	return &exitError{exitNotFound, fmt.Errorf("there is no queue %q yet: it has no tasks, workers or settings (`dbq stats` lists queues; "+
		"pause and set take --create)", queue)}
}

// pauseOf returns how a queue is paused, nil when it is not.
func pauseOf(ctx context.Context, c *dbq.Client, queue string) (*dbq.QueueInfo, error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if q.Queue == queue && q.Paused {
			return &q, nil
		}
	}
	return nil, nil
}

// pausedText says that a queue is paused, and why.
func pausedText(q *dbq.QueueInfo) string {
	text := fmt.Sprintf("queue %q is paused", q.Queue)
	if q.Reason != "" {
		text += fmt.Sprintf(" (%s)", q.Reason)
	}
	return text
}
