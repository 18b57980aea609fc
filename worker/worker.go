// Package worker runs a handler on a queue's tasks: it polls, keeps the leases of what it holds, settles what is done in batches, and
// drains when it is told to stop.
//
//	w := worker.Worker{Queue: c.Queue("mail"), Handler: worker.HandlerFunc(send)}
//	err := w.Run(ctx) // until ctx ends; then it drains
//
// A task is handed out at least once. A handler's context ends when the task's lease is lost; what the handler does after that another
// worker may be doing, too. Effects that must happen once belong in the transaction that completes the task: HandleTx.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
)

// A Worker runs a Handler on a queue's tasks. Queue and one of Handler and BatchHandler are required; a zero field means the documented
// default. Do not change it while Run runs.
type Worker struct {
	Queue   *dbq.Queue
	Handler Handler

	// BatchHandler is instead of Handler, and gets up to BatchSize tasks in one call: those that are there within 5 milliseconds of the
	// first. The default is 100, or Batch if that is less.
	BatchHandler BatchHandler
	BatchSize    int
	// Middleware is put around Handler, the first one outermost.
	Middleware []Middleware

	// Concurrency is how many handlers run at once. More than the pool of Client.DB has connections are reported in the log: handlers that
	// begin transactions then wait for each other. The default is 10.
	Concurrency int
	// Batch bounds how many tasks one checkout leases. The worker leases ahead what its handlers will begin while the next few checkouts
	// are under way, by how long both have taken lately, so that slow tasks are left for other workers, and four batches at most. The
	// default is 1000.
	Batch int
	// Lease is how long the tasks of a worker that died stay with it. Leases are renewed three times within it. The default is 30
	// seconds, the least 100 milliseconds.
	Lease time.Duration
	// PollMin and PollMax are the pauses between questions to an empty queue: they grow from one to the other, less a random part of up to
	// half. A queue that fills the batches is polled at once. The worker is woken before by a dbq.Bell, and when the next task is due that
	// the last question told of. The defaults are 10 milliseconds and 2 seconds, which is less than one question a second.
	PollMin, PollMax time.Duration
	// DrainTimeout is how long handlers, OnPoison and the database may go on once Run's context has ended (or the queue is empty, under
	// UntilEmpty). Then the contexts of handlers and of OnPoison end, and a second is left to write how they ended. Whatever happens, Run
	// returns within DrainTimeout and 3 seconds, 2 of which are for statements that are under way, and within Grace more when a handler or
	// OnPoison ignores its context. What could not be written by then is handed out again when its lease has run out. The default is 30
	// seconds.
	DrainTimeout time.Duration
	// Timeout is how long a handler may take for one task (or one batch), whatever its lease, which is renewed meanwhile. Then its context
	// ends with the cause ErrTimeout, and its error fails the attempt. The default is none.
	Timeout time.Duration
	// Grace is how long a handler may ignore the end of its context. Then the worker logs its stack and goes on without it: an attempt
	// whose Timeout is over has failed. The default is 5 seconds.
	Grace time.Duration
	// MaxAttempts is after how many attempts a task that fails here is POISON, when that is less than the task's own. The default is the
	// task's own.
	MaxAttempts int
	// OnPoison is called for each task that this worker moves to POISON, with what its handler returned; err is nil when the lease of the
	// last attempt ran out. Calls come one after the other, apart from the handlers. ctx ends when DrainTimeout is over, and Run waits for
	// the calls no longer than Grace after that. Calls for which it did not wait, or beyond 10,000 that wait for their turn, are not made,
	// and the log says how many. The default is nothing.
	OnPoison func(ctx context.Context, t dbq.Task, err error)
	// Observe is told what the worker does. It is called by many goroutines, and must return at once. The default is nothing.
	Observe func(e Event)
	// Switch pauses the worker. The default is none.
	Switch *Switch
	// Backoff is the pause before attempt+1 of a task that failed. The default is Exponential(time.Second, time.Hour).
	Backoff func(attempt int) time.Duration
	// UntilEmpty makes Run drain and return when nothing is due and this worker holds nothing. A task that it gave up without an answer
	// of the database, as when its lease ran out by the worker's clock, counts as held until the lease has ended there, and is then taken
	// over like any other. It does not listen then.
	UntilEmpty bool
	// ID is the worker's name in the registry, in the holder of its leases and in the history, and no other's: up to dbq.MaxWorkerID characters. The
	// default is the client's ID and a number.
	ID string
	// Check is how often the worker tells that it is alive, and asks what operators want; it also asks when a dbq.Bell tells that they want
	// something. Who has not told for three times as long is shown as silent. The default is 15 seconds, the least 10 milliseconds.
	Check time.Duration
	// Paused makes Run begin paused, until an operator orders the worker to resume: Client.OrderWorker, dbq worker resume.
	Paused bool
	// Unlisted keeps the worker out of the registry: it does not follow what operators set for its queue or order it to do, and does not
	// clean. The default is that it does, at a cost of about one statement in 5 seconds. A queue that is paused is so for all.
	Unlisted bool
	// History says which attempts are recorded, unless the queue's settings do. The default is all.
	History dbq.History
	// Retention says what is removed when, as far as the queue's settings do not. One worker of the queue removes it, once a minute. By
	// default completed tasks are kept for 24 hours and the history of attempts for 7 days; tasks in POISON, and parked ones, are never
	// removed. KeepForever removes nothing.
	Retention dbq.Retention
	// Logger gets one line for each event that an operator should know of, with a count where it comes to many tasks;
	// docs/worker.md lists them. No line has a payload. The default is the client's, which is slog.Default unless
	// WithLogger says otherwise.
	Logger *slog.Logger
}

// ErrConfig is returned by Run for a Worker that cannot run.
var ErrConfig = errors.New("worker: invalid configuration")

// ErrAbandoned is returned by Run when handlers ignored the end of their context. Their tasks are handed out again when their leases
// have run out.
var ErrAbandoned = errors.New("worker: handlers did not return")

// ErrTimeout is the cause of a handler's context when Timeout is over, and in the error of its attempt.
var ErrTimeout = errors.New("worker: the processing timeout is over")

// ErrShutdown is the cause of a handler's context when DrainTimeout is over.
var ErrShutdown = errors.New("worker: shutting down")

// Run works until ctx ends, or an error that no repetition would cure: an ErrConfig, ErrClosed, or a queue name that is refused. A
// database that cannot be reached is not one: Run goes on trying.
//
// When ctx has ended, tasks that were not started are released at once, and running handlers get DrainTimeout to finish; heartbeats go
// on meanwhile. A handler that gives up because its context ended has its task released. Run returns nil after a clean drain.
// DrainTimeout says when it returns at the latest.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.newRun(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.own)
	defer r.unreserve()
	defer cancel()
	defer r.ending.close()
	r.logStart()
	r.checkPool()
	stop := r.start(ctx)
	leave := r.join(cancel)
	for r.enter() {
		r.spawn()
	}
	err = r.fetch(ctx)
	r.ending.begin()
	r.draining.Store(true)
	r.logStopping()
	r.release(r.stopHanding())
	r.drain()
	stop()
	leave()
	if left := r.zombies.Load() + r.hooks.running.Load(); left > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of them", ErrAbandoned, left))
	}
	r.logStop(err)
	return err
}

// Step takes one task that is due, handles it and settles it, all before it returns; found is false when nothing is due. It is for tests
// and for programs that are started for each task. With a BatchHandler it takes up to BatchSize tasks, and returns the first. What became
// of the task is in the database. A handler that ignores its context is waited for.
func (w *Worker) Step(ctx context.Context) (t dbq.Task, found bool, err error) {
	r, err := w.newRun(ctx)
	if err != nil {
		return t, false, err
	}
	ctx = r.own
	defer r.unreserve()
	r.cfg.UntilEmpty = true // it does not listen
	n := 1
	if r.cfg.BatchHandler != nil {
		n = r.cfg.BatchSize
	}
	defer r.log.close()
	defer r.ending.close()
	stop := r.start(ctx)
	defer stop()
	defer r.stopHanding() // ends what was started in the place of a handler that ignores its context
	out, err := r.cfg.Queue.ForWorker(r.cfg.ID).CheckoutAndSpent(ctx, n, r.now().lease)
	tasks := out.Tasks
	r.foundCrashed(tasks, out.Spent)
	r.spent(out.Spent)
	if err != nil || len(tasks) == 0 {
		return t, false, err
	}
	jobs := make([]*job, len(tasks))
	for i, held := 0, r.held.add(tasks); i < len(held); i++ {
		jobs[i] = &held[i]
	}
	detach := context.AfterFunc(ctx, func() { r.held.cancelAll(ErrShutdown) })
	defer detach()
	r.enter()
	r.handle(&slot{r: r, goroutine: goroutineID()}, jobs)
	return tasks[0], true, nil
}

// start starts what goes on beside the handlers. stop settles everything, and waits for their end.
func (r *run) start(ctx context.Context) (stop func()) {
	beat, stopBeat := context.WithCancel(r.ending.final)
	go r.watch(ctx)
	var background sync.WaitGroup
	background.Go(func() { r.heartbeats(beat) })
	background.Go(func() { r.watchRevoked(beat) })
	background.Go(r.hooks.run)
	background.Go(r.recorder.run)
	var settling sync.WaitGroup
	for range settlers {
		settling.Go(r.settler.run)
	}
	return func() {
		r.ending.begin()
		r.held.close() // first: it may have an attempt to settle
		r.settler.stop()
		settling.Wait()
		r.settler.aside.running.Wait() // leases are renewed until then
		stopBeat()
		r.hooks.close()
		r.recorder.stop()
		background.Wait()
	}
}

// run is one call of Run.
type run struct {
	cfg       Worker
	began     time.Time
	log       *reporter
	server    *condition
	member    string          // its name where one of several leads: no other run's, whatever ID says
	base      context.Context // of the handlers' contexts: Run's values, not its end
	own       context.Context // Run's, for the worker's own calls; see reserve
	kept      int             // connections that own has
	unreserve func()          // gives them back
	handler   Handler         // with its middleware
	held      *held
	settler   *settler
	slots     slots
	hooks     *hooks
	ending    *ending
	stacks    stacks // used by held.look alone

	live      atomic.Pointer[live] // what may change while it runs
	recorder  *recorder
	conflicts conflicts
	// leaseChanged tells the heartbeats, and fewer a slot that waits for a task, that operators want something else.
	leaseChanged chan struct{}
	fewer        chan struct{}
	orders       Switch       // turned by operators
	draining     atomic.Bool  // it takes no more tasks
	done         atomic.Int64 // attempts that were settled
	failed       atomic.Int64 // of these, those that failed
	poisons      atomic.Int64 // tasks that went to POISON
	losses       atomic.Int64 // leases that were lost

	ready  chan *job     // leased, not started
	hungry chan struct{} // told when ready runs low
	idle   atomic.Int64  // handlers that wait for a task
	// waiting is how many tasks wait for handlers: those in ready, and those that a handler has been given that is still counted as idle.
	waiting atomic.Int64
	// waitingBytes are the payloads of these.
	waitingBytes atomic.Int64
	// prefetch is how many tasks should wait for handlers.
	prefetch atomic.Int64
	coming   atomic.Int64 // tasks that checkouts under way ask for
	// calls of the handler that have ended, and how long they took, since they were taken in last; lastCheckout likewise.
	calls, callTime, lastCheckout atomic.Int64
	zombies                       atomic.Int64  // handlers that ignore the end of their context
	quit                          chan struct{} // closed when no more is to be started
}

func (w *Worker) newRun(ctx context.Context) (*run, error) {
	cfg, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	each := 1
	if cfg.BatchHandler != nil {
		each = cfg.BatchSize
	}
	member := fmt.Sprintf("%s/%d", cfg.Queue.Client().ID(), numbers.Add(1))
	cfg.ID = cmp.Or(cfg.ID, member)
	r := &run{
		cfg:          cfg,
		began:        time.Now(),
		log:          newReporter(cfg.Logger),
		member:       member,
		base:         context.WithValue(context.WithoutCancel(ctx), queueKey{}, cfg.Queue),
		handler:      cfg.Handler,
		ready:        make(chan *job, prefetchMost*cfg.Batch+cfg.Concurrency*each),
		hungry:       make(chan struct{}, 1),
		quit:         make(chan struct{}),
		leaseChanged: make(chan struct{}, 1),
		fewer:        make(chan struct{}),
		slots:        slots{drained: make(chan struct{})},
	}
	r.server = newCondition(r.log)
	for _, m := range slices.Backward(cfg.Middleware) {
		r.handler = m(r.handler)
	}
	if cfg.Paused {
		r.orders.Pause()
	}
	r.apply(dbq.QueueSettings{})
	r.reserve(ctx)
	r.ending = newEnding(r.base, context.WithoutCancel(r.own))
	r.hooks, r.recorder = newHooks(r), newRecorder(r)
	r.held = newHeld(cfg.Grace, r.abandon)
	r.settler = newSettler(r)
	return r, nil
}

// release hands jobs back that were never started.
func (r *run) release(jobs []*job) {
	for _, j := range jobs {
		r.settler.add(j, dbq.Released(j.currentLease(), 0), nil)
	}
}
