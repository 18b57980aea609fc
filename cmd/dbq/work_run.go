package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

// work runs the command until a signal stops it, or with --until-empty until the queue is empty.
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
	paused, err := f.pauseNotice(ctx, c)
	if err != nil {
		return err
	}
	w := f.worker(c, p)
	w.Logger = newLogger(a)
	switch {
	case f.paused:
		a.note("paused, until: dbq worker resume %s", w.ID)
	case paused != "" && !f.untilEmpty:
		a.note("%s, until: dbq queue resume %s", paused, f.queue)
	case !f.quiet && !f.untilEmpty:
		s := c.Info().Server
		a.note("working on queue %q of %s %s as %s; Ctrl-C stops", f.queue, s.Product, s.Version, w.ID)
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
			return &interrupted{"the running programs were killed; their tasks are taken over when their leases expire"}
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

// attemptsCap caps the attempts of tasks: the queue's setting, or else the flag. 0 is no cap.
func (f *workFlags) attemptsCap(ctx context.Context, c *dbq.Client) (int, error) {
	s, err := admin.New(c).QueueSettings(ctx, f.queue)
	return cmp.Or(s.MaxAttempts, f.maxAttempts), err
}

// pauseNotice says that the queue is paused, and why. It is "" when the queue is not.
func (f *workFlags) pauseNotice(ctx context.Context, c *dbq.Client) (string, error) {
	queues, err := admin.New(c).Queues(ctx)
	for _, q := range queues {
		switch {
		case q.Queue != f.queue || !q.Paused:
		case q.Reason == "":
			return fmt.Sprintf("queue %q is paused", q.Queue), err
		default:
			return fmt.Sprintf("queue %q is paused (%s)", q.Queue, q.Reason), err
		}
	}
	return "", err
}

// pausedVerdict is an error when --until-empty ended because the queue is paused, and not because it is empty.
func (f *workFlags) pausedVerdict(ctx context.Context, c *dbq.Client) error {
	paused, err := f.pauseNotice(ctx, c)
	if err != nil || paused == "" {
		return err
	}
	left, err := f.anyTask(ctx, c, state.Created, state.Error)
	if err != nil || !left {
		return err
	}
	return failedf("%s, and its tasks were left: dbq queue resume %s", paused, f.queue)
}

// anyTask reports whether the queue has a task in one of the states.
func (f *workFlags) anyTask(ctx context.Context, c *dbq.Client, states ...state.State) (bool, error) {
	tasks, err := admin.New(c).List(ctx, admin.Filter{Queue: f.queue, States: states, Limit: 1})
	return len(tasks) > 0, err
}

func (f *workFlags) worker(c *dbq.Client, h worker.Handler) worker.Worker {
	id := cmp.Or(f.id, c.Info().ID+"/"+f.queue)
	if utf8.RuneCountInString(id) > dbq.MaxWorkerID {
		id = c.Info().ID
	}
	return worker.Worker{
		Queue: c.Queue(f.queue), Handler: h, ID: id, Concurrency: f.concurrency, Batch: f.batch, Lease: f.lease,
		PollMax: f.poll, Timeout: f.timeout, DrainTimeout: f.drain, MaxAttempts: f.maxAttempts, History: f.history,
		Retention: f.keep, Check: f.check, Paused: f.paused, UntilEmpty: f.untilEmpty,
	}
}

// deniedMost is how many checkouts in a row the database may deny before dbq work gives up.
const deniedMost = 3

// run works until ctx ends, or with untilEmpty until no task is due or running. It waits for the tasks that other
// workers hold, which come back when these workers fail or die.
func (f *workFlags) run(ctx context.Context, c *dbq.Client, w worker.Worker) error {
	var stopped atomic.Bool
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var refused atomic.Int32 // checkouts in a row that the database denied
	w.Observe = func(e worker.Observation) {
		switch {
		case e.Command == dbq.CommandStop:
			stopped.Store(true)
		case e.Kind != worker.CheckedOut:
		case !errors.Is(e.Err, dbq.ErrDenied):
			refused.Store(0)
		case refused.Add(1) == deniedMost:
			cancel(e.Err) // it will not change by itself, and nobody sees a worker that goes on trying
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
		running, err := f.anyTask(ctx, c, state.Processing)
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
