package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

func newQueueList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the queues that are paused or have something set",
		Long: `List the queues that are paused or have something set; dbq stats lists those with tasks.

With --json each queue is a line.`,
		Example: "  dbq queue list",
		Args:    cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			queues, err := c.Queues(ctx)
			if err != nil {
				return err
			}
			now, err := c.Now(ctx)
			if err != nil {
				return err
			}
			return a.printQueues(queues, now)
		}),
	}
}

func (a *app) printQueues(queues []dbq.QueueInfo, now time.Time) error {
	if a.json {
		for _, q := range queues {
			if err := a.printJSON(map[string]any{"queue": q.Queue, "paused": q.Paused, "since": q.Since, "reason": q.Reason, "by": q.By,
				"settings": settingsLine(q.Settings)}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(queues) == 0 {
		a.note("no queue is paused or has anything set")
		return nil
	}
	tab := table{rightFrom: 4}
	tab.add("QUEUE", "PAUSED", "SETTINGS")
	for _, q := range queues {
		paused := "-"
		if q.Paused {
			paused = "for " + span(now.Sub(q.Since))
			if q.Reason != "" {
				paused += ": " + q.Reason
			}
		}
		settings := settingsLine(q.Settings)
		if settings == "" {
			settings = "-"
		}
		tab.add(q.Queue, paused, settings)
	}
	return tab.write(a.out)
}

// settingsLine are settings as the flags of `dbq queue set` that make them.
func settingsLine(s dbq.QueueSettings) string {
	var parts []string
	number := func(name string, n int) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("--%s %d", name, n))
		}
	}
	time := func(name string, d time.Duration) {
		if d != 0 {
			parts = append(parts, fmt.Sprintf("--%s %s", name, formatDuration(d)))
		}
	}
	number("concurrency", s.Concurrency)
	number("batch", s.Batch)
	time("poll", s.Poll)
	time("lease", s.Lease)
	number("max-attempts", s.MaxAttempts)
	if s.History != "" {
		parts = append(parts, "--history "+string(s.History))
	}
	time("keep-completed", s.Retention.Completed)
	time("keep-poison", s.Retention.Poison)
	time("keep-parked", s.Retention.Parked)
	time("keep-attempts", s.Retention.Attempts)
	if s.Retention.Archive {
		parts = append(parts, "--archive")
	}
	return strings.Join(parts, " ")
}
