package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newQueue(a *app) *cobra.Command {
	return parent("dbq queue", newQueuePause(a), newQueueResume(a), newQueueSet(a), newQueueClean(a), newQueueList(a))
}

// queueFunc runs a command on a queue.
type queueFunc = func(ctx context.Context, ops *admin.Admin, queue string) error

// queueCommand is a command on one queue, which its argument names. It has the flag --create if the queue need not be
// in use yet.
func (a *app) queueCommand(name string, mayCreate bool, f queueFunc) *cobra.Command {
	var create bool
	cmd := a.command(name, oneArg("queue's name"), a.withClient(
		func(ctx context.Context, c *dbq.Client, args []string) error {
			if !create {
				if err := mustBeKnown(ctx, c, args[0]); err != nil {
					return err
				}
			}
			return f(ctx, admin.New(c), args[0])
		}))
	cmd.ValidArgsFunction = firstArg(a.completeBy(queueNames))
	if mayCreate {
		cmd.Flags().BoolVar(&create, "create", false, "allow a queue that has no tasks, workers, schedules or settings yet")
	}
	return cmd
}

// queueChange is a queueCommand that changes a queue, with --reason and --by.
func (a *app) queueChange(name, past string, mayCreate bool, f queueFunc) *cobra.Command {
	return a.addNote(a.queueCommand(name, mayCreate, func(ctx context.Context, ops *admin.Admin, queue string) error {
		if err := f(ctx, ops, queue); err != nil {
			return err
		}
		return a.result(nil, "%s %s", past, queue)
	}))
}

func newQueuePause(a *app) *cobra.Command {
	return a.queueChange("dbq queue pause", "paused", true,
		func(ctx context.Context, ops *admin.Admin, queue string) error { return ops.PauseQueue(ctx, queue) })
}

func newQueueResume(a *app) *cobra.Command {
	return a.queueChange("dbq queue resume", "resumed", false,
		func(ctx context.Context, ops *admin.Admin, queue string) error { return ops.ResumeQueue(ctx, queue) })
}

func newQueueSet(a *app) *cobra.Command {
	given := settingFlags(&admin.QueueSettings{})
	cmd := a.queueChange("dbq queue set", "set", true, func(ctx context.Context, ops *admin.Admin, queue string) error {
		if !anyChanged(given) {
			return usagef("nothing to set: give at least one flag (dbq queue set --help)")
		}
		return ops.ConfigureQueue(ctx, queue, func(s *admin.QueueSettings) { copyChanged(settingFlags(s), given) })
	})
	addInOrder(cmd, given)
	keep, text := maintenance.DefaultRetention, duration.Format
	cmd.Long = fmt.Sprintf(cmd.Long,
		text(keep.Completed), text(keep.Cancelled), text(keep.Attempts), text(keep.Poison), text(keep.Parked))
	return cmd
}

func newQueueClean(a *app) *cobra.Command {
	var keep dbq.Retention
	given := retentionFlags(&keep)
	cmd := a.queueCommand("dbq queue clean", false, func(ctx context.Context, ops *admin.Admin, queue string) error {
		if !anyChanged(given) {
			settings, err := ops.QueueSettings(ctx, queue)
			if err != nil {
				return err
			}
			keep = settings.Retention
		}
		if !keep.Removes() {
			return usagef("the settings of queue %s remove nothing: give a retention, such as --keep-completed 24h", queue)
		}
		done, err := ops.Clean(ctx, queue, keep)
		if err != nil {
			return err
		}
		return a.result(map[string]int{"tasks": done.Tasks, "attempts": done.Attempts}, "%s and %s of the history removed",
			plural(done.Tasks, "task"), plural(done.Attempts, "attempt"))
	})
	addInOrder(cmd, given)
	return a.addNote(cmd)
}

func newQueueList(a *app) *cobra.Command {
	run := func(ctx context.Context, c *dbq.Client, _ []string) error {
		return queueListing.watch(ctx, a, c, 0, func() ([]admin.QueueInfo, error) { return allQueues(ctx, c) })
	}
	return a.command("dbq queue list", noArgs(""), a.withClient(run))
}

var queueListing = listing[admin.QueueInfo]{
	none:    "no queues",
	columns: []string{"QUEUE", "PAUSED", "SETTINGS", "LIMITS"}, rightFrom: 4,
	row: func(q admin.QueueInfo, now time.Time) []string {
		paused := "-"
		if q.Paused {
			paused = "for " + span(now.Sub(q.Since))
		}
		if q.Reason != "" {
			paused += ": " + q.Reason
		}
		return []string{q.Queue, paused, cmp.Or(settingsText(q.Settings), "-"), cmp.Or(limitsText(q.Limits), "-")}
	},
	json: func(q admin.QueueInfo) any { return q },
}

// allQueues lists the queues that have tasks, workers, schedules, settings or limits, or are paused, by name.
func allQueues(ctx context.Context, c *dbq.Client) ([]admin.QueueInfo, error) {
	ops := admin.New(c)
	queues, err := ops.Queues(ctx)
	stats, statsErr := ops.Stats(ctx, admin.CountUpTo(1))
	workers, workersErr := ops.Workers(ctx)
	schedules, schedulesErr := schedule.New(c).List(ctx)
	if err := cmp.Or(err, statsErr, workersErr, schedulesErr); err != nil {
		return nil, err
	}
	for _, q := range stats {
		queues = append(queues, admin.QueueInfo{Queue: q.Queue})
	}
	for _, w := range workers {
		queues = append(queues, admin.QueueInfo{Queue: w.Queue})
	}
	for _, s := range schedules {
		queues = append(queues, admin.QueueInfo{Queue: s.Queue})
	}
	slices.SortStableFunc(queues, func(a, b admin.QueueInfo) int { return cmp.Compare(a.Queue, b.Queue) })
	return slices.CompactFunc(queues, func(a, b admin.QueueInfo) bool { return a.Queue == b.Queue }), nil
}

// queueNames lists the names of allQueues.
func queueNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	queues, err := allQueues(ctx, c)
	for _, q := range queues {
		names = append(names, q.Queue)
	}
	return names, err
}

// mustBeKnown refuses a queue that has nothing, not even statistics: its name is probably mistyped.
func mustBeKnown(ctx context.Context, c *dbq.Client, queue string) error {
	known, err := admin.New(c).Known(ctx, queue)
	if err != nil || known {
		return err
	}
	old, _, err := listUpTo(ctx, admin.New(c), admin.Filter{Queue: queue, Limit: 1}) // in the whole table
	if err != nil || len(old) > 0 {
		return err
	}
	names, err := queueNames(ctx, c)
	if err != nil {
		return err
	}
	const most = 10
	others := "none has"
	if len(names) > 0 {
		others = "these have: " + strings.Join(names[:min(len(names), most)], ", ")
	}
	if len(names) > most {
		others += " and more, see `dbq queue list`"
	}
	return &exitError{exitNotFound, fmt.Errorf("there is no queue %q yet: it has no tasks, workers, schedules or "+
		"settings (%s; limit, queue pause and queue set take --create)", queue, others)}
}

// mustBeKnownIfEmpty is mustBeKnown for a command that has found nothing in a queue, or in all if queue is empty.
func mustBeKnownIfEmpty(ctx context.Context, c *dbq.Client, queue string, found int) error {
	if queue == "" || found > 0 {
		return nil
	}
	return mustBeKnown(ctx, c, queue)
}

// settingFlags are flags that set the fields of s. Without a flag a field stays as it is.
func settingFlags(s *admin.QueueSettings) *pflag.FlagSet {
	f := orderedFlags()
	f.IntVar(&s.Concurrency, "concurrency", s.Concurrency,
		"run up to `N` tasks at once in each worker (0: the worker's own setting)")
	f.IntVar(&s.MaxCheckout, "max-checkout", s.MaxCheckout,
		"check out at most `N` tasks at once (0: the worker's own setting)")
	durationVar(f, &s.Poll, "poll", s.Poll, "poll for tasks at least once in this `TIME` (0: the worker's own setting)")
	durationVar(f, &s.Lease, "lease", s.Lease, "lease tasks for this `TIME` (0: the worker's own setting)")
	f.IntVar(&s.MaxAttempts, "max-attempts", s.MaxAttempts,
		"cap each task's maximum of attempts at `N` (0: the worker's own setting)")
	f.StringVar((*string)(&s.History), "history", string(s.History), "record these `ATTEMPTS`: all, failures or none")
	f.StringVar(&s.DeadLetter, "dead-letter", s.DeadLetter,
		"add a notice to this `QUEUE` for each task that goes to POISON (\"\": none)")
	f.BoolVar(&s.NoStatistics, "no-statistics", s.NoStatistics, "collect no statistics over time")
	f.AddFlagSet(retentionFlags(&s.Retention))
	return f
}

// retentionFlags are flags that set the fields of r.
func retentionFlags(r *dbq.Retention) *pflag.FlagSet {
	f := orderedFlags()
	keep := func(to *time.Duration, name, usage string) { durationVar(f, to, name, *to, usage).orForever = true }
	keep(&r.Completed, "keep-completed",
		"keep COMPLETED tasks for this `TIME`, such as 24h or 7d, or forever (0: the worker's default)")
	keep(&r.Poison, "keep-poison", "keep POISON tasks for this `TIME` (0: the worker's default)")
	keep(&r.Cancelled, "keep-cancelled", "keep cancelled tasks for this `TIME` (0: the worker's default)")
	keep(&r.Parked, "keep-parked", "keep parked tasks for this `TIME` (0: the worker's default)")
	keep(&r.Attempts, "keep-attempts", "keep the history of attempts for this `TIME` (0: the worker's default)")
	f.BoolVar(&r.Archive, "archive", r.Archive, "move tasks into the archive instead of removing them")
	return f
}

func orderedFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	return f
}

// addInOrder adds flags to a command, whose help lists them in their order.
func addInOrder(cmd *cobra.Command, flags *pflag.FlagSet) {
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(flags)
}

// anyChanged reports whether any of the flags is given.
func anyChanged(flags *pflag.FlagSet) (changed bool) {
	flags.VisitAll(func(f *pflag.Flag) { changed = changed || f.Changed })
	return changed
}

// copyChanged sets the flags that are given in from.
func copyChanged(to, from *pflag.FlagSet) {
	from.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		if err := to.Set(f.Name, f.Value.String()); err != nil {
			panic(err) // from has taken the same text
		}
	})
}

// settingsText returns settings as flags of dbq queue set.
func settingsText(s admin.QueueSettings) string { return flagsText(settingFlags(&s)) }

// flagsText returns the flags that set something.
func flagsText(flags *pflag.FlagSet) string {
	var parts []string
	flags.VisitAll(func(f *pflag.Flag) {
		switch text := f.Value.String(); {
		case text == "0" || text == "" || text == "false":
		case f.Value.Type() == "bool":
			parts = append(parts, "--"+f.Name)
		default:
			parts = append(parts, "--"+f.Name+" "+text)
		}
	})
	return strings.Join(parts, " ")
}
