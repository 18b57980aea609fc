package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
)

// slot is one of the worker's Concurrency goroutines that call the handler.
type slot struct {
	r         *run
	goroutine int    // its number, to find its stack by
	jobs      []*job // room for what it takes next
	left      bool   // it is not counted any more
}

// work hands tasks to the handler until the worker drains. When a handler ends the goroutine, another one takes its place.
func (s *slot) work() {
	s.goroutine = goroutineID()
	again := true
	defer func() {
		if again && !s.left {
			s.r.spawn()
		}
	}()
	for again {
		again = s.r.next(s)
	}
}

// next handles one task or batch. It is false when there is nothing more to do for the slot.
func (r *run) next(s *slot) bool {
	select {
	case <-r.quit:
		r.leave()
		return false
	default:
	}
	if r.leaveIfMany() {
		return false
	}
	j, ok := r.take()
	if j == nil {
		return ok
	}
	jobs := append(s.jobs[:0], j)
	if r.cfg.BatchHandler != nil {
		jobs = r.fill(jobs)
	}
	s.jobs = jobs
	r.started(jobs...)
	r.tellHungry()
	return r.handle(s, jobs) || r.enter() // nobody took its place, perhaps
}

// take waits for a task. Without one, ok says whether the slot is to look again.
func (r *run) take() (j *job, ok bool) {
	select {
	case j = <-r.ready:
		return j, true
	default:
	}
	r.idle.Add(1)
	defer r.idle.Add(-1)
	r.tellHungry()
	select {
	case <-r.quit:
		r.leave()
		return nil, false
	case j = <-r.ready:
		return j, true
	case <-r.fewer: // look again whether this one is wanted
		return nil, true
	}
}

// fill makes a batch, and waits a little for it to fill up.
func (r *run) fill(jobs []*job) []*job {
	timer := time.NewTimer(batchWait)
	defer timer.Stop()
	for len(jobs) < r.cfg.BatchSize {
		select {
		case j := <-r.ready:
			jobs = append(jobs, j)
		case <-timer.C:
			return jobs
		case <-r.quit:
			return jobs
		}
	}
	return jobs
}

// call calls the handler and passes on how it ended. It is false when the worker has gone on without it.
func (r *run) call(s *slot, jobs []*job) bool {
	timeout := r.cfg.Timeout
	if r.cfg.BatchHandler == nil {
		timeout = r.limits(&jobs[0].task).Timeout
	}
	f, gone := r.held.begin(r.base, s, jobs, timeout)
	for _, j := range gone { // lost, or out of time
		r.leaseLost(j, errNotStarted)
	}
	if f == nil {
		return true
	}
	for _, j := range f.jobs {
		if r.observed() {
			r.observe(Event{Kind: Started, Task: j.task, Duration: j.task.Waited + f.start.Sub(j.taken)})
		}
	}
	returned := false
	defer func() {
		if !returned { // the goroutine is ending
			s.left = !r.ended(f, failures(len(f.jobs), errGoexit)) && !r.enter()
		}
	}()
	out := r.invoke(f)
	returned = true
	return r.ended(f, out)
}

// invoke calls the handler.
func (r *run) invoke(f *flight) []Outcome {
	if r.cfg.BatchHandler == nil {
		result, err := call(f.ctx, r.handler, f.jobs[0].task)
		return []Outcome{{result, err}}
	}
	tasks := make([]dbq.Task, len(f.jobs))
	for i, j := range f.jobs {
		tasks[i] = j.task
	}
	return callBatch(f.ctx, r.cfg.BatchHandler, tasks)
}

// ended passes on how a call of the handler ended. It is false when the worker has gone on without it.
func (r *run) ended(f *flight, out []Outcome) bool {
	took, cause := time.Since(f.start), context.Cause(f.ctx)
	r.calls.Add(1)
	r.callTime.Add(int64(took))
	if !f.finish() {
		r.log.each(lineReturned, aboutTask(&f.jobs[0].task, "after", seconds(took))...)
		r.zombies.Add(-1)
		return false
	}
	for i, j := range f.jobs {
		r.conclude(j, out[i], cause, took)
	}
	return true
}

// abandon reports handlers that ignore the end of their context, ends their attempts as far as they are this worker's to end, and puts
// other goroutines in their place. Up to Concurrency such handlers are replaced; beyond that the worker has fewer until they return, since
// something must bound them.
func (r *run) abandon(fs []*flight) {
	r.stacks.read(r.held.flights(), fs)
	for _, f := range fs {
		r.abandonOne(f, r.stacks.of(f))
	}
}

func (r *run) abandonOne(f *flight, stack string) {
	cause := context.Cause(f.ctx)
	r.log.each(lineStuck, aboutTask(&f.jobs[0].task, "tasks", len(f.jobs), "cause", errorText(cause),
		"after", seconds(time.Since(f.start)), "stack", stack)...)
	for _, j := range f.jobs {
		r.observe(Event{Kind: Stuck, Task: j.task, Duration: time.Since(f.start), Err: cause})
	}
	for _, j := range f.jobs {
		if j.end != nil {
			j.end()
		}
		switch {
		case cause == ErrTimeout && !j.isLost(): //nolint:errorlint // it is the cause itself
			r.conclude(j, Outcome{Err: ErrTimeout}, cause, time.Since(f.start))
		default:
			r.held.giveUp(j, r.now().lease) // its lease is lost, or left to run out, since the handler may still be at it
		}
	}
	if zombies := r.zombies.Add(1); zombies <= int64(r.now().concurrency) {
		r.spawn()
	} else {
		r.leave()
	}
}

// spawn starts a slot, which has been counted.
func (r *run) spawn() {
	s := &slot{r: r}
	go s.work()
}

// slots counts those that the worker waits for when it drains.
type slots struct {
	mu       sync.Mutex
	n        atomic.Int64 // written under mu
	stopping bool
	drained  chan struct{} // closed when it is stopping and none is left
}

// enter counts another slot, unless there are enough or the worker is stopping.
func (r *run) enter() bool {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	if r.slots.stopping || r.slots.n.Load() >= int64(r.now().concurrency) {
		return false
	}
	r.slots.n.Add(1)
	return true
}

// leaveIfMany ends a slot when an operator wants fewer.
func (r *run) leaveIfMany() bool {
	if r.slots.n.Load() <= int64(r.now().concurrency) { // as almost always
		return false
	}
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	if r.slots.stopping || r.slots.n.Load() <= int64(r.now().concurrency) {
		return false
	}
	r.slots.n.Add(-1)
	return true
}

func (r *run) leave() { r.slots.change(func(s *slots) { s.n.Add(-1) }) }

func (s *slots) change(f func(s *slots)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	if s.stopping && s.n.Load() == 0 {
		close(s.drained)
	}
}
