package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/spf13/cobra"
)

// demoWorkerFlags are how the demo tells a worker what to do.
type demoWorkerFlags struct {
	dir, name, accepts string
	slots              int
	pause              time.Duration
	victim             bool
}

// newDemoWorker is the verb that the demo starts its workers with.
func newDemoWorker(a *app) *cobra.Command {
	var f demoWorkerFlags
	cmd := &cobra.Command{
		Use:    "demo-worker",
		Hidden: true,
		Args:   noArgs(""),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			return a.demoWork(ctx, f)
		}),
	}
	l := cmd.Flags()
	l.StringVar(&f.dir, "dir", "", "")
	l.StringVar(&f.name, "name", "", "")
	l.StringVar(&f.accepts, "accepts", "", "")
	l.IntVar(&f.slots, "slots", 2, "")
	durationVar(l, &f.pause, "pause", 0, "")
	l.BoolVar(&f.victim, "victim", false, "")
	return cmd
}

func (a *app) demoWork(ctx context.Context, f demoWorkerFlags) error {
	c, err := a.open(ctx, dbq.WithName(f.name))
	if err != nil {
		return err
	}
	defer c.Close()
	notes, err := os.OpenFile(f.accepts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer notes.Close()
	// The demo holds the other end of stdin: a worker does not outlive it, even one that was killed.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, a.in)
		stop()
	}()
	acc := &acceptor{queue: c.Queue(demoQueue), notes: notes, in: make(chan attempt)}
	settling, stopSettling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSettling()
	go acc.run(settling)
	w := worker.Worker{
		Queue: acc.queue, Handler: &demoHandler{a: a, f: f, accept: acc, stopping: ctx.Done()}, Concurrency: f.slots, Lease: demoLease,
		PollMin: 5 * time.Millisecond, PollMax: 100 * time.Millisecond, DrainTimeout: 2 * time.Second, Logger: newLogger(a),
	}
	return w.Run(ctx)
}

// demoHandler hashes the file that a task names.
type demoHandler struct {
	a      *app
	f      demoWorkerFlags
	accept *acceptor

	first    sync.Once
	stopping <-chan struct{}
}

// Handle leaves the hash as the result. A file that cannot be read is POISON: no other attempt would help.
func (h *demoHandler) Handle(ctx context.Context, t dbq.Task) ([]byte, error) {
	holds := false
	if h.f.victim {
		h.first.Do(func() { holds = true })
	}
	if holds {
		if err := h.a.say("holds %s %d", t.ID, t.Fence); err != nil {
			return nil, err
		}
		select { // it is killed, unless it is told to stop
		case <-h.stopping:
			return nil, worker.RetryIn(0, errors.New("the demo was stopped"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case <-time.After(h.f.pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := dbq.Settlement{}
	if got := hashFile(h.f.dir, string(t.Payload)); got.err != nil {
		s = dbq.Poisoned(t.Lease, got.err)
	} else {
		s = dbq.Completed(t.Lease, []byte(got.sum))
	}
	if err := h.accept.settle(s); err != nil {
		return nil, err
	}
	return nil, nil
}
