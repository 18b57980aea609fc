package main

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newQueue(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Pause, resume, set and clean queues, for all their workers at once",
		Long: `Pause, resume, set and clean queues. What is set is kept in the database: all workers on the queue follow it, also those that
start later: at once on PostgreSQL, elsewhere within 20 seconds, or their --check. A pause holds at once, for every program: a paused queue hands out nothing.`,
		Example: `  dbq queue pause mail --reason "the mail server is down"
  dbq queue set mail --concurrency 20 --keep-completed 24h
  dbq queue list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newQueueList(a), newQueuePause(a), newQueueResume(a), newQueueSet(a), newQueueClean(a))
	return cmd
}

func exactlyOneQueue(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("one queue's name is wanted, %d are given", len(args))
	}
	return nil
}

// onQueue is the body of a verb about one queue.
func (a *app) onQueue(f func(ctx context.Context, q *dbq.Queue) error) func(*cobra.Command, []string) error {
	return a.verb(func(ctx context.Context, args []string) error {
		c, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(ctx, c.Queue(args[0]))
	})
}

func newQueuePause(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "pause QUEUE",
		Short:   "Hand out no task of a queue, until it is resumed",
		Long:    "Hand out no task of a queue, until it is resumed. Tasks in work are finished, and new ones are taken in.",
		Example: `  dbq queue pause mail --reason "the mail server is down"`,
		Args:    exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, q *dbq.Queue) error {
			if err := q.Pause(ctx, reason); err != nil {
				return err
			}
			return a.done("paused %s", q.Name())
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people")
	return cmd
}

func newQueueResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "End a pause",
		Example: "  dbq queue resume mail",
		Args:    exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, q *dbq.Queue) error {
			if err := q.Resume(ctx); err != nil {
				return err
			}
			return a.done("resumed %s", q.Name())
		}),
	}
}

// done says that something was done, to a person; a script sees it by the exit code.
func (a *app) done(format string, args ...any) error {
	if a.json {
		return nil
	}
	return a.say(format, args...)
}

// settingFlags change a queue's settings by the flags that are given.
type settingFlags struct {
	concurrency, batch, maxAttempts     int
	poll, lease                         time.Duration
	completed, poison, parked, attempts time.Duration
	history                             string
	archive                             bool
	own                                 *pflag.FlagSet // apart from the flags that every verb has
}

func (s *settingFlags) add(cmd *cobra.Command) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.IntVar(&s.concurrency, "concurrency", 0, "tasks that one worker works on at once (0: each worker's own)")
	f.IntVar(&s.batch, "batch", 0, "tasks in one checkout (0: each worker's own)")
	durationVar(f, &s.poll, "poll", 0, "longest pause between two looks of an idle worker (0: each worker's own)")
	durationVar(f, &s.lease, "lease", 0, "lease of a task (0: each worker's own)")
	f.IntVar(&s.maxAttempts, "max-attempts", 0, "attempts after which a failing task is POISON (0: the task's own)")
	f.StringVar(&s.history, "history", "", "which attempts are recorded: all, failures or none")
	s.addRetention(cmd, f)
}

func (s *settingFlags) addRetention(cmd *cobra.Command, f *pflag.FlagSet) {
	durationVar(f, &s.completed, "keep-completed", 0, "keep COMPLETED tasks for this `TIME`, such as 24h or 7d (0: for ever)")
	durationVar(f, &s.poison, "keep-poison", 0, "keep POISON tasks for this `TIME` (0: for ever)")
	durationVar(f, &s.parked, "keep-parked", 0, "keep parked tasks for this `TIME` (0: for ever)")
	durationVar(f, &s.attempts, "keep-attempts", 0, "keep the history of attempts for this `TIME` (0: for ever)")
	f.BoolVar(&s.archive, "archive", false, "move tasks into the archive instead of removing them")
	s.own = f
	cmd.Flags().SortFlags, f.SortFlags = false, false
	cmd.Flags().AddFlagSet(f)
}

func (s *settingFlags) change(q *dbq.QueueSettings) {
	set := func(name string, apply func()) {
		if s.own.Changed(name) {
			apply()
		}
	}
	set("concurrency", func() { q.Concurrency = s.concurrency })
	set("batch", func() { q.Batch = s.batch })
	set("poll", func() { q.Poll = s.poll })
	set("lease", func() { q.Lease = s.lease })
	set("max-attempts", func() { q.MaxAttempts = s.maxAttempts })
	set("history", func() { q.History = dbq.History(s.history) })
	set("keep-completed", func() { q.Retention.Completed = s.completed })
	set("keep-poison", func() { q.Retention.Poison = s.poison })
	set("keep-parked", func() { q.Retention.Parked = s.parked })
	set("keep-attempts", func() { q.Retention.Attempts = s.attempts })
	set("archive", func() { q.Retention.Archive = s.archive })
}

func (s *settingFlags) given() bool {
	given := false
	s.own.VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	return given
}

func newQueueSet(a *app) *cobra.Command {
	var s settingFlags
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Set what a queue's workers shall do",
		Long: `Set what a queue's workers shall do: only what a flag names is changed. 0 gives a setting back to each worker.

What has ended is kept for ever, unless --keep-... says otherwise; then one of the queue's workers removes it, a little at a time.`,
		Example: `  dbq queue set mail --concurrency 20 --lease 2m
  dbq queue set mail --keep-completed 24h --keep-poison 30d --keep-attempts 30d`,
		Args: exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, q *dbq.Queue) error {
			if !s.given() {
				return usagef("nothing to set: give at least one flag (dbq queue set --help)")
			}
			if err := q.Configure(ctx, s.change); err != nil {
				return err
			}
			return a.done("set %s", q.Name())
		}),
	}
	s.add(cmd)
	return cmd
}

func newQueueClean(a *app) *cobra.Command {
	var s settingFlags
	cmd := &cobra.Command{
		Use:   "clean QUEUE",
		Short: "Remove now what a queue has kept for long enough",
		Long: `Remove now what a queue has kept for long enough: by its settings, or by the flags alone when any is given. It works in short
transactions and may be broken off at any time.`,
		Example: `  dbq queue clean mail
  dbq queue clean mail --keep-completed 1h`,
		Args: exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, q *dbq.Queue) error {
			var settings dbq.QueueSettings
			var err error
			if s.given() {
				s.change(&settings)
			} else if settings, err = q.Settings(ctx); err != nil {
				return err
			}
			if settings.Retention == (dbq.Retention{Archive: settings.Retention.Archive}) {
				return usagef("queue %s keeps everything for ever: say what to remove, such as --keep-completed 24h", q.Name())
			}
			done, err := q.Clean(ctx, settings.Retention)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]int{"tasks": done.Tasks, "attempts": done.Attempts})
			}
			return a.say("%s and %s of the history removed", plural(done.Tasks, "task"), plural(done.Attempts, "attempt"))
		}),
	}
	s.addRetention(cmd, pflag.NewFlagSet("", pflag.ContinueOnError))
	return cmd
}
