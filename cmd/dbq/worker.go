package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/spf13/cobra"
)

func newWorker(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use:   "worker",
		Short: "List workers, and pause, resume or stop one",
		Long: `List workers, and pause, resume or stop one. A worker follows at once on PostgreSQL, elsewhere within 20
seconds (or its --check).`,
		Example: `  dbq worker list
  dbq worker stop web-3/mail`,
	}, newWorkerList(a),
		newWorkerCommand(a, dbq.CommandPause, "Stop one worker from taking more tasks"),
		newWorkerCommand(a, dbq.CommandResume, "Let a paused worker take tasks again"),
		newWorkerCommand(a, dbq.CommandStop, "Let one worker finish its running tasks and exit"))
}

func newWorkerCommand(a *app, command dbq.Command, short string) *cobra.Command {
	return &cobra.Command{
		Use:               string(command) + " WORKER",
		Short:             short,
		Example:           fmt.Sprintf("  dbq worker %s web-3/mail", command),
		Args:              oneArg("worker's id, which `dbq worker list` shows"),
		ValidArgsFunction: firstArg(a.completeBy(workerNames)),
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
			if err := admin.New(c).CommandWorker(ctx, args[0], command); err != nil {
				return err
			}
			return a.done("told %s to %s", args[0], command)
		}),
	}
}

// workerNames lists the workers in the registry.
func workerNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	workers, err := admin.New(c).Workers(ctx)
	for _, w := range workers {
		names = append(names, w.ID)
	}
	return names, err
}

func newWorkerList(a *app) *cobra.Command {
	var queue string
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers that reported within a day",
		Long: `List the workers that reported within a day. A worker that is "silent" has missed its reports: it was killed,
or it cannot reach the database. Other workers take its tasks over when their leases expire.

With --json each worker is a line.`,
		Example: "  dbq worker list --queue mail",
		Args:    noArgs(""),
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, _ []string) error {
			return a.watch(ctx, every, func() error { return a.listWorkers(ctx, c, queue) })
		}),
	}
	a.addQueueFlag(cmd, &queue, "only those of this `QUEUE`")
	addWatch(cmd, &every)
	return cmd
}

func (a *app) listWorkers(ctx context.Context, c *dbq.Client, queue string) error {
	workers, err := admin.New(c).Workers(ctx)
	if err != nil {
		return err
	}
	if queue != "" {
		workers = slices.DeleteFunc(workers, func(w admin.WorkerInfo) bool { return w.Queue != queue })
	}
	return workerListing.print(ctx, a, c, workers)
}

var workerListing = listing[admin.WorkerInfo]{
	none:      "no workers",
	columns:   []string{"WORKER", "QUEUE", "STATE", "SEEN", "TASKS", "OF", "LONGEST", "DONE", "FAILED", "UP"},
	rightFrom: 4,
	row: func(w admin.WorkerInfo, now time.Time) []string {
		state, longest := w.State, "-"
		if !w.Alive {
			state = "silent"
		}
		if !w.OldestSince.IsZero() {
			longest = span(now.Sub(w.OldestSince))
		}
		return []string{w.ID, w.Queue, state, span(now.Sub(w.Seen)) + " ago", fmt.Sprint(w.Holding),
			fmt.Sprint(w.Concurrency), longest, fmt.Sprint(w.Done), fmt.Sprint(w.Failed), span(now.Sub(w.Started))}
	},
	json: func(w admin.WorkerInfo) any { return w },
}
