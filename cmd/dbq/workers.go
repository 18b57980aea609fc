package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

func newWorker(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "List workers, and pause, resume or stop one",
		Long:  `List workers, and pause, resume or stop one. A worker follows at once on PostgreSQL, elsewhere within 20 seconds (or its --check).`,
		Example: `  dbq worker list
  dbq worker stop web-3/mail`,
		Args: subcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkerList(a),
		newWorkerOrder(a, dbq.OrderPause, "Stop one worker from taking more tasks"),
		newWorkerOrder(a, dbq.OrderResume, "Let a paused worker take tasks again"),
		newWorkerOrder(a, dbq.OrderStop, "Let one worker finish its running tasks and exit"))
	return cmd
}

func newWorkerOrder(a *app, o dbq.Order, short string) *cobra.Command {
	return &cobra.Command{
		Use:     string(o) + " WORKER",
		Short:   short,
		Example: fmt.Sprintf("  dbq worker %s web-3/mail", o),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("give one worker's id, not %d; `dbq worker list` lists them", len(args))
			}
			return nil
		},
		ValidArgsFunction: firstArg(a.completeBy(workerNames)),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.OrderWorker(ctx, args[0], o); err != nil {
				return err
			}
			return a.done("told %s to %s", args[0], o)
		}),
	}
}

func newWorkerList(a *app) *cobra.Command {
	var queue string
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers that reported within a day",
		Long: `List the workers that reported within a day. A worker that is "silent" has missed its reports: it was killed, or it cannot reach the
database. Other workers take its tasks over when their leases expire.

With --json each worker is a line.`,
		Example: "  dbq worker list --queue mail",
		Args:    noArgs(""),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.watch(ctx, every, func() error { return a.printWorkers(ctx, c, queue) })
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "only those of this `QUEUE`")
	addWatch(cmd, &every)
	a.completeQueueFlag(cmd)
	return cmd
}

func (a *app) printWorkers(ctx context.Context, c *dbq.Client, queue string) error {
	all, err := c.Workers(ctx)
	if err != nil {
		return err
	}
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	tab := table{colour: a.colour, rightFrom: 4}
	tab.add("WORKER", "QUEUE", "STATE", "SEEN", "TASKS", "OF", "LONGEST", "DONE", "FAILED", "UP")
	n := 0
	for _, w := range all {
		if queue != "" && w.Queue != queue {
			continue
		}
		n++
		if a.json {
			if err := a.printJSON(w); err != nil {
				return err
			}
			continue
		}
		state, longest := w.State, "-"
		if !w.Alive {
			state = "silent"
		}
		if !w.OldestSince.IsZero() {
			longest = span(now.Sub(w.OldestSince))
		}
		tab.add(w.ID, w.Queue, state, span(now.Sub(w.Seen))+" ago", fmt.Sprint(w.Holding),
			fmt.Sprint(w.Concurrency), longest, fmt.Sprint(w.Done), fmt.Sprint(w.Failed), span(now.Sub(w.Started)))
	}
	if a.json {
		return nil
	}
	if n == 0 {
		a.note("no workers")
		return nil
	}
	return tab.write(a.out)
}
