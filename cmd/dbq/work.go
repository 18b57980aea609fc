package main

import (
	"cmp"
	"context"
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

const workLong = `Run a program for each task of a queue: the payload on its stdin, its exit code says what becomes of the task.

  0         completed; what it wrote to stdout is the result (%[1]d bytes are kept)
  65        POISON: the input is bad, no other attempt would help (EX_DATAERR)
  78        parked in ERROR until an operator acts (EX_CONFIG)
  another   tried again after a pause that grows with each attempt, until the attempts are spent (75 is one of these)

Of a failure, exit code and the end of stderr are kept as the task's result. The payload is complete before the program starts.

The program gets dbq's environment without what leads into the database, since it could print it: DBQ_*, PG*, MYSQL_*, MARIADB_*,
ORACLE_*, TNS_* and any variable that holds the DSN. --env NAME passes one of these, --pass-env all. A DSN in --dsn can be read by every
process on the machine, and one in DBQ_DSN by those of the same user: prefer --dsn-file. In addition the program gets

  DBQ_TASK_ID  DBQ_QUEUE  DBQ_KIND  DBQ_REFERENCE  DBQ_ATTEMPT  DBQ_MAX_ATTEMPTS  DBQ_FENCE
  DBQ_HEADER_NAME for each header: upper case, with _ for what is no letter or digit

DBQ_FENCE only grows for a task: hand it on to a system that should refuse a worker whose task was taken over.

The lease is extended while the program runs. When it is lost all the same (revoked, or this machine slept), and when
--timeout or --drain is over, the program is killed together with the processes it started. After --timeout the attempt has failed.
On Linux the program is also killed when dbq itself dies, however it dies; processes that the program started may then live on.

What operators set for the queue stands above these flags (dbq queue set), and one worker can be told to pause, to resume and to
stop (dbq worker). On PostgreSQL it follows at once, elsewhere at its next --check.

SIGTERM or SIGINT (Ctrl-C) takes no more tasks and waits for the running programs, then exit code 0; a second one kills them, exit
code 130, and their tasks are taken over when their leases have run out.

Each attempt's end is a line on stderr, or with --json a line on stdout:
  {"task":"…","queue":"mail","attempt":1,"outcome":"completed","seconds":0.12}   or "failed", "poisoned", "parked", "stopped"

Without --dsn and DBQ_DSN it works on the SQLite file dbq.db in the current folder, which is made if need be.`

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
	l.StringVar(&f.program, "exec", "", "the `PROGRAM`; it may as well follow the flags, with its arguments")
	l.IntVarP(&f.concurrency, "concurrency", "c", 1, "run `N` programs at the same time")
	l.IntVar(&f.batch, "batch", 1000, "at most `N` tasks in one checkout; no more than the programs take on")
	durationVar(l, &f.lease, "lease", 30*time.Second, "a crashed worker's task is taken over after this `TIME`")
	durationVar(l, &f.timeout, "timeout", 0, "kill a program that runs for longer than this `TIME` (0: none)")
	durationVar(l, &f.drain, "drain", 30*time.Second, "`TIME` to wait for running programs when told to stop")
	durationVar(l, &f.poll, "poll", 2*time.Second, "look for tasks after this `TIME` at the latest, also when nothing tells of any")
	l.IntVar(&f.maxAttempts, "max-attempts", 0, "after `N` attempts a failing task is POISON, if it allows more (0: the task's own)")
	l.StringVar(&f.history, "history", "all", "which attempts are recorded: all, failures or none")
	f.keep.addRetention(cmd, pflag.NewFlagSet("", pflag.ContinueOnError))
	l.StringVar(&f.id, "id", "", "the worker's `NAME` in the registry, and no other's (default dbq@HOST/PROCESS#RANDOM/QUEUE)")
	durationVar(l, &f.check, "check", 15*time.Second, "tell the registry and ask for orders and settings after this `TIME` at the latest")
	l.BoolVar(&f.paused, "paused", false, "begin paused, until dbq worker resume")
	l.BoolVar(&f.untilEmpty, "until-empty", false, "stop when nothing is due or in work, exit code 1 when a task failed; delayed tasks and later retries are left")
	l.BoolVar(&f.env.all, "pass-env", false, "give programs all of dbq's environment, with what leads into the database")
	l.StringArrayVar(&f.env.also, "env", nil, "give programs this variable although it belongs to the database; `NAME`, repeatable")
	l.BoolVar(&f.quiet, "quiet", false, "no line for each attempt")
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
	case utf8.RuneCountInString(f.id) > dbq.MaxReference:
		return nil, usagef("--id has %d characters, at most %d are allowed", utf8.RuneCountInString(f.id), dbq.MaxReference)
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
	w := f.worker(c, p)
	w.Logger = newLogger(a)
	switch {
	case f.paused:
		a.note("paused, until: dbq worker resume %s", w.ID)
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
		err = p.verdict()
	}
	return err
}

func (f *workFlags) worker(c *dbq.Client, h worker.Handler) worker.Worker {
	var settings dbq.QueueSettings
	f.keep.change(&settings)
	id := cmp.Or(f.id, c.ID()+"/"+f.queue)
	if utf8.RuneCountInString(id) > dbq.MaxReference {
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
	w.Observe = func(e worker.Event) {
		if e.Order == dbq.OrderStop {
			stopped.Store(true)
		}
	}
	for {
		err := w.Run(ctx)
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
