package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
)

// Run works until ctx ends, or until an error that retrying cannot resolve: ErrConfig, dbq.ErrClosed, or an invalid
// queue name. If the database cannot be reached, Run keeps trying.
//
// When ctx ends, Run releases the tasks that have not started, and gives running handlers DrainTimeout to finish,
// with their leases renewed. If a handler returns because its context ended, its task is released. Run returns nil
// after a clean drain. The documentation of DrainTimeout has the maximum duration.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.newRun(ctx, nil)
	if err != nil {
		return err
	}
	return r.run()
}

// Step checks out one task, handles it, settles it, and returns it; found is false if no task is due. With a
// BatchHandler it takes up to BatchSize tasks and returns the first. When Step returns, the outcome is stored in the
// database. Step waits for a handler that ignores its context. It is meant for tests, and for programs that are
// started for each task.
func (w *Worker) Step(ctx context.Context) (t dbq.Task, found bool, err error) {
	alone := *w
	alone.UntilEmpty = true // it needs no wake-ups
	r, err := alone.newRun(ctx, nil)
	if err != nil {
		return t, false, err
	}
	return r.step()
}

// run is one call of Worker.Run. It creates the parts, connects them, and starts and stops them in order. Only run
// refers to all of them:
//
//	fetcher -> buffer -> executors -> attempts -> settler -> results -> poisonHook
//	beside them: leaseKeeper, controller, cleaner, advancer, statistics
type run struct {
	*env
	began     time.Time
	base, own context.Context // Run's values, not its end, for handlers; and Run's, for the worker's own statements

	poison    *poisonHook
	results   *results
	unhandled *unhandled
	leases    *leases
	keeper    *leaseKeeper
	settler   *settler
	buffer    *buffer
	executors *executors
	pause     *pause
	fetcher   *fetcher
	control   *controller
	cleaner   *cleaner
	advancer  *maintenance.Advancer
	stats     *statistics
}

// runs numbers the runs of a process.
var runs atomic.Int64

// newRun makes a run, whose caller calls its run or step. part is its part of a Group, or nil.
func (w *Worker) newRun(ctx context.Context, part *share) (*run, error) {
	cfg, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &env{cfg: cfg, share: part, log: newLogger(cfg.Logger)}
	e.db, _ = cfg.Queue.(*dbq.Queue)
	member := ""
	if e.db != nil {
		member = fmt.Sprintf("%s/%d", e.db.Client().Info().ID, runs.Add(1))
		e.wake = access.Of(e.db.Client()).Wake
	}
	e.cfg.ID = cmp.Or(cfg.ID, member, newID())
	e.effective.Store(resolve(&e.cfg, control.Settings{}))
	e.health = newHealth(e.log)
	r := &run{env: e, began: time.Now(), base: context.WithoutCancel(ctx), own: ctx}
	if e.source = newRemote(e); e.db != nil {
		e.source = newInDatabase(e)
		r.own = sqlrun.WithPatience(ctx, func() time.Duration { return e.settings().lease / 3 })
	}
	e.shutdown = newShutdown(r.base, context.WithoutCancel(r.own))
	r.join()
	if e.db != nil {
		r.joinDatabase(member)
	}
	return r, nil
}

// newID returns an id for a worker without a database.
func newID() string {
	host, err := os.Hostname()
	if err != nil || !utf8.ValidString(host) {
		host = "go"
	}
	return host[:min(len(host), 64)] + "#" + strings.ToLower(rand.Text()[:10])
}

// join creates and connects the parts.
func (r *run) join() {
	e := r.env
	r.poison, r.leases, r.buffer = newPoisonHook(e), newLeases(e), newBuffer(e)
	r.results = &results{env: e, poison: r.poison}
	r.keeper = newLeaseKeeper(e, r.leases)
	r.settler = newSettler(e, r.leases, r.results)
	r.unhandled = &unhandled{env: e}
	attempts := &attempts{env: e, leases: r.leases, settler: r.settler, results: r.results, unhandled: r.unhandled}
	r.executors = &executors{env: e, buffer: r.buffer, leases: r.leases, attempts: attempts, handler: r.cfg.Handler,
		admission: &admission{env: e, leases: r.leases, settler: r.settler, attempts: attempts},
		base:      r.base, quit: make(chan struct{}), fewer: make(chan struct{}), drained: make(chan struct{})}
	for _, m := range slices.Backward(r.cfg.Middleware) {
		r.executors.handler = m(r.executors.handler)
	}
	r.leases.stuck = r.executors.abandon
	if r.db == nil {
		r.leases.freed = r.buffer.signal
	}
	r.pause = &pause{log: e.log, program: r.cfg.Switch}
	r.fetcher = &fetcher{env: e, buffer: r.buffer, leases: r.leases, keeper: r.keeper, settler: r.settler,
		results: r.results, pause: r.pause}
}

// joinDatabase adds the parts that need the database.
func (r *run) joinDatabase(member string) {
	e, self := r.env, maintenance.Member{Core: access.Of(r.db.Client()), Name: member}
	shared := self.Core.Control
	r.advancer = maintenance.NewAdvancer(self.Core)
	r.fetcher.advance = r.advancer
	r.control = &controller{env: e, member: member, shared: shared, leases: r.leases, keeper: r.keeper,
		executors: r.executors, results: r.results, unhandled: r.unhandled, pause: r.pause}
	r.cleaner = &cleaner{env: e, member: self}
	r.stats = newStatistics(e, self, shared)
}

// run is Run.
func (r *run) run() error {
	ctx, cancel := context.WithCancel(r.own)
	defer cancel()
	defer r.shutdown.close()
	r.logStart()
	r.checkPool()
	settleAll := r.startSettling(ctx)
	leave := r.startControl(cancel)
	r.executors.start()
	err := r.fetcher.run(ctx)
	r.shutdown.begin()
	if r.control != nil {
		r.control.draining.Store(true)
	}
	r.log.write(lineStopping, "running", len(r.leases.invocations()), "held", r.leases.count(),
		"drain_timeout", seconds(r.cfg.DrainTimeout))
	r.executors.stop()
	for _, l := range r.buffer.drain() {
		r.settler.release(l, 0)
	}
	r.executors.drain()
	settleAll()
	leave()
	if left := r.executors.abandoned.Load() + r.poison.running.Load(); left > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of them", ErrAbandoned, left))
	}
	r.logStop(err)
	return err
}

// step is Step.
func (r *run) step() (t dbq.Task, found bool, err error) {
	defer r.log.close()
	defer r.unhandled.close()
	defer r.shutdown.close()
	defer r.startSettling(r.own)()
	defer r.executors.stop() // ends executors that replaced handlers that ignore their contexts
	out, err := r.fetcher.lease(r.own, r.perCall(), r.settings().lease)
	accepted := r.fetcher.accept(out)
	if err != nil || len(accepted) == 0 {
		return t, false, err
	}
	tasks := make([]*leased, len(accepted))
	for i := range accepted {
		tasks[i] = &accepted[i]
	}
	detach := context.AfterFunc(r.own, func() { r.leases.cancelAll(ErrShutdown) })
	defer detach()
	r.executors.enter()
	(&executor{executors: r.executors, goroutine: goroutineID()}).handle(tasks)
	return tasks[0].task, true, nil
}

// startSettling starts the parts that settle tasks and renew leases. stop settles everything and waits for these
// parts.
func (r *run) startSettling(ctx context.Context) (stop func()) {
	keep, stopKeeping := context.WithCancel(r.shutdown.final)
	go r.shutdown.watch(ctx, r.cfg.DrainTimeout, r.cfg.Grace, r.cancelHandlers, r.executors.drained)
	var background, settling sync.WaitGroup
	background.Go(func() { r.keeper.renew(keep) })
	if r.db != nil {
		background.Go(func() { r.keeper.watchRevoked(keep) })
	}
	background.Go(r.poison.run)
	for range settlers {
		settling.Go(r.settler.run)
	}
	return func() {
		r.shutdown.begin()
		r.leases.close() // first: it may have an attempt to settle
		r.settler.stop()
		settling.Wait()
		r.settler.locked.running.Wait() // leases are renewed until then
		stopKeeping()
		r.poison.stop()
		background.Wait()
	}
}

// cancelHandlers ends the handlers' contexts when DrainTimeout has passed.
func (r *run) cancelHandlers() {
	if running := len(r.leases.invocations()); running > 0 {
		r.log.write(lineDrained, "running", running, "drain_timeout", seconds(r.cfg.DrainTimeout))
	}
	r.leases.cancelAll(ErrShutdown)
}

// startControl registers the worker, cleans and advances workflows until leave is called. stop stops the worker.
func (r *run) startControl(stop context.CancelFunc) (leave func()) {
	if r.db == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(r.shutdown.final)
	slow, cancelSlow := context.WithCancel(r.base) // it uses the same connections as handlers and can wait
	context.AfterFunc(ctx, cancelSlow)
	var all sync.WaitGroup
	all.Go(func() { r.advancer.Run(slow, func(err error) { r.health.report(opAdvance, err) }) })
	if r.cfg.Unlisted {
		return func() {
			cancel()
			all.Wait()
		}
	}
	r.control.stop = stop
	all.Go(func() { r.control.run(ctx) })
	all.Go(func() { r.cleaner.run(slow) })
	all.Go(func() { r.stats.Run(slow) })
	return func() {
		cancel()
		all.Wait()
		r.stats.leave()
		r.control.leave()
	}
}

// logStart logs the worker's server and settings. A Group logs one line for all of its workers.
func (r *run) logStart() {
	if r.share != nil {
		return
	}
	attrs := append([]any{"worker", r.cfg.ID, "version", dbq.Version(), "paused", r.pause.on()}, r.source.attrs()...)
	r.log.write(lineStarted, append(attrs, r.settings().attrs()...)...)
}

// logStop closes the log with the worker's totals.
func (r *run) logStop(err error) {
	r.unhandled.close()
	r.log.close()
	attrs := []any{"done", r.results.ended.Load(), "failed", r.results.failed.Load(), "poisoned",
		r.results.poisoned.Load(), "lost", r.results.lost.Load(), "after", seconds(time.Since(r.began))}
	if err != nil {
		attrs = append(attrs, "error", errorText(err))
	}
	r.log.write(lineStopped, attrs...)
}

// checkPool logs a warning if the handlers' transactions can take all connections. It is not an error, because not
// every handler begins a transaction.
func (r *run) checkPool() {
	if r.db == nil {
		return
	}
	client := r.db.Client()
	limit, need := client.DB().Stats().MaxOpenConnections, r.cfg.Concurrency
	cure := "handlers wait for each other: raise pool_max_conns in the DSN, or lower Concurrency"
	if client.DB() == access.Of(client).Store.Pool().Write {
		need += ownConns
		cure = "a lease is not renewed while transactions have all connections: give New a pool of its own, and yours " +
			"by WithTxDB; or raise the pool's limit to Concurrency plus 4"
	}
	if limit > 0 && limit < need && !client.Info().Server.OneWriter {
		r.log.write(linePool, "concurrency", r.cfg.Concurrency, "connections", limit, "cure", cure)
	}
}

// ownConns is how many connections a worker uses at once: seldom more than for a renewal, a checkout and two
// settlements.
const ownConns = 4

// env is shared by all parts of a run: the worker's fields, the current settings, the log, the health of the
// database, the shutdown, and the counters of statistics. Parts do not reach each other through it.
type env struct {
	cfg       Worker     // with its defaults
	db        *dbq.Queue // cfg.Queue if it is a database's, and otherwise nil
	source    source     // of cfg.Queue
	share     *share     // of the Group's slots; nil for a worker without a Group
	wake      *wake.Waker
	effective atomic.Pointer[settings]
	// settingsRead reports that those in force have the operators' settings.
	settingsRead atomic.Bool
	log          *logger
	health       *health
	shutdown     *shutdown
	tally        series.Tally // counts for statistics over time
}

// settings returns the current settings. The controller replaces them.
func (e *env) settings() *settings { return e.effective.Load() }

// perCall returns the maximum number of tasks in one call of the handler.
func (e *env) perCall() int {
	if e.cfg.BatchHandler != nil {
		return e.cfg.BatchSize
	}
	return 1
}

// observed reports whether there is an observer. An Observation is large, so code that makes one for each task checks
// this first.
func (e *env) observed() bool { return e.cfg.Observe != nil }

func (e *env) observe(o Observation) {
	if e.observed() {
		o.Queue = e.cfg.Queue.Name()
		e.cfg.Observe(o)
	}
}

// policy returns the policy of a task's attempt: the handler's for this task, and otherwise the worker's.
func (e *env) policy(t *dbq.Task) Policy {
	l := Policy{e.cfg.Timeout, e.settings().maxAttempts, e.cfg.Backoff}
	limiter, ok := e.cfg.Handler.(PolicyHandler)
	if !ok {
		return l
	}
	own := limiter.Policy(*t)
	if own.Timeout > 0 {
		l.Timeout = own.Timeout
	}
	if own.MaxAttempts > 0 {
		l.MaxAttempts = own.MaxAttempts
	}
	if own.Backoff != nil {
		l.Backoff = own.Backoff
	}
	return l
}

// maxAttempts returns the number of failed attempts after which this worker moves a task to POISON.
func (e *env) maxAttempts(t *dbq.Task) int {
	if n := e.policy(t).MaxAttempts; n > 0 {
		return min(n, t.MaxAttempts)
	}
	return t.MaxAttempts
}

// settings are the values that operators can change while a worker runs.
type settings struct {
	concurrency, maxCheckout, maxAttempts int
	lease, pollMax                        time.Duration
	history                               dbq.History
	retention                             dbq.Retention
	noStatistics                          bool
}

// resolve returns the settings of a worker: the operators' settings of its queue, and otherwise its own fields.
func resolve(w *Worker, s control.Settings) *settings {
	return &settings{
		concurrency:  cmp.Or(s.Concurrency, w.Concurrency),
		maxCheckout:  max(cmp.Or(s.MaxCheckout, w.MaxCheckout), w.BatchSize),
		maxAttempts:  cmp.Or(s.MaxAttempts, w.MaxAttempts),
		lease:        max(cmp.Or(time.Duration(s.Lease), w.Lease), minLease),
		pollMax:      max(cmp.Or(time.Duration(s.Poll), w.PollMax), w.PollMin),
		history:      cmp.Or(dbq.History(s.History), w.History),
		retention:    dbq.Retention(s.Retention().Or(store.Retention(w.Retention))),
		noStatistics: s.NoStatistics || w.NoStatistics,
	}
}

// attrs returns the settings as attributes of a log line.
func (s *settings) attrs() []any {
	return []any{"concurrency", s.concurrency, "max_checkout", s.maxCheckout, "lease", s.lease.String(),
		"poll", s.pollMax.String(), "max_attempts", s.maxAttempts, "history", string(s.history)}
}
