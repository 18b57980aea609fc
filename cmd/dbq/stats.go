package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
)

func newStats(a *app) *cobra.Command {
	var queue string
	var exact bool
	var every, over, step time.Duration
	run := func(ctx context.Context, c *dbq.Client, _ []string) error {
		if queue != "" {
			if err := mustBeKnown(ctx, c, queue); err != nil {
				return err
			}
		}
		switch {
		case over != 0 && exact:
			return usagef("--exact counts the tasks of now: leave --over out")
		case over == 0 && step != 0:
			return usagef("--step needs --over")
		case over != 0:
			return a.watch(ctx, every, func() error { return printSeries(ctx, a, c, queue, over, step) })
		}
		var opts []admin.StatsOption
		if exact {
			opts = append(opts, admin.CountAll())
		}
		return a.watch(ctx, every, func() error {
			if queue != "" {
				stats, err := admin.New(c).StatsOf(ctx, queue, opts...)
				if err != nil {
					return err
				}
				return statsListing.print(ctx, a, c, []admin.QueueStats{stats})
			}
			stats, err := admin.New(c).Stats(ctx, opts...)
			if err == nil {
				err = statsListing.print(ctx, a, c, stats)
			}
			if err != nil || a.json {
				return err
			}
			return a.printKept(ctx, c, exact)
		})
	}
	cmd := a.command("dbq stats", noArgs("use --queue NAME"), a.withClient(run))
	cmd.Flags().BoolVar(&exact, "exact", false, "count all tasks, even if there are many")
	a.addQueueFlag(cmd, &queue, "only this `QUEUE`")
	durationVar(cmd.Flags(), &over, "over", 0, "show what happened within this `TIME` until now, such as 1h or 7d")
	durationVar(cmd.Flags(), &step, "step", 0, "with --over, in steps of this `TIME`: a multiple of a minute")
	addWatch(cmd, &every)
	return cmd
}

// printKept prints the sizes of the archive and of the audit, if they have anything.
func (a *app) printKept(ctx context.Context, c *dbq.Client, exact bool) error {
	const most = 10_000
	counts := admin.CountUpTo(most)
	if exact {
		counts = admin.CountAll()
	}
	kept, err := admin.New(c).CountKept(ctx, counts)
	if err != nil {
		return err
	}
	number := func(n int64) string {
		switch {
		case n < 0:
			return "?" // this database user may not read it
		case n == most && !exact:
			return fmt.Sprint(n, "+")
		}
		return fmt.Sprint(n)
	}
	if kept.Archived <= 0 && kept.Audit <= 0 {
		return nil
	}
	return a.say("kept until you remove them: tasks in the archive %s, entries of the audit %s", number(kept.Archived),
		number(kept.Audit))
}

var statsListing = listing[admin.QueueStats]{
	none:      "no tasks",
	columns:   slices.Concat([]string{"QUEUE"}, stateNames(), []string{"DUE", "PARKED", "CANCELLED", "LAG"}),
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
		return append(row, atLeast(q.Due, q, state.Created), atLeast(q.Parked, q, state.Error),
			atLeast(q.Cancelled, q, state.Poison), lag)
	},
	json: func(q admin.QueueStats) any { return wire.StatsOf(q) },
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
