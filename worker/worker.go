// Package worker runs a handler on a queue's tasks: it polls, keeps the leases of what it holds, settles what is done in batches, and
// drains when it is told to stop.
//
//	w := worker.Worker{Queue: c.Queue("mail"), Handler: worker.HandlerFunc(send)}
//	err := w.Run(ctx) // until ctx ends; then it drains
//
// A task is handed out at least once. A handler's context ends when the task's lease is lost; what the handler does after that another
// worker may be doing, too. Effects that must happen once belong in the transaction that completes the task: CompleteTx, and return
// Settled.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// A Worker runs a Handler on a queue's tasks. Queue and Handler are required; a zero field means the documented default. Do not change
// it while Run runs.
type Worker struct {
	Queue   *dbq.Queue
	Handler Handler

	// Concurrency is how many handlers run at once. The default is 10.
	Concurrency int
	// Batch bounds how many tasks are leased ahead of the handlers, by one checkout. The worker leases as many as its handlers get done
	// in about a tenth of a second, between Concurrency and Batch, so that slow tasks are left for other workers. The default is 500.
	Batch int
	// Lease is how long the tasks of a worker that died stay with it. Leases are renewed three times within it. The default is 30
	// seconds, the least 100 milliseconds.
	Lease time.Duration
	// PollMin and PollMax are the pauses between polls of an empty queue: they grow from one to the other, with jitter. A queue
	// that is not empty is polled at once. The defaults are 10 milliseconds and 1 second.
	PollMin, PollMax time.Duration
	// DrainTimeout is how long handlers may go on once Run's context has ended; then their contexts end, too. The default is 30 seconds.
	DrainTimeout time.Duration
	// Backoff is the pause before attempt+1 of a task that failed. The default is Exponential(time.Second, time.Hour).
	Backoff func(attempt int) time.Duration
	// UntilEmpty makes Run drain and return when a poll finds nothing due.
	UntilEmpty bool
	// Logger is where lost leases, panics and database errors are reported. The default is the client's.
	Logger *slog.Logger
}

const (
	defaultConcurrency = 10
	defaultBatch       = 500
	defaultLease       = 30 * time.Second
	minLease           = 100 * time.Millisecond
	defaultPollMin     = 10 * time.Millisecond
	defaultPollMax     = time.Second
	defaultDrain       = 30 * time.Second
	// leaveAfter is how long a handler may ignore that its context has ended before Run returns without it.
	leaveAfter = 5 * time.Second
)

// ErrConfig is returned by Run for a Worker that cannot run.
var ErrConfig = errors.New("worker: invalid configuration")

// ErrAbandoned is returned by Run when handlers ignored the end of their context. Their tasks are handed out again when their leases
// have run out.
var ErrAbandoned = errors.New("worker: handlers did not return")

// ErrShutdown is the cause of a handler's context when DrainTimeout is over.
var ErrShutdown = errors.New("worker: shutting down")

// Run works until ctx ends, or an error that no repetition would cure: an ErrConfig, ErrClosed, or a queue name that is refused. A
// database that cannot be reached is not one: Run goes on trying.
//
// When ctx has ended, tasks that were not started are released at once, and running handlers get DrainTimeout to finish; heartbeats go
// on meanwhile. A handler that gives up because its context ended has its task released. Run returns nil after a clean drain.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.newRun()
	if err != nil {
		return err
	}
	beat, stopBeat := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { r.heartbeats(beat) })
	background.Go(r.settler.run)
	for range r.cfg.Concurrency {
		r.handlers.Go(r.handle)
	}

	err = r.fetch(ctx)
	r.release(r.stopHanding())
	left := r.drain()
	r.settler.stop()
	stopBeat()
	background.Wait()
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of them", ErrAbandoned, left))
	}
	return err
}

// withDefaults checks the fields and fills in those that are zero.
func (w Worker) withDefaults() (Worker, error) {
	if w.Queue == nil || w.Handler == nil {
		return w, fmt.Errorf("%w: Queue and Handler are required", ErrConfig)
	}
	if w.Concurrency < 0 || w.Batch < 0 || w.Lease < 0 || w.PollMin < 0 || w.PollMax < 0 || w.DrainTimeout < 0 {
		return w, fmt.Errorf("%w: a negative field", ErrConfig)
	}
	w.Concurrency = or(w.Concurrency, defaultConcurrency)
	w.Batch = max(or(w.Batch, defaultBatch), 1)
	w.Lease = or(w.Lease, defaultLease)
	w.PollMin = or(w.PollMin, defaultPollMin)
	w.PollMax = max(or(w.PollMax, defaultPollMax), w.PollMin)
	w.DrainTimeout = or(w.DrainTimeout, defaultDrain)
	if w.Lease < minLease || w.Lease > dbq.MaxLease {
		return w, fmt.Errorf("%w: a lease of %v, it must be between %v and %v", ErrConfig, w.Lease, minLease, dbq.MaxLease)
	}
	if w.Batch > dbq.MaxCheckout {
		return w, fmt.Errorf("%w: a batch of %d, at most %d are allowed", ErrConfig, w.Batch, dbq.MaxCheckout)
	}
	if w.Backoff == nil {
		w.Backoff = Exponential(time.Second, time.Hour)
	}
	if w.Logger == nil {
		w.Logger = w.Queue.Client().Logger()
	}
	w.Logger = w.Logger.With("queue", w.Queue.Name())
	return w, nil
}

func or[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// run is one call of Run.
type run struct {
	cfg      Worker
	held     *held
	settler  *settler
	handlers sync.WaitGroup

	ready   chan *job     // leased, not started
	hungry  chan struct{} // told when ready runs low
	quit    chan struct{} // closed when no more is to be started
	drained chan struct{} // closed when all handlers have returned
}

func (w *Worker) newRun() (*run, error) {
	cfg, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{
		cfg:     cfg,
		held:    newHeld(),
		ready:   make(chan *job, 2*max(cfg.Batch, cfg.Concurrency)),
		hungry:  make(chan struct{}, 1),
		quit:    make(chan struct{}),
		drained: make(chan struct{}),
	}
	r.settler = newSettler(cfg, r.held)
	return r, nil
}

// stopHanding ends the handlers' intake and takes back what was not started.
func (r *run) stopHanding() []*job {
	close(r.quit)
	var back []*job
	for {
		select {
		case j := <-r.ready:
			back = append(back, j)
		default:
			return back
		}
	}
}

// release hands jobs back that were never started.
func (r *run) release(jobs []*job) {
	for _, j := range jobs {
		r.settler.add(j, dbq.Released(j.currentLease(), 0))
	}
}

// drain waits for the handlers: first for DrainTimeout, then with their contexts ended for a little longer. It says how many it left.
func (r *run) drain() int {
	go func() {
		r.handlers.Wait()
		close(r.drained)
	}()
	if r.waitDrained(r.cfg.DrainTimeout) {
		return 0
	}
	r.held.cancelAll(ErrShutdown)
	if r.waitDrained(leaveAfter) {
		return 0
	}
	left := r.held.running()
	for _, j := range left {
		r.cfg.Logger.Error("worker: a handler ignores the end of its context", "task", j.task.ID, "attempt", j.task.Attempt)
	}
	return len(left)
}

func (r *run) waitDrained(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.drained:
		return true
	case <-timer.C:
		return false
	}
}
