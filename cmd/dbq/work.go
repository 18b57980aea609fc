package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of a program that mean more than "failed". They come from sysexits.h; 75 (EX_TEMPFAIL) is a retry, as any
// other code.
const (
	exitPoison = 65 // EX_DATAERR
	exitPark   = 78 // EX_CONFIG
)

// work is a run of dbq work.
type work struct {
	*app
	worker.Worker // as the flags describe it
	queue         string
	program       string
	grace         time.Duration
	env           environment
	quiet         bool
}

func newWork(a *app) *cobra.Command {
	w := &work{app: a}
	cmd := a.command("dbq work", nil, func(ctx context.Context, args []string) error {
		argv, err := w.argv(args)
		if err != nil {
			return err
		}
		if err := becomeInit(); err != nil {
			return err
		}
		return a.use(ctx, true, func(c *dbq.Client) error { return w.run(ctx, c, argv) })
	})
	cmd.Long = fmt.Sprintf(cmd.Long, dbq.MaxResult)
	cmd.DisableFlagsInUseLine = true
	a.addQueueFlag(cmd, &w.queue, "the queue's `NAME`")
	w.addFlags(cmd.Flags())
	addInOrder(cmd, retentionFlags(&w.Retention))
	return cmd
}

func (w *work) addFlags(l *pflag.FlagSet) {
	const leastPause = 10 * time.Millisecond
	l.SetInterspersed(false) // the arguments after the program are the program's
	l.StringVar(&w.program, "exec", "", "the `PROGRAM`; alternatively give it after the flags, with its arguments")
	l.VarP(intWithin(&w.Concurrency, 1, 1, dbq.MaxCheckout), "concurrency", "c", "run up to `N` programs at the same time")
	l.Var(intWithin(&w.MaxCheckout, 1000, 1, dbq.MaxCheckout), "max-checkout",
		"check out at most `N` tasks at once, but never more than programs can start")
	durationVar(l, &w.Lease, "lease", 30*time.Second,
		"other workers take over a crashed worker's tasks after this `TIME`").within(100*time.Millisecond, dbq.MaxLease)
	durationVar(l, &w.Timeout, "timeout", 0, "stop a program that runs for longer than this `TIME` (0: none)")
	durationVar(l, &w.grace, "grace", 5*time.Second,
		"kill a program that has not ended this `TIME` after SIGTERM")
	durationVar(l, &w.DrainTimeout, "drain", 30*time.Second,
		"when stopping, wait this `TIME` for running programs").within(time.Millisecond, 0)
	durationVar(l, &w.PollMax, "poll", 2*time.Second,
		"poll for tasks at least once in this `TIME`, even without a notification").within(leastPause, dbq.MaxLease)
	l.Var(intWithin(&w.MaxAttempts, 0, 0, dbq.MaxMaxAttempts), "max-attempts",
		"cap each task's maximum of attempts at `N` (0: no cap)")
	l.StringVar((*string)(&w.History), "history", "all", "record these `ATTEMPTS`: all, failures or none")
	l.StringVar(&w.ID, "id", "",
		"the worker's unique `NAME` in the registry (default dbq@HOST/PROCESS#RANDOM/QUEUE)")
	durationVar(l, &w.ReportInterval, "report-interval", 15*time.Second,
		"report to the registry, and read commands and settings, at least once in this `TIME`").
		within(leastPause, dbq.MaxLease)
	l.BoolVar(&w.UntilEmpty, "until-empty", false,
		"stop when nothing is due or running; exit code 1 when a task failed or the queue is paused")
	l.BoolVar(&w.env.all, "pass-env", false,
		"pass dbq's whole environment to programs, including the settings of database clients")
	l.StringArrayVar(&w.env.also, "env", nil,
		"pass the variable `NAME` to programs although it is withheld by default; repeatable")
	l.BoolVar(&w.quiet, "quiet", false, "print no line for each attempt")
}

// argv returns the program with its arguments, or an error about the flags.
func (w *work) argv(args []string) ([]string, error) {
	if w.program != "" {
		args = append([]string{w.program}, args...)
	}
	switch {
	case w.queue == "":
		return nil, usagef("--queue is missing: dbq work --queue NAME -- PROGRAM")
	case len(args) == 0:
		return nil, usagef("no program: dbq work --queue NAME -- PROGRAM [ARG...]")
	case !slices.Contains([]dbq.History{dbq.HistoryAll, dbq.HistoryFailures, dbq.HistoryNone}, w.History):
		return nil, usagef("--history: use %s, %s or %s",
			dbq.HistoryAll, dbq.HistoryFailures, dbq.HistoryNone)
	case utf8.RuneCountInString(w.ID) > dbq.MaxWorkerID:
		return nil, usagef("--id is longer than %d characters", dbq.MaxWorkerID)
	}
	if err := w.env.check(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, usagef("cannot run the program: %w", unnamed(err))
	}
	return append([]string{path}, args[1:]...), nil
}

// run runs the program for each task until a signal stops it, or with --until-empty until the queue is empty.
func (w *work) run(ctx context.Context, c *dbq.Client, argv []string) error {
	// The first signal ends ctx, too. From here on no signal ends the process before it has killed its programs.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	p := newProgramRunner(w.app, argv, w.env.inherited(w.environ(), w.givenDSN()), w.quiet)
	defer p.stop()
	s, err := admin.New(c).QueueSettings(ctx, w.queue)
	if err != nil {
		return err
	}
	p.grace, p.maxAttempts = w.grace, cmp.Or(s.MaxAttempts, w.MaxAttempts)
	w.Grace = w.grace + 2*pipeWait // the handler returns when the program has ended
	paused, err := w.pauseNotice(ctx, c)
	if err != nil {
		return err
	}
	if w.ID = cmp.Or(w.ID, c.Info().ID+"/"+w.queue); utf8.RuneCountInString(w.ID) > dbq.MaxWorkerID {
		w.ID = c.Info().ID
	}
	w.Queue, w.Handler, w.Logger = c.Queue(w.queue), p, newLogger(w.app)
	switch {
	case paused != "" && !w.UntilEmpty:
		w.note("%s; resume it with: dbq queue resume %s", paused, w.queue)
	case !w.quiet && !w.UntilEmpty:
		s := c.Info().Server
		w.note("working on queue %q of %s %s as %s; Ctrl-C stops", w.queue, s.Product, s.Version, w.ID)
	}
	var schedules sync.WaitGroup
	defer schedules.Wait()
	scheduling, stop := context.WithCancel(ctx)
	defer stop()
	if !w.UntilEmpty {
		schedules.Go(func() { _ = schedule.New(c).Run(scheduling) }) // it logs its errors
	}
	ended := make(chan error, 1)
	go func() { ended <- w.runWorker(ctx, c) }()
	for n := 0; ; {
		select {
		case err = <-ended:
		case <-signals:
			if n++; n == 1 {
				p.noteStopping(w.DrainTimeout)
				continue
			}
			p.killAll()
			return &interrupted{"the running programs were killed; their tasks are taken over when their leases expire"}
		}
		break
	}
	if err == nil && w.UntilEmpty && ctx.Err() == nil {
		if err = p.verdict(); err == nil {
			err = w.pausedVerdict(ctx, c)
		}
	}
	return err
}

// pauseNotice reports that the queue is paused, and why, or returns "" if it is not paused.
func (w *work) pauseNotice(ctx context.Context, c *dbq.Client) (string, error) {
	queues, err := admin.New(c).Queues(ctx)
	i := slices.IndexFunc(queues, func(q admin.QueueInfo) bool { return q.Queue == w.queue && q.Paused })
	if i < 0 {
		return "", err
	}
	notice := fmt.Sprintf("queue %q is paused", w.queue)
	if reason := queues[i].Reason; reason != "" {
		notice += " (" + reason + ")"
	}
	return notice, err
}

// pausedVerdict is an error when --until-empty ended because the queue is paused, and not because it is empty.
func (w *work) pausedVerdict(ctx context.Context, c *dbq.Client) error {
	paused, err := w.pauseNotice(ctx, c)
	if err != nil || paused == "" {
		return err
	}
	left, err := w.anyTask(ctx, c, state.Created, state.Error)
	if err != nil || !left {
		return err
	}
	return failedf("%s, so its tasks did not run; resume it with: dbq queue resume %s", paused, w.queue)
}

// anyTask reports whether the queue has a task in one of the states.
func (w *work) anyTask(ctx context.Context, c *dbq.Client, states ...state.State) (bool, error) {
	for _, in := range states { // an index leads to the tasks of one
		f := admin.Filter{Queue: w.queue, States: []state.State{in}, Limit: 1}
		if tasks, _, err := listUpTo(ctx, admin.New(c), f); err != nil || len(tasks) > 0 {
			return len(tasks) > 0, err
		}
	}
	return false, nil
}

// deniedMost is how many checkouts in a row the database may deny before dbq work gives up.
const deniedMost = 3

// runWorker works until ctx ends, or with --until-empty until no task is due or running. It waits for the tasks that
// other workers hold, which come back when these workers fail or die.
func (w *work) runWorker(ctx context.Context, c *dbq.Client) error {
	var stopped atomic.Bool
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var denied atomic.Int32 // checkouts in a row
	w.Observe = func(e worker.Observation) {
		switch {
		case e.Command == dbq.CommandStop:
			stopped.Store(true)
		case e.Type != worker.CheckedOut:
		case !errors.Is(e.Err, dbq.ErrDenied):
			denied.Store(0)
		case denied.Add(1) == deniedMost:
			cancel(e.Err) // it will not recover by itself, and a worker that keeps trying looks healthy
		}
	}
	for {
		err := w.Run(ctx)
		if cause := context.Cause(ctx); errors.Is(cause, dbq.ErrDenied) {
			return cause
		}
		if err != nil || ctx.Err() != nil || !w.UntilEmpty || stopped.Load() {
			return err
		}
		running, err := w.anyTask(ctx, c, state.Processing)
		if err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// newLogger logs warnings to stderr, such as that the database cannot be reached.
func newLogger(a *app) *slog.Logger {
	return slog.New(unprinted{slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})})
}

// unprinted is a handler that leaves out the lines about single attempts, which dbq work prints in its own words.
type unprinted struct{ slog.Handler }

// Handle passes the other lines on.
func (h unprinted) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "worker: attempt failed", "worker: task parked until an operator acts", "worker: task went to POISON":
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps leaving them out.
func (h unprinted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return unprinted{h.Handler.WithAttrs(attrs)}
}
