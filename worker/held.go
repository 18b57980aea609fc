package worker

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// job is one task that the worker holds.
type job struct {
	task dbq.Task

	// The following are guarded by held.mu.
	held   *held
	lease  dbq.Lease // as renewed last
	state  jobState
	cancel context.CancelCauseFunc // of the running handler
	expiry *time.Timer             // ends the handler when the lease does
}

type jobState int

const (
	waiting jobState = iota
	running
	finished // its settlement is under way
	lost
)

func (j *job) currentLease() dbq.Lease {
	j.held.mu.Lock()
	defer j.held.mu.Unlock()
	return j.lease
}

// held is all that a worker holds, from checkout to settlement.
type held struct {
	mu   sync.Mutex
	jobs map[*job]struct{}
}

func newHeld() *held { return &held{jobs: map[*job]struct{}{}} }

func (h *held) add(t dbq.Task) *job {
	j := &job{task: t, held: h, lease: t.Lease}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs[j] = struct{}{}
	return j
}

func (h *held) remove(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, j)
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.jobs)
}

// begin gives a job's handler its context, which ends with the lease. It is false when the lease has ended already.
func (h *held) begin(j *job) (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := remaining(j.lease)
	if j.state != waiting || left <= 0 {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	j.state, j.cancel = running, cancel
	j.expiry = time.AfterFunc(left, func() { h.expire(j) })
	return ctx, true
}

// expire ends a handler whose lease has run out by the local clock, as when the database cannot be reached.
func (h *held) expire(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j.state != running {
		return
	}
	if left := remaining(j.lease); left > 0 { // renewed while the timer fired
		j.expiry.Reset(left)
		return
	}
	j.cancel(dbq.ErrLeaseLost)
}

func (h *held) finish(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.expiry.Stop()
	j.cancel(nil)
	if j.state == running {
		j.state = finished
	}
}

// leases are what a heartbeat renews, by the lease's task and fence.
func (h *held) leases() ([]dbq.Lease, map[dbq.Lease]*job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ls, byLease := make([]dbq.Lease, 0, len(h.jobs)), make(map[dbq.Lease]*job, len(h.jobs))
	for j := range h.jobs {
		if j.state != lost {
			ls = append(ls, j.lease)
			byLease[key(j.lease)] = j
		}
	}
	return ls, byLease
}

// key is a lease without its end, which changes.
func key(l dbq.Lease) dbq.Lease {
	l.Until = time.Time{}
	return l
}

func (h *held) renew(j *job, l dbq.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.lease = l
	if j.state == running {
		j.expiry.Reset(remaining(l))
	}
}

// lose ends the handler of a task whose lease is gone. What is being settled is gone for another reason: it has been.
func (h *held) lose(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch j.state {
	case running:
		j.cancel(dbq.ErrLeaseLost)
	case waiting:
		j.state = lost
	}
}

func (h *held) cancelAll(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for j := range h.jobs {
		if j.state == running {
			j.cancel(cause)
		}
	}
}

func (h *held) running() []*job {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*job
	for j := range h.jobs {
		if j.state == running {
			out = append(out, j)
		}
	}
	return out
}
