package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of a worked program that mean more than "failed". They are sysexits.h's; 75 (EX_TEMPFAIL) is a plain retry, as
// its name asks for.
const (
	exitPoison = 65 // EX_DATAERR
	exitPark   = 78 // EX_CONFIG
)

const workLong = `Run a program for each task of a queue. The program reads the payload from stdin, and its exit code decides what happens to the task:

  0         completed; its stdout is the result (%[1]d bytes are kept)
  65        POISON: the input is bad, and another attempt would not help (EX_DATAERR)
  78        parked in ERROR until an operator acts (EX_CONFIG)
  other     retried after a pause that grows with each attempt, until the attempts are spent (75, EX_TEMPFAIL, is one of these)

When a program fails, its exit code and the end of its stderr are kept as the task's result. The payload is complete on stdin before the
program starts.

The program gets dbq's environment without the settings of dbq and of database clients, because a program may print its environment:
DBQ_*, PG*, MYSQL_*, MARIADB_*, ORACLE_*, TNS_*, and any variable that holds the DSN. --env NAME passes one of them, --pass-env passes
all. A DSN given as --dsn is visible to every process on the machine, and one in DBQ_DSN to processes of the same user: prefer
--dsn-file. These variables describe the task:

  DBQ_TASK_ID  DBQ_QUEUE  DBQ_KIND  DBQ_REFERENCE  DBQ_ATTEMPT  DBQ_MAX_ATTEMPTS  DBQ_FENCE
  DBQ_HEADER_NAME for each header: in upper case, with _ for anything but letters and digits; when two names become the
  same, as a-b and a_b do, the second by name order ends in _2

DBQ_FENCE only grows for a task. Pass it to a system that should refuse a worker whose task was taken over.

The lease is extended while the program runs. When the lease is lost, or --timeout or --drain ends, the program is killed together with
the processes it started; after --timeout the attempt has failed. On Linux the program is also killed when dbq itself dies; processes
that it started may then survive.

The queue's settings (dbq queue set) override these flags, and operators can pause, resume and stop a single worker (dbq worker). On
PostgreSQL both take effect at once, elsewhere at the next --check.

The first SIGTERM or SIGINT (Ctrl-C) stops taking tasks and waits for running programs; dbq then exits with code 0. A second one kills the
programs and exits with code 130; their tasks are taken over when their leases expire.

Each attempt prints a line on stderr when it ends, or with --json a line on stdout:
  {"task":"…","queue":"mail","attempt":1,"outcome":"completed","seconds":0.12}   or "failed", "poisoned", "parked", "stopped"

By default it uses ./dbq.db, which it creates when missing.`

// deniedMost is how many checkouts in a row the database may deny before dbq work gives up.
const deniedMost = 3

// workFlags are the flags of work.
type workFlags struct {
	queue, id, program              string
	concurrency, batch, maxAttempts int
	lease, drain, timeout           time.Duration
	poll, check                     time.Duration
	history                         string
	keep                            settingFlags // of these the retention
	env                             environment
	paused, untilEmpty, quiet       bool
}

func newWork(a *app) *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use:   "work --queue QUEUE [FLAGS] -- PROGRAM [ARG...]",
		Short: "Run a program for each task of a queue",
		Long:  fmt.Sprintf(workLong, dbq.MaxResult),
		Example: `  dbq work --queue mail -- ./send-mail.sh
  dbq work --queue resize --concurrency 4 --lease 5m -- convert - -resize 800x out.jpg
  dbq work --queue sums --until-empty -- bc
  dbq work --queue mail --keep-completed 24h --timeout 5m -- ./send-mail.sh
  dbq work --queue mail --exec ./send-mail.sh`,
		DisableFlagsInUseLine: true,
		RunE: a.verb(func(ctx context.Context, args []string) error {
			argv, err := f.argv(args)
			if err != nil {
				return err
			}
			return a.work(ctx, f, argv)
		}),
	}
	l := cmd.Flags()
	l.SetInterspersed(false) // what follows the program is the program's
	l.StringVarP(&f.queue, "queue", "q", "", "the queue's `NAME`")
	l.StringVar(&f.program, "exec", "", "the `PROGRAM`, which may also follow the flags with its arguments")
	l.IntVarP(&f.concurrency, "concurrency", "c", 1, "run up to `N` programs at the same time")
	l.IntVar(&f.batch, "batch", 1000, "check out at most `N` tasks at once, and never more than the programs can take")
	durationVar(l, &f.lease, "lease", 30*time.Second, "another worker takes a crashed worker's task over after this `TIME`")
	durationVar(l, &f.timeout, "timeout", 0, "kill a program that runs for longer than this `TIME` (0: none)")
	durationVar(l, &f.drain, "drain", 30*time.Second, "wait this `TIME` for running programs when stopping")
	durationVar(l, &f.poll, "poll", 2*time.Second, "look for tasks at least once in this `TIME`, even without a notification")
	l.IntVar(&f.maxAttempts, "max-attempts", 0, "cap the task's own number of attempts at `N` (0: no cap)")
	l.StringVar(&f.history, "history", "all", "which attempts are recorded: all, failures or none")
	f.keep.addRetention(cmd, pflag.NewFlagSet("", pflag.ContinueOnError))
	l.StringVar(&f.id, "id", "", "the worker's `NAME` in the registry, and no other's (default dbq@HOST/PROCESS#RANDOM/QUEUE)")
	durationVar(l, &f.check, "check", 15*time.Second, "report to the registry, and read commands and settings, at least once in this `TIME`")
	l.BoolVar(&f.paused, "paused", false, "start paused, until dbq worker resume")
	l.BoolVar(&f.untilEmpty, "until-empty", false, "stop when nothing is due or running; exit code 1 when a task failed or the queue is paused")
	l.BoolVar(&f.env.all, "pass-env", false, "pass dbq's whole environment to programs, with the settings of database clients")
	l.StringArrayVar(&f.env.also, "env", nil, "pass the variable `NAME` to programs although it is withheld by default; repeatable")
	l.BoolVar(&f.quiet, "quiet", false, "print no line for each attempt")
	a.completeQueueFlag(cmd)
	return cmd
}

func (f *workFlags) argv(args []string) ([]string, error) {
	if f.program != "" {
		args = append([]string{f.program}, args...)
	}
	switch {
	case f.queue == "":
		return nil, usagef("--queue is missing: dbq work --queue NAME -- PROGRAM")
	case len(args) == 0:
		return nil, usagef("no program: dbq work --queue %s -- PROGRAM [ARG...]", f.queue)
	case f.concurrency < 1 || f.concurrency > dbq.MaxCheckout:
		return nil, usagef("--concurrency %d: it must be between 1 and %d", f.concurrency, dbq.MaxCheckout)
	case f.lease < 100*time.Millisecond || f.lease > dbq.MaxLease:
		return nil, usagef("--lease %s: it must be between 100ms and %s", formatDuration(f.lease), formatDuration(dbq.MaxLease))
	case f.drain <= 0:
		return nil, usagef("--drain %s: it must be more than 0", formatDuration(f.drain))
	case f.batch < 1 || f.batch > dbq.MaxCheckout:
		return nil, usagef("--batch %d: it must be between 1 and %d", f.batch, dbq.MaxCheckout)
	case f.maxAttempts < 0 || f.maxAttempts > dbq.MaxMaxAttempts:
		return nil, usagef("--max-attempts %d: it must be between 0 and %d", f.maxAttempts, dbq.MaxMaxAttempts)
	case f.poll < 10*time.Millisecond || f.poll > dbq.MaxLease:
		return nil, usagef("--poll %s: it must be between 10ms and %s", formatDuration(f.poll), formatDuration(dbq.MaxLease))
	case f.check < 10*time.Millisecond || f.check > dbq.MaxLease:
		return nil, usagef("--check %s: it must be between 10ms and %s", formatDuration(f.check), formatDuration(dbq.MaxLease))
	case !slices.Contains([]dbq.History{dbq.HistoryAll, dbq.HistoryFailures, dbq.HistoryNone}, dbq.History(f.history)):
		return nil, usagef("--history %s: use %s, %s or %s", f.history, dbq.HistoryAll, dbq.HistoryFailures, dbq.HistoryNone)
	case utf8.RuneCountInString(f.id) > dbq.MaxWorkerID:
		return nil, usagef("--id has %d characters, at most %d are allowed", utf8.RuneCountInString(f.id), dbq.MaxWorkerID)
	}
	if err := f.env.check(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, usagef("cannot run %s: %w", args[0], err)
	}
	return append([]string{path}, args[1:]...), nil
}

func (a *app) work(ctx context.Context, f workFlags, argv []string) error {
	c, err := a.openOrMake(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// The first signal ends ctx, too. From here on no signal ends the process before it has killed its programs.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	p := newProgramRunner(a, argv, f.env.inherited(a.givenDSN()), f.quiet)
	defer p.stop()
	if p.maxAttempts, err = f.attemptsCap(ctx, c); err != nil {
		return err
	}
	paused, err := pauseOf(ctx, c, f.queue)
	if err != nil {
		return err
	}
	w := f.worker(c, p)
	w.Logger = newLogger(a)
	switch {
	case f.paused:
		a.note("paused, until: dbq worker resume %s", w.ID)
	case paused != nil && !f.untilEmpty:
		a.note("%s, until: dbq queue resume %s", pausedText(paused), f.queue)
	case !f.quiet && !f.untilEmpty:
		a.note("working on queue %q of %s %s as %s; Ctrl-C stops", f.queue, c.Server().Product, c.Server().Version, w.ID)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx, c, w) }()
	for n := 0; ; {
		select {
		case err = <-ended:
		case <-signals:
			if n++; n == 1 {
				p.noteStopping(f.drain)
				continue
			}
			p.killAll()
			return &interrupted{"the running programs were killed, their tasks are taken over when their leases have run out"}
		}
		break
	}
	if err == nil && f.untilEmpty && ctx.Err() == nil {
		if err = p.verdict(); err == nil {
			err = f.pausedVerdict(ctx, c)
		}
	}
	return err
}

// attemptsCap is after how many attempts a failing task is POISON here, 0 for the task's own number: the queue's setting, else the flag.
func (f *workFlags) attemptsCap(ctx context.Context, c *dbq.Client) (int, error) {
	s, err := c.Queue(f.queue).Settings(ctx)
	return cmp.Or(s.MaxAttempts, f.maxAttempts), err
}

// pausedVerdict is an error when --until-empty ended because the queue is paused, and not because it is empty.
func (f *workFlags) pausedVerdict(ctx context.Context, c *dbq.Client) error {
	paused, err := pauseOf(ctx, c, f.queue)
	if err != nil || paused == nil {
		return err
	}
	left, err := c.List(ctx, dbq.Filter{Queue: f.queue, States: []state.State{state.Created, state.Error}, Limit: 1})
	if err != nil || len(left) == 0 {
		return err
	}
	return failedf("%s, and its tasks were left: dbq queue resume %s", pausedText(paused), f.queue)
}

func (f *workFlags) worker(c *dbq.Client, h worker.Handler) worker.Worker {
	var settings dbq.QueueSettings
	f.keep.change(&settings)
	id := cmp.Or(f.id, c.ID()+"/"+f.queue)
	if utf8.RuneCountInString(id) > dbq.MaxWorkerID {
		id = c.ID()
	}
	return worker.Worker{
		Queue: c.Queue(f.queue), Handler: h, ID: id,
		Concurrency: f.concurrency, Batch: f.batch, Lease: f.lease, PollMax: f.poll, Timeout: f.timeout, DrainTimeout: f.drain,
		MaxAttempts: f.maxAttempts, History: dbq.History(f.history), Retention: settings.Retention,
		Check: f.check, Paused: f.paused, UntilEmpty: f.untilEmpty,
	}
}

// run works until ctx ends, or with untilEmpty until nothing is due and nothing in work. What other workers hold is waited for: it
// comes back when they fail or die.
func (f *workFlags) run(ctx context.Context, c *dbq.Client, w worker.Worker) error {
	var stopped atomic.Bool
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var refused atomic.Int32 // checkouts in a row that the database denied
	w.Observe = func(e worker.Event) {
		switch {
		case e.Order == dbq.OrderStop:
			stopped.Store(true)
		case e.Kind != worker.Polled:
		case !errors.Is(e.Err, dbq.ErrDenied):
			refused.Store(0)
		case refused.Add(1) == deniedMost:
			cancel(e.Err) // it will not change by itself, and nobody sees a worker that goes on asking
		}
	}
	for {
		err := w.Run(ctx)
		if cause := context.Cause(ctx); errors.Is(cause, dbq.ErrDenied) {
			return cause
		}
		if err != nil || ctx.Err() != nil || !f.untilEmpty || stopped.Load() {
			return err
		}
		w.Paused = false
		inWork, err := c.List(ctx, dbq.Filter{Queue: f.queue, States: []state.State{state.Processing}, Limit: 1})
		if err != nil || len(inWork) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}
