package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of a program that mean more than "failed". They are those of sysexits.h; 75 (EX_TEMPFAIL) is a retry, as
// any other code.
const (
	exitPoison = 65 // EX_DATAERR
	exitPark   = 78 // EX_CONFIG
)

const workLong = `Run a program for each task of a queue. The program reads the payload from stdin, and its exit code
decides what happens to the task:

  0         completed; its stdout is the result (%[1]d bytes are kept)
  65        POISON: the input is bad, and another attempt would not help (EX_DATAERR)
  78        parked in ERROR until an operator acts (EX_CONFIG)
  other     retried after a pause that grows with each attempt, until the attempts are spent (75, EX_TEMPFAIL,
            is one of these)

When a program fails, its exit code and the end of its stderr are kept as the task's result. The payload is
complete on stdin before the program starts.

The program gets dbq's environment without the settings of dbq and of database clients, because a program may
print its environment: DBQ_*, PG*, MYSQL_*, MARIADB_*, ORACLE_*, TNS_*, and any variable that holds the DSN.
--env NAME passes one of them, --pass-env passes all. A DSN given as --dsn is visible to every process on the
machine, and one in DBQ_DSN to processes of the same user: prefer --dsn-file. These variables describe the task:

  DBQ_TASK_ID  DBQ_QUEUE  DBQ_KIND  DBQ_REFERENCE  DBQ_ATTEMPT  DBQ_MAX_ATTEMPTS  DBQ_FENCE
  DBQ_HEADER_NAME for each header: in upper case, with _ for anything but letters and digits; when two names
  become the same, as a-b and a_b do, the second by name order ends in _2

DBQ_FENCE only grows for a task. Pass it to a system that should refuse a worker whose task was taken over.

The lease is extended while the program runs. When the lease is lost, or --timeout or --drain ends, the program
is killed together with the processes it started; after --timeout the attempt has failed. On Linux the program
is also killed when dbq itself dies; processes that it started may then survive.

The queue's settings (dbq queue set) override these flags, and operators can pause, resume and stop a single
worker (dbq worker). On PostgreSQL both take effect at once, elsewhere at the next --check.

The first SIGTERM or SIGINT (Ctrl-C) stops taking tasks and waits for running programs; dbq then exits with
code 0. A second one kills the programs and exits with code 130; their tasks are taken over when their leases
expire.

Each attempt prints a line on stderr when it ends, or with --json a line on stdout:
  {"task":"…","queue":"mail","attempt":1,"outcome":"completed","seconds":0.12}
  or "failed", "poisoned", "parked", "stopped"

By default it uses ./dbq.db, which it creates when missing.`

// workFlags are the flags of work.
type workFlags struct {
	queue, id, program              string
	concurrency, batch, maxAttempts int
	lease, drain, timeout           time.Duration
	poll, check                     time.Duration
	history                         dbq.History
	keep                            dbq.Retention
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
	a.addQueueFlag(cmd, &f.queue, "the queue's `NAME`")
	f.add(cmd.Flags())
	addInOrder(cmd, retentionFlags(&f.keep))
	return cmd
}

func (f *workFlags) add(l *pflag.FlagSet) {
	l.SetInterspersed(false) // what follows the program is the program's
	l.StringVar(&f.program, "exec", "", "the `PROGRAM`, which may also follow the flags with its arguments")
	l.IntVarP(&f.concurrency, "concurrency", "c", 1, "run up to `N` programs at the same time")
	l.IntVar(&f.batch, "batch", 1000, "check out at most `N` tasks at once, and never more than the programs can take")
	durationVar(l, &f.lease, "lease", 30*time.Second,
		"another worker takes a crashed worker's task over after this `TIME`")
	durationVar(l, &f.timeout, "timeout", 0, "kill a program that runs for longer than this `TIME` (0: none)")
	durationVar(l, &f.drain, "drain", 30*time.Second, "wait this `TIME` for running programs when stopping")
	durationVar(l, &f.poll, "poll", 2*time.Second,
		"look for tasks at least once in this `TIME`, even without a notification")
	l.IntVar(&f.maxAttempts, "max-attempts", 0, "cap the task's own number of attempts at `N` (0: no cap)")
	l.StringVar((*string)(&f.history), "history", "all", "which attempts are recorded: all, failures or none")
	l.StringVar(&f.id, "id", "",
		"the worker's `NAME` in the registry, and no other's (default dbq@HOST/PROCESS#RANDOM/QUEUE)")
	durationVar(l, &f.check, "check", 15*time.Second,
		"report to the registry, and read commands and settings, at least once in this `TIME`")
	l.BoolVar(&f.paused, "paused", false, "start paused, until dbq worker resume")
	l.BoolVar(&f.untilEmpty, "until-empty", false,
		"stop when nothing is due or running; exit code 1 when a task failed or the queue is paused")
	l.BoolVar(&f.env.all, "pass-env", false,
		"pass dbq's whole environment to programs, with the settings of database clients")
	l.StringArrayVar(&f.env.also, "env", nil,
		"pass the variable `NAME` to programs although it is withheld by default; repeatable")
	l.BoolVar(&f.quiet, "quiet", false, "print no line for each attempt")
}

// argv is the program with its arguments. It refuses flags that are out of their limits.
func (f *workFlags) argv(args []string) ([]string, error) {
	if f.program != "" {
		args = append([]string{f.program}, args...)
	}
	const leastPause = 10 * time.Millisecond
	var id error
	if n := utf8.RuneCountInString(f.id); n > dbq.MaxWorkerID {
		id = usagef("--id has %d characters, at most %d are allowed", n, dbq.MaxWorkerID)
	}
	switch {
	case f.queue == "":
		return nil, usagef("--queue is missing: dbq work --queue NAME -- PROGRAM")
	case f.drain <= 0:
		return nil, usagef("--drain %s: it must be more than 0", formatDuration(f.drain))
	case len(args) == 0:
		return nil, usagef("no program: dbq work --queue %s -- PROGRAM [ARG...]", f.queue)
	case !slices.Contains([]dbq.History{dbq.HistoryAll, dbq.HistoryFailures, dbq.HistoryNone}, f.history):
		return nil, usagef("--history %s: use %s, %s or %s",
			f.history, dbq.HistoryAll, dbq.HistoryFailures, dbq.HistoryNone)
	}
	err := cmp.Or(
		between("concurrency", f.concurrency, 1, dbq.MaxCheckout),
		between("batch", f.batch, 1, dbq.MaxCheckout),
		between("max-attempts", f.maxAttempts, 0, dbq.MaxMaxAttempts),
		durationBetween("lease", f.lease, 100*time.Millisecond, dbq.MaxLease),
		durationBetween("poll", f.poll, leastPause, dbq.MaxLease),
		durationBetween("check", f.check, leastPause, dbq.MaxLease),
		id, f.env.check(),
	)
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, usagef("cannot run %s: %w", args[0], err)
	}
	return append([]string{path}, args[1:]...), nil
}
