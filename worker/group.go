package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dbq-go/dbq"
)

// A Group runs several workers, one for each queue, in one process. They share one Concurrency and end together.
//
//	g := worker.Group{Concurrency: 20, Workers: []worker.Worker{
//		{Queue: c.Queue("mail"), Handler: mail, Weight: 3},
//		{Queue: c.Queue("reports"), Handler: reports, Concurrency: 2},
//	}}
//	err := g.Run(ctx) // until ctx ends; then it drains
//
// Unlike a Worker, a Group leases no tasks ahead of its handlers. With handlers that take less than a few milliseconds,
// several workers without a Group have more throughput.
type Group struct {
	// Workers are the group's workers, all on queues of one client, without a BatchHandler. The Concurrency of each
	// bounds its own handlers; zero means the group's.
	Workers []Worker
	// Concurrency is the number of tasks that are in handlers at once, of all workers together. The default is 10.
	Concurrency int
	// Strict starts tasks in the order of Workers: a worker gets handlers only while the queues of those before it have
	// no due tasks, or those workers are paused or at their own Concurrency. Tasks that have started are finished. A busy
	// queue can keep the later ones from ever being served.
	//
	// By default, workers whose queues have due tasks start tasks in proportion to Worker.Weight.
	Strict bool
}

// Run runs the workers until ctx ends, as Worker.Run does: each drains within its own DrainTimeout. An error of one
// worker that retrying cannot cure ends the others too. A worker that an operator stops, or whose queue is empty under
// UntilEmpty, leaves its handlers to the others. Run returns when all have ended, with the errors of all.
func (g *Group) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	runs, err := g.newRuns(ctx)
	if err != nil {
		return err
	}
	g.logStart(runs)
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, r := range runs {
		all.Go(func() {
			err := r.run()
			if r.source.isFinal(err) {
				stop()
			}
			if err != nil {
				errs[i] = fmt.Errorf("worker of queue %q: %w", r.cfg.Queue.Name(), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// logStart logs the group's server, queues and Concurrency, in one line.
func (g *Group) logStart(runs []*run) {
	var queues []string
	for _, r := range runs {
		queues = append(queues, r.cfg.Queue.Name())
	}
	attrs := append([]any{"queues", strings.Join(queues, " "), "version", dbq.Version()}, runs[0].source.attrs()...)
	newLogger(g.Workers[0].logger()).write(lineGroup,
		append(attrs, "concurrency", cmp.Or(g.Concurrency, defaultConcurrency), "strict", g.Strict)...)
}

// newRuns checks all workers, then makes their runs.
func (g *Group) newRuns(ctx context.Context) ([]*run, error) {
	if len(g.Workers) == 0 {
		return nil, fmt.Errorf("%w: a Group needs Workers", ErrConfig)
	}
	if err := notNegative("Group.Concurrency", g.Concurrency); err != nil {
		return nil, err
	}
	n := cmp.Or(g.Concurrency, defaultConcurrency)
	workers := make([]Worker, len(g.Workers))
	for i, w := range g.Workers {
		if g.Strict && w.Weight != 0 {
			return nil, fmt.Errorf("%w: Workers[%d] has a Weight, and the Group is Strict; set one of them", ErrConfig, i)
		}
		if w.BatchHandler != nil {
			return nil, fmt.Errorf("%w: Workers[%d] has a BatchHandler, which a Group does not support; run that Worker alone",
				ErrConfig, i)
		}
		w.Concurrency = min(cmp.Or(w.Concurrency, n), n)
		if _, err := w.withDefaults(); err != nil {
			return nil, fmt.Errorf("of Workers[%d]: %w", i, err)
		}
		if clientOf(w.Queue) != clientOf(g.Workers[0].Queue) {
			return nil, fmt.Errorf("%w: Workers[%d] and Workers[0] have different clients", ErrConfig, i)
		}
		workers[i] = w
	}
	s := &slots{strict: g.Strict, free: n}
	runs := make([]*run, len(workers))
	for i, w := range workers {
		h := &share{slots: s, weight: max(w.Weight, 1), ready: make(chan struct{}, 1), active: true}
		r, err := w.newRun(ctx, h)
		if err != nil {
			return nil, err
		}
		h.limit, runs[i] = r.executors.room, r
		s.shares = append(s.shares, h)
	}
	return runs, nil
}

// clientOf returns the client of a queue of a database, or nil.
func clientOf(q Queue) *dbq.Client {
	if db, ok := q.(*dbq.Queue); ok {
		return db.Client()
	}
	return nil
}
