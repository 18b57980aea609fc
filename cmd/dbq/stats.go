package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
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
		Long: `Count the tasks of each queue by state. DUE tasks can be taken now. PARKED tasks stay in ERROR until an
operator acts. LAG is how long the oldest due task has been due.

It counts up to 10,000 tasks of each queue and state, and shows 10000+ where there may be more; --exact counts
all of them, which reads the whole table. Completed tasks are counted among the newest 10,000 of all queues
where no index has them (PostgreSQL, SQLite, Oracle).

With --json each queue is a line; oldest_due_seconds is the lag, and at_least names the states that may have
more tasks.`,
		Example: `  dbq stats
  dbq stats --exact
  dbq stats --watch=5s
  dbq stats --json | jq 'select(.due > 1000) | .queue'`,
		Args: noArgs("use --queue NAME"),
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, _ []string) error {
			var opts []admin.StatsOption
			if exact {
				opts = append(opts, admin.CountAll())
			}
			return a.watch(ctx, every, func() error {
				stats, err := admin.New(c).Stats(ctx, opts...)
				if err != nil {
					return err
				}
				if queue != "" {
					stats = slices.DeleteFunc(stats, func(s admin.QueueStats) bool { return s.Queue != queue })
				}
				return statsListing.print(ctx, a, c, stats)
			})
		}),
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "count all tasks, however many")
	a.addQueueFlag(cmd, &queue, "only this `QUEUE`")
	addWatch(cmd, &every)
	return cmd
}

// statsView is a queue's numbers as --json shows them: with the lag in seconds.
type statsView struct {
	admin.QueueStats
	OldestDue        *struct{} `json:"oldest_due,omitempty"` // hides that of QueueStats
	OldestDueSeconds float64   `json:"oldest_due_seconds"`
}

var statsListing = listing[admin.QueueStats]{
	none:      "no tasks",
	columns:   slices.Concat([]string{"QUEUE"}, stateNames(), []string{"DUE", "PARKED", "LAG"}),
	rightFrom: 1,
	row: func(q admin.QueueStats, _ time.Time) []string {
		row := []string{q.Queue}
		for _, s := range state.All() {
			row = append(row, atLeast(q.Count[s], q, s))
		}
		lag := "-"
		if q.Due > 0 {
			lag = span(q.OldestDue)
		}
		return append(row, atLeast(q.Due, q, state.Created), atLeast(q.Parked, q, state.Error), lag)
	},
	json: func(q admin.QueueStats) any {
		return statsView{QueueStats: q, OldestDueSeconds: q.OldestDue.Seconds()}
	},
}

func stateNames() (names []string) {
	for _, s := range state.All() {
		names = append(names, s.String())
	}
	return names
}

// atLeast is a count, marked when there may be more.
func atLeast(n int64, q admin.QueueStats, s state.State) string {
	if slices.Contains(q.AtLeast, s) {
		return fmt.Sprint(n, "+")
	}
	return fmt.Sprint(n)
}
