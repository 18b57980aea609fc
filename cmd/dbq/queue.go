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

func newQueue(a *app) *cobra.Command {
	verbs := []*cobra.Command{newQueuePause(a), newQueueResume(a), newQueueSet(a), newQueueClean(a)}
	for _, cmd := range verbs {
		cmd.Args = oneArg("queue's name")
		cmd.ValidArgsFunction = firstArg(a.completeBy(queueNames))
	}
	return parent(&cobra.Command{
		Use:   "queue",
		Short: "Pause, resume, set and clean queues, for all their workers at once",
		Long: `Pause, resume, set and clean queues. Settings are kept in the database, and all workers on the queue follow
them, including those that start later: at once on PostgreSQL, elsewhere within 20 seconds (or their --check).
A pause takes effect at once everywhere.`,
		Example: `  dbq queue pause mail --reason "the mail server is down"
  dbq queue set mail --concurrency 20 --keep-completed 24h
  dbq queue list`,
	}, append(verbs, newQueueList(a))...)
}

func newQueuePause(a *app) *cobra.Command {
	var reason string
	var create bool
	cmd := &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Stop handing out the tasks of a queue",
		Long: `Stop handing out the tasks of a queue until it is resumed. Running tasks finish, and new tasks are
accepted.`,
		Example: `  dbq queue pause mail --reason "the mail server is down"`,
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
			err := mustBeKnown(ctx, c, args[0], create)
			if err == nil {
				err = admin.New(c).PauseQueue(ctx, args[0], admin.Reason(reason))
			}
			if err != nil {
				return err
			}
			return a.done("paused %s", args[0])
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, for people")
	addCreateFlag(cmd, &create)
	return cmd
}

func newQueueResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "End a pause",
		Example: "  dbq queue resume mail",
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
			err := mustBeKnown(ctx, c, args[0], false)
			if err == nil {
				err = admin.New(c).ResumeQueue(ctx, args[0])
			}
			if err != nil {
				return err
			}
			return a.done("resumed %s", args[0])
		}),
	}
}

func newQueueSet(a *app) *cobra.Command {
	given := settingFlags(&admin.QueueSettings{})
	var create bool
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Change the settings of a queue's workers",
		Long: `Change the settings of a queue's workers. Only what a flag names is changed. 0 leaves a setting to each
worker again.

One of the queue's workers removes what has been kept for long enough, a little at a time. Unless --keep-...
says otherwise, workers keep completed tasks for 24 hours, the history for 7 days, and everything else forever.`,
		Example: `  dbq queue set mail --concurrency 20 --lease 2m
  dbq queue set mail --keep-completed 24h --keep-poison 30d --keep-attempts 30d
  dbq queue set mail --keep-completed forever --keep-attempts forever`,
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
			if !anyChanged(given) {
				return usagef("nothing to set: give at least one flag (dbq queue set --help)")
			}
			err := mustBeKnown(ctx, c, args[0], create)
			if err == nil {
				err = admin.New(c).ConfigureQueue(ctx, args[0], func(s *admin.QueueSettings) {
					copyChanged(settingFlags(s), given)
				})
			}
			if err != nil {
				return err
			}
			return a.done("set %s", args[0])
		}),
	}
	addInOrder(cmd, given)
	addCreateFlag(cmd, &create)
	return cmd
}

func newQueueClean(a *app) *cobra.Command {
	var keep dbq.Retention
	given := retentionFlags(&keep)
	cmd := &cobra.Command{
		Use:   "clean QUEUE",
		Short: "Remove what a queue has kept for long enough, now",
		Long: `Remove now what a queue has kept for long enough: by its settings, or by the flags alone when any is given.
It works in short transactions and may be interrupted at any time.`,
		Example: `  dbq queue clean mail
  dbq queue clean mail --keep-completed 1h`,
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
			if !anyChanged(given) {
				settings, err := admin.New(c).QueueSettings(ctx, args[0])
				if err != nil {
					return err
				}
				keep = settings.Retention
			}
			if !keep.Removes() {
				return usagef("the settings of queue %s remove nothing: say what to remove, such as --keep-completed 24h",
					args[0])
			}
			done, err := admin.New(c).Clean(ctx, args[0], keep)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]int{"tasks": done.Tasks, "attempts": done.Attempts})
			}
			return a.say("%s and %s of the history removed", plural(done.Tasks, "task"), plural(done.Attempts, "attempt"))
		}),
	}
	addInOrder(cmd, given)
	return cmd
}

func newQueueList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the queues that are paused or have settings",
		Long: `List the queues that are paused or have settings; dbq stats lists those with tasks.

With --json each queue is a line.`,
		Example: "  dbq queue list",
		Args:    noArgs(""),
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, _ []string) error {
			queues, err := admin.New(c).Queues(ctx)
			if err != nil {
				return err
			}
			return queueListing.print(ctx, a, c, queues)
		}),
	}
}

var queueListing = listing[admin.QueueInfo]{
	none: "no queue is paused or has settings", columns: []string{"QUEUE", "PAUSED", "SETTINGS"}, rightFrom: 3,
	row: func(q admin.QueueInfo, now time.Time) []string {
		paused := "-"
		if q.Paused {
			paused = "for " + span(now.Sub(q.Since))
		}
		if q.Reason != "" {
			paused += ": " + q.Reason
		}
		return []string{q.Queue, paused, dash(settingsText(q.Settings))}
	},
	json: func(q admin.QueueInfo) any {
		return queueView{q.Queue, q.Paused, q.Since, q.Reason, q.By, settingsView(q.Settings)}
	},
}

// queueView is a queue as --json shows it.
type queueView struct {
	Queue    string         `json:"queue"`
	Paused   bool           `json:"paused"`
	Since    time.Time      `json:"since,omitzero"`
	Reason   string         `json:"reason,omitempty"`
	By       string         `json:"by,omitempty"`
	Settings map[string]any `json:"settings"`
}

// queueNames lists the queues that have tasks or settings.
func queueNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	queues, err := admin.New(c).Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		names = append(names, q.Queue)
	}
	stats, err := admin.New(c).Stats(ctx)
	for _, q := range stats {
		names = append(names, q.Queue)
	}
	return names, err
}

// addCreateFlag adds the flag for a queue that is not in use yet.
func addCreateFlag(cmd *cobra.Command, create *bool) {
	cmd.Flags().BoolVar(create, "create", false, "allow a queue that has no tasks, workers or settings yet")
}

// mustBeKnown refuses a queue that has no task, no worker and no settings: its name is probably mistyped.
func mustBeKnown(ctx context.Context, c *dbq.Client, queue string, create bool) error {
	if create {
		return nil
	}
	ops := admin.New(c)
	queues, err := ops.Queues(ctx)
	if err != nil || slices.ContainsFunc(queues, func(q admin.QueueInfo) bool { return q.Queue == queue }) {
		return err
	}
	workers, err := ops.Workers(ctx)
	if err != nil || slices.ContainsFunc(workers, func(w admin.WorkerInfo) bool { return w.Queue == queue }) {
		return err
	}
	tasks, err := ops.List(ctx, admin.Filter{Queue: queue, Limit: 1})
	if err != nil || len(tasks) > 0 {
		return err
	}
	return &exitError{exitNotFound, fmt.Errorf("there is no queue %q yet: it has no tasks, workers or settings "+
		"(`dbq stats` lists queues; pause and set take --create)", queue)}
}
