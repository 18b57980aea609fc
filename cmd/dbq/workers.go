package main

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

func newWorker(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "See who works, and pause, resume or stop one worker",
		Long: `See who works, and pause, resume or stop one worker. A worker obeys at once where the database can tell it
(PostgreSQL), and elsewhere when it tells next that it is alive: within 20 seconds, or its --check.`,
		Example: `  dbq worker list
  dbq worker stop web-3/mail`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkerList(a),
		newWorkerOrder(a, dbq.OrderPause, "Let one worker take no more tasks"),
		newWorkerOrder(a, dbq.OrderResume, "Let one worker take tasks again"),
		newWorkerOrder(a, dbq.OrderStop, "Let one worker finish what it has in work, and end"))
	return cmd
}

func newWorkerOrder(a *app, o dbq.Order, short string) *cobra.Command {
	return &cobra.Command{
		Use:     string(o) + " WORKER",
		Short:   short,
		Example: fmt.Sprintf("  dbq worker %s web-3/mail", o),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("one worker's id is wanted, %d are given; dbq worker list tells them", len(args))
			}
			return nil
		},
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
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers that were heard of within a day",
		Long: `List the workers that were heard of within a day. One that is "silent" should have told that it is alive and has not: it was
killed, or cannot reach the database. Its tasks go to others when their leases run out.

With --json each worker is a line.`,
		Example: "  dbq worker list --queue mail",
		Args:    cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := c.Workers(ctx)
			if err != nil {
				return err
			}
			now, err := c.Now(ctx)
			if err != nil {
				return err
			}
			tab := table{rightFrom: 4}
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
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "only this queue's")
	return cmd
}
