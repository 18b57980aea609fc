package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
)

// A point is an admin.Point of a queue, as a line of dbq stats --over.
type point struct {
	admin.Point
	queue string
	most  int64 // that any point of the queue has completed
}

// pointsOf returns the points of some queues as lines.
func pointsOf(queues []admin.QueueSeries) (out []point) {
	for _, q := range queues {
		most := mostCompleted(q.Points)
		for _, p := range q.Points {
			out = append(out, point{p, q.Queue, most})
		}
	}
	return out
}

func mostCompleted(ps []admin.Point) (most int64) {
	for _, p := range ps {
		most = max(most, p.Completed)
	}
	return most
}

// sampled writes a number that is known only if there are samples.
func sampled(n, samples int64) string {
	if samples == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// pointListing lists the points of one queue, with a bar for the completed tasks of each.
var pointListing = listing[point]{
	none: "no statistics",
	columns: []string{"TIME", "ENQUEUED", "COMPLETED", "FAILED", "POISONED", "DUE", "LATENCY P95", "RUN TIME P95",
		"COMPLETED"},
	rightFrom: 1,
	row: func(p point, _ time.Time) []string {
		const width = 20
		bar := strings.Repeat("#", int((p.Completed*width+max(p.most, 1)-1)/max(p.most, 1)))
		return []string{p.At.Local().Format("2006-01-02 15:04"), sampled(p.Enqueued, p.Samples), fmt.Sprint(p.Completed),
			fmt.Sprint(p.Failed), fmt.Sprint(p.Poisoned), sampled(p.Due, p.Samples), percentile(p.Latency.P95),
			percentile(p.RunTime.P95), fmt.Sprintf("%-*s", width, bar)}
	},
	json: func(p point) any {
		return struct {
			Queue string `json:"queue"`
			wire.Point
		}{p.queue, wire.PointOf(p.Point)}
	},
}

func percentile(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return span(d)
}

// plotLevels are the characters of a plot of one line, from none to most.
const plotLevels = " .:-=+*#%@"

// plot shows the completed tasks of each point as one character.
func plot(ps []admin.Point) string {
	most, b := mostCompleted(ps), strings.Builder{}
	for _, p := range ps {
		level := 0
		if p.Completed > 0 {
			level = max(int(p.Completed*int64(len(plotLevels)-1)/most), 1)
		}
		b.WriteByte(plotLevels[level])
	}
	return "|" + b.String() + "|"
}

// seriesListing lists queues, each with its sums and a plot.
var seriesListing = listing[admin.QueueSeries]{
	none:      "no statistics: they are reported by workers, a minute after they begin or when they stop",
	columns:   []string{"QUEUE", "ENQUEUED", "COMPLETED", "FAILED", "POISONED", "COMPLETED OVER TIME"},
	rightFrom: 1,
	row: func(q admin.QueueSeries, _ time.Time) []string {
		var sum admin.Point
		for _, p := range q.Points {
			sum.Samples += p.Samples
			sum.Enqueued += p.Enqueued
			sum.Completed += p.Completed
			sum.Failed += p.Failed
			sum.Poisoned += p.Poisoned
		}
		return []string{q.Queue, sampled(sum.Enqueued, sum.Samples), fmt.Sprint(sum.Completed), fmt.Sprint(sum.Failed),
			fmt.Sprint(sum.Poisoned), plot(q.Points)}
	},
}

// printSeries prints the statistics over a time until now: of one queue by period, or of all queues.
func printSeries(ctx context.Context, a *app, c *dbq.Client, queue string, over, period time.Duration) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	ops, from := admin.New(c), now.Add(-over)
	if queue != "" {
		ps, err := ops.Series(ctx, queue, from, now, period)
		if err != nil {
			return err
		}
		return pointListing.print(ctx, a, c, pointsOf([]admin.QueueSeries{{Queue: queue, Points: ps}}))
	}
	queues, err := ops.SeriesOf(ctx, nil, from, now, period)
	if err != nil {
		return err
	}
	if a.json {
		return pointListing.print(ctx, a, c, pointsOf(queues))
	}
	return seriesListing.print(ctx, a, c, queues)
}

func newStats(a *app) *cobra.Command {
	var queue string
	var exact bool
	var every, over, period time.Duration
	run := func(ctx context.Context, c *dbq.Client, _ []string) error {
		if queue != "" {
			if err := mustBeKnown(ctx, c, queue); err != nil {
				return err
			}
		}
		switch {
		case over != 0 && exact:
			return usagef("--exact counts the tasks of now: leave --over out")
		case over == 0 && period != 0:
			return usagef("--period needs --over")
		case over != 0:
			return a.watch(ctx, every, func() error { return printSeries(ctx, a, c, queue, over, period) })
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
				err = statsListing.print(ctx, a, c, []admin.QueueStats{stats})
				if err != nil || a.json {
					return err
				}
				return a.printWhy(ctx, c, queue)
			}
			stats, err := admin.New(c).Stats(ctx, opts...)
			if err == nil {
				err = statsListing.print(ctx, a, c, stats)
			}
			if err == nil && !a.json {
				err = a.printNoHandlers(ctx, c)
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
	durationVar(cmd.Flags(), &period, "period", 0, "with --over, in periods of this `TIME`: a multiple of a minute")
	addWatch(cmd, &every)
	return cmd
}

// printWhy prints why the tasks of a queue wait.
func (a *app) printWhy(ctx context.Context, c *dbq.Client, queue string) error {
	v, err := admin.New(c).Why(ctx, queue)
	if err != nil {
		return err
	}
	return a.say("%s", v)
}

// printNoHandlers prints the kinds that workers have met without a handler.
func (a *app) printNoHandlers(ctx context.Context, c *dbq.Client) error {
	workers, err := admin.New(c).Workers(ctx)
	if err != nil {
		return err
	}
	kinds := admin.NoHandlers(workers)
	for _, queue := range slices.Sorted(maps.Keys(kinds)) {
		if err := a.say("no handler in workers of queue %q: %s", queue, quoted(kinds[queue])); err != nil {
			return err
		}
	}
	return nil
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
