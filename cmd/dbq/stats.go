package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
)

func newStats(a *app) *cobra.Command {
	var queue string
	var exact bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count the tasks of each queue by state",
		Long: `Count the tasks of each queue by state. DUE tasks can be taken now. PARKED tasks stay in ERROR until an operator acts. LAG is how long the
oldest due task has been due.

It counts up to 10,000 tasks of each queue and state, and shows 10000+ where there may be more; --exact counts all of them, which reads the
whole table. Completed tasks are counted among the newest 10,000 of all queues where no index has them (PostgreSQL, SQLite, Oracle).

With --json each queue is a line; oldest_due_seconds is the lag, and at_least names the states that may have more tasks.`,
		Example: `  dbq stats
  dbq stats --exact
  dbq stats --watch=5s
  dbq stats --json | jq 'select(.due > 1000) | .queue'`,
		Args: noArgs("use --queue NAME"),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			var opts []dbq.StatsOption
			if exact {
				opts = append(opts, dbq.CountAll())
			}
			return a.watch(ctx, every, func() error {
				stats, err := c.Stats(ctx, opts...)
				if err != nil {
					return err
				}
				return a.printStats(slices.DeleteFunc(stats, func(s dbq.QueueStats) bool { return queue != "" && s.Queue != queue }))
			})
		}),
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "count all tasks, however many")
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "only this `QUEUE`")
	addWatch(cmd, &every)
	a.completeQueueFlag(cmd)
	return cmd
}

// statsView is a queue's numbers as --json shows them.
type statsView struct {
	Queue     string                `json:"queue"`
	Count     map[state.State]int64 `json:"count"`
	AtLeast   []state.State         `json:"at_least,omitempty"`
	Due       int64                 `json:"due"`
	Parked    int64                 `json:"parked"`
	OldestDue float64               `json:"oldest_due_seconds"`
}

func (a *app) printStats(stats []dbq.QueueStats) error {
	if a.json {
		for _, s := range stats {
			if err := a.printJSON(statsView{s.Queue, s.Count, s.AtLeast, s.Due, s.Parked, s.OldestDue.Seconds()}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(stats) == 0 {
		a.note("no tasks")
		return nil
	}
	tab := table{colour: a.colour, rightFrom: 1}
	header := []string{"QUEUE"}
	for _, s := range state.All() {
		header = append(header, s.String())
	}
	tab.add(append(header, "DUE", "PARKED", "LAG")...)
	for _, q := range stats {
		row := []string{q.Queue}
		for _, s := range state.All() {
			row = append(row, atLeast(q.Count[s], q, s))
		}
		lag := "-"
		if q.Due > 0 {
			lag = span(q.OldestDue)
		}
		tab.add(append(row, atLeast(q.Due, q, state.Created), atLeast(q.Parked, q, state.Error), lag)...)
	}
	return tab.write(a.out)
}

// atLeast is a count, marked when there may be more.
func atLeast(n int64, q dbq.QueueStats, s state.State) string {
	if slices.Contains(q.AtLeast, s) {
		return fmt.Sprint(n, "+")
	}
	return fmt.Sprint(n)
}
