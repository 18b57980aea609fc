package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/handling"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// run is one call of Worker.Run:
//
//	fetch -> work -> settle
//	beside them: heartbeat, and shutdown
//
// A task takes one of Concurrency places from its checkout until its outcome is stored, so nothing grows while the
// server is away.
type run struct {
	Worker  // with its defaults
	log     *lines
	handler worker.Handler  // including its middleware
	base    context.Context // the parent of handlers' contexts: Run's values, not its end
	final   context.Context // ends when nothing more may be sent
	end     context.CancelFunc

	single bool // tasks are leased one by one, because a response was too large; only fetch uses it

	changed chan struct{} // receives when tasks are removed
	ready   chan struct{} // receives when an outcome may be sent

	mu      sync.Mutex
	tasks   map[*held]bool
	pending []*ending
	stuck   int       // handlers that ignore the end of their context, without which the worker continues
	mayHold time.Time // until then the server may count tasks as held that the worker does not know of
}

func newRun(ctx context.Context, cfg Worker) *run {
	r := &run{
		Worker: cfg, log: newLines(cfg.Logger), handler: cfg.Handler, base: context.WithoutCancel(ctx),
		changed: make(chan struct{}, 1), ready: make(chan struct{}, 1), tasks: map[*held]bool{},
	}
	for _, m := range slices.Backward(cfg.Middleware) {
		r.handler = m(r.handler)
	}
	r.final, r.end = context.WithCancel(r.base)
	return r
}

// run is Run.
func (r *run) run(ctx context.Context) error {
	r.log.write(lineStarted, "worker", r.ID, "server", r.Queue.client.host, "database", r.Queue.client.cfg.Database,
		"concurrency", r.Concurrency, "lease", r.Lease.String(), "version", dbq.Version())
	stopping, stop := context.WithCancel(ctx)
	var background, ending sync.WaitGroup
	background.Go(r.heartbeat)
	for range settlers {
		background.Go(r.settle)
	}
	drained := make(chan struct{})
	ending.Go(func() { r.shutdown(stopping, drained) })
	err := r.fetch(stopping)
	stop()
	for r.count() > 0 && r.final.Err() == nil {
		select {
		case <-r.changed:
		case <-r.final.Done():
		}
	}
	close(drained)
	ending.Wait()
	r.end()
	background.Wait()
	r.giveUpRest()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stuck > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of them", worker.ErrAbandoned, r.stuck))
	}
	attrs := []any{"worker", r.ID}
	if err != nil {
		attrs = append(attrs, "error", cut(err.Error()))
	}
	r.log.write(lineStopped, attrs...)
	return err
}

// wrapUp limits the last requests, after DrainTimeout and the handlers.
const wrapUp = 2 * time.Second

// shutdown limits the time from the end of ctx to that of the run, unless it is drained before.
func (r *run) shutdown(ctx context.Context, drained <-chan struct{}) {
	<-ctx.Done()
	r.log.write(lineStopping, "held", r.count(), "drain_timeout", r.DrainTimeout.String())
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-drained:
			return false
		}
	}
	if !wait(r.DrainTimeout) {
		return
	}
	r.log.write(lineDrained, "held", r.count())
	r.mu.Lock()
	for h := range r.tasks {
		h.cancel(worker.ErrShutdown)
	}
	r.mu.Unlock()
	if wait(r.Grace + wrapUp) {
		r.end()
	}
}

// fetch checks out tasks until ctx ends, the queue is empty under UntilEmpty, or the server refuses.
func (r *run) fetch(ctx context.Context) error {
	pause, pace := firstPause, pacer{}
	for {
		room := r.waitRoom(ctx)
		if room == 0 {
			return nil
		}
		begin := time.Now()
		tasks, err := r.checkout(ctx, room)
		switch {
		case ctx.Err() != nil:
			r.start(tasks, true)
			return nil
		case err != nil && !isTransient(err):
			return err
		case err != nil:
			wait := pauseFor(err, pause)
			r.log.each(lineRepeat, "op", "checkout", "error", cut(err.Error()), "pause", rounded(wait))
			pause = min(2*pause, maxPause)
			r.sleep(ctx, wait, nil)
		case len(tasks) > 0:
			pause = firstPause
			pace.reset()
			r.start(tasks, false)
		case r.UntilEmpty && r.isEmpty():
			return nil
		default:
			pause = firstPause
			pace.wait(ctx, begin, r.changed)
		}
	}
}

// waitRoom returns how many tasks the worker can take, after it has waited for at least one place. It returns 0 if ctx
// has ended.
func (r *run) waitRoom(ctx context.Context) int {
	for ctx.Err() == nil {
		r.mu.Lock()
		room := r.Concurrency - len(r.tasks) - max(0, r.stuck-r.Concurrency)
		r.mu.Unlock()
		if room > 0 {
			return room
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
		}
	}
	return 0
}

// rounded formats a duration for a line.
func rounded(d time.Duration) string { return d.Round(time.Millisecond).String() }

// sleep waits for a time, until ctx ends, or until something is received from soon.
func (r *run) sleep(ctx context.Context, d time.Duration, soon <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-soon:
	case <-ctx.Done():
	}
}

// checkout leases up to n tasks. The end of ctx does not interrupt it at once; see Worker.Wait.
func (r *run) checkout(ctx context.Context, n int) ([]*held, error) {
	path, err := r.Queue.path("checkout")
	if err != nil {
		return nil, err
	}
	wait := r.Wait
	if r.UntilEmpty {
		wait = 0
	}
	if r.single {
		n = 1
	}
	in := wireCheckout{Max: n, LeaseSeconds: r.Lease.Seconds(), WaitSeconds: wait.Seconds(), Worker: r.ID}
	var out struct {
		Tasks []wireLeasedTask `json:"tasks"`
	}
	call, cancel := context.WithTimeout(r.final, wait+callTimeout)
	defer cancel()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(wait+time.Second, cancel) })
	defer late()
	err = r.Queue.client.call(call, path, in, &out)
	if mayHaveHappened(err) {
		r.holds(r.Lease)
	}
	r.single = r.single || errors.Is(err, errTooLarge)
	if err != nil {
		return nil, wrap("checkout", r.Queue.name, uuid.Nil, err)
	}
	if len(out.Tasks) > n {
		r.log.each(lineInvalid, "tasks", len(out.Tasks), "requested", n)
		out.Tasks = out.Tasks[:n]
	}
	received := time.Now()
	tasks := make([]*held, len(out.Tasks))
	for i := range out.Tasks {
		tasks[i] = r.newHeld(&out.Tasks[i], received.Add(r.Lease))
	}
	return tasks, nil
}

func (r *run) newHeld(t *wireLeasedTask, until time.Time) *held {
	h := &held{run: r, task: t.task(), lease: t.Lease, until: until, cancel: func(error) {}}
	h.task.Waited = seconds(t.WaitedSeconds)
	h.task.Lease = dbq.Lease{
		Task: h.task.ID, Queue: h.task.Queue, Fence: h.task.Fence, Attempt: h.task.Attempt, Until: until,
	}
	return h
}

// seconds converts a number of seconds of a response.
func seconds(s float64) time.Duration {
	return time.Duration(max(min(s, 1e9), 0) * float64(time.Second))
}

// start adds tasks, and calls their handlers, or releases them.
func (r *run) start(tasks []*held, release bool) {
	r.mu.Lock()
	for _, h := range tasks {
		r.tasks[h] = true
		ctx, cancel := context.WithCancelCause(handling.WithAttempt(r.base, h))
		h.cancel = cancel
		h.expires = time.AfterFunc(time.Until(h.until), h.expire)
		if !release {
			go r.work(ctx, h)
		}
	}
	r.mu.Unlock()
	for _, h := range tasks {
		if release {
			r.finish(h, dbq.Released(0))
		}
	}
}

// remove ends the worker's interest in tasks.
func (r *run) remove(tasks ...*held) {
	r.mu.Lock()
	for _, h := range tasks {
		if r.tasks[h] {
			delete(r.tasks, h)
			h.expires.Stop()
			h.cancel(nil)
		}
	}
	r.mu.Unlock()
	signal(r.changed)
}

// signal sends to a channel of capacity 1, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (r *run) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tasks)
}

// holds records that for up to d the server may count tasks as held that the worker does not know of.
func (r *run) holds(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := time.Now().Add(d); t.After(r.mayHold) {
		r.mayHold = t
	}
}

// isEmpty reports whether neither the worker nor the server counts any task as held by this worker.
func (r *run) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tasks) == 0 && time.Now().After(r.mayHold)
}
