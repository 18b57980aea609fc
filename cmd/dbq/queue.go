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
		Long: `Pause, resume, set and clean queues. Settings are kept in the database, and all workers on the queue follow them, including those that start
later: at once on PostgreSQL, elsewhere within 20 seconds (or their --check). A pause takes effect at once everywhere.`,
		Example: `  dbq queue pause mail --reason "the mail server is down"
  dbq queue set mail --concurrency 20 --keep-completed 24h
  dbq queue list`,
		Args: subcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, one := range []*cobra.Command{newQueuePause(a), newQueueResume(a), newQueueSet(a), newQueueClean(a)} {
		one.ValidArgsFunction = firstArg(a.completeBy(queueNames))
		cmd.AddCommand(one)
	}
	cmd.AddCommand(newQueueList(a))
	return cmd
}

func exactlyOneQueue(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("give one queue's name, not %d", len(args))
	}
	return nil
}

// onQueue is the body of a verb about one queue.
func (a *app) onQueue(f func(ctx context.Context, c *dbq.Client, q *dbq.Queue) error) func(*cobra.Command, []string) error {
	return a.verb(func(ctx context.Context, args []string) error {
		c, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(ctx, c, c.Queue(args[0]))
	})
}

func newQueuePause(a *app) *cobra.Command {
	var reason string
	var create bool
	cmd := &cobra.Command{
		Use:     "pause QUEUE",
		Short:   "Stop handing out the tasks of a queue",
		Long:    "Stop handing out the tasks of a queue until it is resumed. Running tasks finish, and new tasks are accepted.",
		Example: `  dbq queue pause mail --reason "the mail server is down"`,
		Args:    exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, c *dbq.Client, q *dbq.Queue) error {
			if err := mustBeKnown(ctx, c, q.Name(), create); err != nil {
				return err
			}
			if err := q.Pause(ctx, reason); err != nil {
				return err
			}
			return a.done("paused %s", q.Name())
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, for people")
	addCreate(cmd.Flags(), &create)
	return cmd
}

func newQueueResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "End a pause",
		Example: "  dbq queue resume mail",
		Args:    exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, c *dbq.Client, q *dbq.Queue) error {
			if err := mustBeKnown(ctx, c, q.Name(), false); err != nil {
				return err
			}
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
	f.IntVar(&s.concurrency, "concurrency", 0, "run up to `N` tasks at once in each worker (0: each worker's own)")
	f.IntVar(&s.batch, "batch", 0, "check out at most `N` tasks at once (0: each worker's own)")
	durationVar(f, &s.poll, "poll", 0, "look for tasks at least once in this `TIME` (0: each worker's own)")
	durationVar(f, &s.lease, "lease", 0, "lease tasks for this `TIME` (0: each worker's own)")
	f.IntVar(&s.maxAttempts, "max-attempts", 0, "cap a task's own number of attempts at `N` (0: no cap)")
	f.StringVar(&s.history, "history", "", "record these `ATTEMPTS`: all, failures or none")
	s.addRetention(cmd, f)
}

func (s *settingFlags) addRetention(cmd *cobra.Command, f *pflag.FlagSet) {
	f.Var((*keepFlag)(&s.completed), "keep-completed", "keep COMPLETED tasks for this `TIME`, such as 24h or 7d, or forever (0: the worker's default)")
	f.Var((*keepFlag)(&s.poison), "keep-poison", "keep POISON tasks for this `TIME` (0: the worker's default)")
	f.Var((*keepFlag)(&s.parked), "keep-parked", "keep parked tasks for this `TIME` (0: the worker's default)")
	f.Var((*keepFlag)(&s.attempts), "keep-attempts", "keep the history of attempts for this `TIME` (0: the worker's default)")
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
	var create bool
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Change the settings of a queue's workers",
		Long: `Change the settings of a queue's workers. Only what a flag names is changed. 0 leaves a setting to each worker again.

One of the queue's workers removes what has been kept for long enough, a little at a time. Unless --keep-... says otherwise, workers keep
completed tasks for 24 hours, the history for 7 days, and everything else forever.`,
		Example: `  dbq queue set mail --concurrency 20 --lease 2m
  dbq queue set mail --keep-completed 24h --keep-poison 30d --keep-attempts 30d
  dbq queue set mail --keep-completed forever --keep-attempts forever`,
		Args: exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, c *dbq.Client, q *dbq.Queue) error {
			if !s.given() {
				return usagef("nothing to set: give at least one flag (dbq queue set --help)")
			}
			if err := mustBeKnown(ctx, c, q.Name(), create); err != nil {
				return err
			}
			if err := q.Configure(ctx, s.change); err != nil {
				return err
			}
			return a.done("set %s", q.Name())
		}),
	}
	s.add(cmd)
	addCreate(cmd.Flags(), &create)
	return cmd
}

func newQueueClean(a *app) *cobra.Command {
	var s settingFlags
	cmd := &cobra.Command{
		Use:   "clean QUEUE",
		Short: "Remove what a queue has kept for long enough, now",
		Long: `Remove now what a queue has kept for long enough: by its settings, or by the flags alone when any is given. It works in short
transactions and may be broken off at any time.`,
		Example: `  dbq queue clean mail
  dbq queue clean mail --keep-completed 1h`,
		Args: exactlyOneQueue,
		RunE: a.onQueue(func(ctx context.Context, _ *dbq.Client, q *dbq.Queue) error {
			var settings dbq.QueueSettings
			var err error
			if s.given() {
				s.change(&settings)
			} else if settings, err = q.Settings(ctx); err != nil {
				return err
			}
			if !settings.Retention.Removes() {
				return usagef("the settings of queue %s remove nothing: say what to remove, such as --keep-completed 24h", q.Name())
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
