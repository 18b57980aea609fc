package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/invoke"
)

// executors are the Concurrency goroutines that call the handler. If a handler ends its goroutine (runtime.Goexit) or
// ignores the end of its context, the executor is replaced.
type executors struct {
	*env
	buffer    *buffer
	leases    *leases
	admission *admission
	attempts  *attempts
	handler   Handler         // including its middleware
	base      context.Context // the parent of the handlers' contexts

	quit  chan struct{} // closed when no more tasks may start
	fewer chan struct{} // wakes an idle executor if operators have lowered the concurrency

	mu       sync.Mutex
	n        atomic.Int64 // executors that count as running; written under mu
	started  atomic.Bool
	stopping bool
	drained  chan struct{} // closed when stopping and none is left

	abandoned atomic.Int64 // handlers that ignore the end of their context
	stacks    stacks       // used only by abandon
}

// start starts executors until there are enough.
func (x *executors) start() {
	for x.enter() {
		x.spawn()
	}
	x.started.Store(true)
}

// resize applies a change of the current concurrency.
func (x *executors) resize(from, to int) {
	x.start()
	for range from - to {
		select {
		case x.fewer <- struct{}{}: // an idle one
		default: // the others check when they are done
		}
	}
	x.share.nudge()
}

// stop ends the executors that run no handler.
func (x *executors) stop() { close(x.quit) }

// drain waits for the handlers after stop: until their contexts have ended, and then for up to Grace.
func (x *executors) drain() {
	x.change(func() { x.stopping = true })
	select {
	case <-x.drained: // handlers that do not return are abandoned after Grace
		return
	case <-x.shutdown.final.Done():
	}
	select {
	case <-x.drained: // executors no longer wait for the settler
	case <-time.After(wrapUp):
	}
}

// enter counts another executor, unless there are enough or the worker is stopping.
func (x *executors) enter() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopping || x.n.Load() >= int64(x.settings().concurrency) {
		return false
	}
	x.n.Add(1)
	return true
}

// room is how many tasks the executors can handle at once: Concurrency, less the executors that are not replaced.
func (x *executors) room() int {
	n := x.settings().concurrency
	if x.started.Load() {
		n = min(n, int(x.n.Load()))
	}
	return n
}

// enterAgain is enter for an executor that may have been replaced.
func (x *executors) enterAgain() bool {
	entered := x.enter()
	x.share.nudge()
	return entered
}

func (x *executors) leave() { x.change(func() { x.n.Add(-1) }) }

// leaveIfMany is leave if operators have lowered the concurrency.
func (x *executors) leaveIfMany() bool {
	if x.n.Load() <= int64(x.settings().concurrency) { // as almost always
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopping || x.n.Load() <= int64(x.settings().concurrency) {
		return false
	}
	x.n.Add(-1)
	return true
}

func (x *executors) change(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
	if x.stopping && x.n.Load() == 0 {
		close(x.drained)
	}
}

// spawn starts an executor that has been counted.
func (x *executors) spawn() { go (&executor{executors: x}).run() }

// abandon logs handlers that ignore the end of their context, ends their attempts if the worker still holds them, and
// replaces their executors. It replaces at most Concurrency executors, to limit the number of goroutines; beyond
// that, the worker has fewer executors until handlers return.
func (x *executors) abandon(stuck []*invocation) {
	x.stacks.read(x.leases.invocations(), stuck)
	for _, inv := range stuck {
		x.abandonOne(inv, x.stacks.of(inv))
	}
}

func (x *executors) abandonOne(inv *invocation, stack string) {
	cause, took := context.Cause(inv.ctx), time.Since(inv.start)
	x.log.each(lineStuck, aboutTask(&inv.tasks[0].task, "tasks", len(inv.tasks), "cause", errorText(cause),
		"after", seconds(took), "stack", stack)...)
	for _, l := range inv.tasks {
		x.observe(Observation{Type: Stuck, Task: l.task, Duration: took, Err: cause})
	}
	for _, l := range inv.tasks {
		inProcess.end(l, false)
		x.attempts.abandon(l, cause, took)
	}
	if x.abandoned.Add(1) <= int64(x.settings().concurrency) {
		x.spawn()
	} else {
		x.leave()
	}
	x.share.nudge()
}

// executor is one of the goroutines that call the handler.
type executor struct {
	*executors
	goroutine int            // its number, to find its stack
	tasks     []*leased      // buffer for the next tasks
	one       [1]dbq.Outcome // buffer for the outcome of a single task
	left      bool           // it no longer counts as running
}

// run handles tasks until the worker drains. If a handler ends the goroutine, another one takes its place.
func (x *executor) run() {
	x.goroutine = goroutineID()
	again := true
	defer func() {
		if again && !x.left {
			x.spawn()
		}
	}()
	for again {
		again = x.next()
	}
}

// next handles one task or batch. It returns false if the executor must end.
func (x *executor) next() bool {
	select {
	case <-x.quit:
		x.leave()
		return false
	default:
	}
	if x.leaveIfMany() {
		return false
	}
	l := x.buffer.take(x.quit, x.fewer)
	if l == nil {
		return true // the next call checks why
	}
	tasks := append(x.tasks[:0], l)
	if x.cfg.BatchHandler != nil {
		tasks = x.buffer.fill(tasks, x.quit)
	}
	x.tasks = tasks
	x.buffer.took(tasks...)
	x.buffer.signal()
	return x.handle(tasks) || x.enterAgain()
}

// handle calls the handler for the tasks that can start, and ends their attempts. It returns false if the worker has
// continued without this executor.
func (x *executor) handle(tasks []*leased) bool {
	begin := x.admission.admit(tasks)
	defer func() {
		for _, l := range begin {
			if !l.onTrial() { // a trial ends with its lease: until then its attempt counts if the process dies
				inProcess.end(l, !l.began.IsZero())
			}
		}
	}()
	return len(begin) == 0 || x.call(begin)
}

func (x *executor) call(tasks []*leased) bool {
	timeout := x.cfg.Timeout
	if x.cfg.BatchHandler == nil {
		timeout = x.policy(&tasks[0].task).Timeout
	}
	inv, gone := x.leases.begin(x.base, x.goroutine, tasks, timeout)
	for _, l := range gone {
		x.attempts.notStarted(l)
	}
	if inv == nil {
		return true
	}
	for _, l := range inv.tasks {
		waited := l.task.Waited + inv.start.Sub(l.received)
		x.tally.Started.Add(1)
		x.tally.Latency.Record(waited)
		if x.observed() {
			x.observe(Observation{Type: Started, Task: l.task, Duration: waited})
		}
	}
	returned := false
	defer func() {
		if !returned { // the goroutine is ending
			x.left = !x.ended(inv, failures(len(inv.tasks), invoke.ErrGoexit)) && !x.enterAgain()
		}
	}()
	out := x.invoke(inv)
	returned = true
	return x.ended(inv, out)
}

// invoke calls the handler.
func (x *executor) invoke(inv *invocation) []dbq.Outcome {
	if x.cfg.BatchHandler == nil {
		x.one[0] = invoke.Call(inv.ctx, x.handler, inv.tasks[0].task)
		return x.one[:]
	}
	tasks := make([]dbq.Task, len(inv.tasks))
	for i, l := range inv.tasks {
		tasks[i] = l.task
	}
	return callBatch(inv.ctx, x.cfg.BatchHandler, tasks)
}

// ended ends the attempts of an invocation. It returns false if the worker has continued without it.
func (x *executor) ended(inv *invocation, out []dbq.Outcome) bool {
	took, cause := time.Since(inv.start), context.Cause(inv.ctx)
	x.buffer.callEnded(took)
	if !inv.finish() {
		x.log.each(lineReturned, aboutTask(&inv.tasks[0].task, "after", seconds(took))...)
		x.abandoned.Add(-1)
		return false
	}
	for i, l := range inv.tasks {
		x.attempts.end(l, out[i], cause, took)
	}
	return true
}
