package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/spf13/cobra"
)

// demoWorker is one of the demo's workers, in a process of its own.
type demoWorker struct {
	*app
	dir, name, completions string
	concurrency            int
	pause                  time.Duration
	holdFirst              bool // keep the first task until the process is killed

	first    sync.Once
	stopping <-chan struct{}
}

// newDemoWorker is the command by which the demo starts its workers.
func newDemoWorker(a *app) *cobra.Command {
	w := &demoWorker{app: a}
	cmd := &cobra.Command{Use: "demo-worker", Hidden: true, Args: noArgs("")}
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error { return w.run(ctx) })
	l := cmd.Flags()
	l.StringVar(&w.dir, "dir", "", "")
	l.StringVar(&w.name, "name", "", "")
	l.StringVar(&w.completions, "completions", "", "")
	l.IntVar(&w.concurrency, "concurrency", 2, "")
	durationVar(l, &w.pause, "pause", 0, "")
	l.BoolVar(&w.holdFirst, "hold-first", false, "")
	return cmd
}

func (w *demoWorker) run(ctx context.Context) error {
	c, err := w.open(ctx, dbq.WithName(w.name))
	if err != nil {
		return err
	}
	defer c.Close()
	// The file is opened for appending: a line is one write, also with several processes.
	completions, err := os.OpenFile(w.completions, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer completions.Close()
	// The demo holds the other end of stdin: a worker does not outlive it, even one that was killed.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		_, _ = io.Copy(io.Discard, w.in)
		stop(nil)
	}()
	w.stopping = ctx.Done()
	run := worker.Worker{
		Queue: c.Queue(demoQueue), Handler: w, Concurrency: w.concurrency, Lease: demoLease, DrainTimeout: 2 * time.Second,
		PollMin: 5 * time.Millisecond, PollMax: 100 * time.Millisecond, Logger: newLogger(w.app),
		// The demo counts what the database granted to workers, and not only what it says in the end.
		Observe: func(e worker.Observation) {
			if e.Kind != worker.Recorded || e.Err != nil || e.State != dbq.StateCompleted {
				return
			}
			if _, err := fmt.Fprintf(completions, "%s %d\n", e.Task.ID, e.Task.Fence); err != nil {
				stop(err)
			}
		},
	}
	err = run.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// HandleTask completes a task with the hash of the file that it names. A file that cannot be read is POISON: another
// attempt would not help.
func (w *demoWorker) HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome {
	hold := false
	if w.holdFirst {
		w.first.Do(func() { hold = true })
	}
	if hold {
		if err := w.say("holds %s %d", t.ID, t.Fence); err != nil {
			return dbq.Failed(err)
		}
		select { // it is killed, unless it is told to stop
		case <-w.stopping:
			return dbq.RetryIn(0, errors.New("the demo was stopped"))
		case <-ctx.Done():
			return dbq.Failed(ctx.Err())
		}
	}
	select {
	case <-time.After(w.pause):
	case <-ctx.Done():
		return dbq.Failed(ctx.Err())
	}
	got := hashFile(w.dir, string(t.Payload))
	if got.err != nil {
		return dbq.Poisoned(got.err)
	}
	return dbq.Completed([]byte(got.sum))
}
