package worker

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// job is one task that the worker holds.
type job struct {
	task  dbq.Task
	taken time.Time // when its checkout returned

	// The following are guarded by held.mu.
	held   *held
	lease  dbq.Lease // as renewed last
	free   time.Time // until then nobody is to have taken the task over, although the lease may have run out; see renew
	state  jobState
	flight *flight       // while it is running
	began  time.Time     // when its handler was called; set before that, and not changed
	end    func()        // of a suspect: another one may run; set before that, and not changed
	backIn time.Duration // it is handed back for so long, and UntilEmpty waits for it; set before that, and not changed
	linked bool          // in the list of what is held
	before *job
	after  *job
}

type jobState int

const (
	waiting jobState = iota
	running
	finished // its settlement is under way
	expired  // its lease ran out by the local clock; the database may count it as held for a while
	lost     // the database said so
)

// current is the lease as renewed last, and whether it is lost.
func (j *job) current() (l dbq.Lease, isLost bool) {
	j.held.mu.Lock()
	defer j.held.mu.Unlock()
	return j.lease, j.state == lost || j.state == expired
}

func (j *job) currentLease() dbq.Lease {
	l, _ := j.current()
	return l
}

func (j *job) isLost() bool {
	_, isLost := j.current()
	return isLost
}

// held is all that a worker holds, from checkout to settlement.
type held struct {
	grace time.Duration // how long a handler may ignore the end of its context
	stuck func(fs []*flight)
	empty chan struct{} // told when nothing is held any more

	mu    sync.Mutex
	first *job // of a list in no order
	n     int
	// unsettled is until when the database may count tasks as this worker's that it has given up.
	unsettled time.Time
	// watch looks after all flights: a timer for each would cost more than a short handler does.
	watch   *time.Timer
	watchAt time.Time // when it fires; zero is never
	closed  bool      // it fires no more
	over    error     // why the contexts of all handlers have ended; nil before

	looking sync.Mutex // held by look
}

func newHeld(grace time.Duration, stuck func(fs []*flight)) *held {
	h := &held{grace: grace, stuck: stuck, empty: make(chan struct{}, 1)}
	h.watch = time.AfterFunc(time.Hour, h.look)
	h.watch.Stop()
	return h
}

// add makes jobs of tasks that were checked out together.
func (h *held) add(ts []dbq.Task) []job {
	jobs, now := make([]job, len(ts)), time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range jobs {
		j := &jobs[i]
		j.task, j.taken, j.held, j.lease = ts[i], now, h, ts[i].Lease
		j.linked, j.after = true, h.first
		if h.first != nil {
			h.first.before = j
		}
		h.first = j
	}
	h.n += len(jobs)
	return jobs
}

// remove forgets jobs. One that is forgotten already stays so.
func (h *held) remove(jobs ...*job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range jobs {
		if !j.linked {
			continue
		}
		if j.before != nil {
			j.before.after = j.after
		} else {
			h.first = j.after
		}
		if j.after != nil {
			j.after.before = j.before
		}
		j.linked, j.before, j.after = false, nil, nil
		h.n--
		if t := time.Now().Add(j.backIn); j.backIn > 0 && t.After(h.unsettled) {
			h.unsettled = t
		}
	}
	if h.n == 0 {
		select {
		case h.empty <- struct{}{}:
		default:
		}
	}
}

// giveUp forgets a job that nobody has settled. Unless the database said that the lease is lost, it may count it as held until the lease
// ends there, which is within lease from now on.
func (h *held) giveUp(j *job, lease time.Duration) {
	h.mu.Lock()
	if t := time.Now().Add(max(lease, remaining(j.lease))); j.state != lost && t.After(h.unsettled) {
		h.unsettled = t
	}
	h.mu.Unlock()
	h.remove(j)
}

// mayHold notes that the database may count tasks as this worker's that the worker knows nothing of, for as long as d.
func (h *held) mayHold(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := time.Now().Add(d); t.After(h.unsettled) {
		h.unsettled = t
	}
}

// settled reports whether nothing is held, as far as the worker and the database can know.
func (h *held) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n == 0 && time.Now().After(h.unsettled)
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// leases are what a heartbeat of a lease time renews, by the lease's task and fence: all that was not taken or renewed a moment ago. What
// is being settled it leaves alone while more than half of the lease is left.
func (h *held) leases(lease time.Duration) ([]dbq.Lease, map[dbq.Lease]*job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ls, byLease := make([]dbq.Lease, 0, h.n), make(map[dbq.Lease]*job, h.n)
	for j := h.first; j != nil; j = j.after {
		left := remaining(j.lease)
		enough := lease * 5 / 6
		if j.state == finished {
			enough = lease / 2
		}
		if j.state < expired && (left < enough || left > lease) { // the latter when operators have shortened the lease
			ls = append(ls, j.lease)
			byLease[key(j.lease)] = j
		}
	}
	return ls, byLease
}

// key is a lease without its end, which changes.
func key(l dbq.Lease) dbq.Lease {
	return dbq.Lease{Task: l.Task, Queue: l.Queue, Fence: l.Fence}
}

// renew notes the new end of a lease. A later end needs no new watch: look finds it when the old one has come. An earlier one does, as
// after an operator has shortened the lease.
func (h *held) renew(j *job, l dbq.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.lease, j.free = l, time.Time{}
	if j.flight != nil {
		h.watchBy(l.Until)
	}
}

// vouch notes that nobody had taken a task over a moment ago.
func (h *held) vouch(j *job, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.free = until
}

// ends is when a task is lost, unless its lease is renewed or vouched for. held.mu is held.
func (j *job) ends() time.Time {
	if j.free.After(j.lease.Until) {
		return j.free
	}
	return j.lease.Until
}

// left is how long the task is held by this process's clock.
func (j *job) left() time.Duration {
	j.held.mu.Lock()
	defer j.held.mu.Unlock()
	return time.Until(j.ends())
}

// lose marks a task whose lease is gone and ends its handler. What is being settled is gone for another reason: it has been.
func (h *held) lose(j *job) (was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j.state != running && j.state != waiting {
		return false
	}
	f := j.flight
	j.state = lost
	if f != nil {
		f.check(time.Now())
	}
	return true
}

// flights are the calls of handlers that have not returned.
func (h *held) flights() []*flight {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.flying()
}

// flying is flights; mu is held.
func (h *held) flying() (out []*flight) {
	for j := h.first; j != nil; j = j.after {
		if f := j.flight; f != nil && f.jobs[0] == j { // once for each flight
			out = append(out, f)
		}
	}
	return out
}

// cancelAll ends the contexts of all handlers, also of those that begin later.
func (h *held) cancelAll(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = cause
	for _, f := range h.flying() {
		f.end(time.Now(), cause)
	}
}
