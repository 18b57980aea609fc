package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
)

// ErrRevoked is the cause of a handler's context when an operator has revoked its task, together with dbq.ErrLeaseLost and who it was.
var ErrRevoked = errors.New("worker: the task was revoked")

const (
	// revokedEvery is how often the worker reads whether the tasks that it has been at for revokedLeast are still its own.
	revokedEvery = 1900 * time.Millisecond
	revokedLeast = 100 * time.Millisecond
	// revokedTimeout bounds each such question.
	revokedTimeout = 5 * time.Second
)

// watchRevoked ends the handlers whose tasks are revoked, until ctx ends: when a bell rings, and else by a cheap question about those that
// take long.
func (r *run) watchRevoked(ctx context.Context) {
	var bell <-chan dbq.Ring
	if !r.cfg.UntilEmpty {
		b := r.cfg.Queue.RevokeBell()
		defer b.Close()
		bell = b.C()
	}
	tick := time.NewTicker(revokedEvery)
	defer tick.Stop()
	for {
		least := time.Duration(0)
		select {
		case <-ctx.Done():
			return
		case <-bell:
		case <-tick.C:
			least = revokedLeast
		}
		r.endRevoked(ctx, r.held.inWork(least))
	}
}

func (r *run) endRevoked(ctx context.Context, byLease map[dbq.Lease]*job) {
	if len(byLease) == 0 {
		return
	}
	ls := make([]dbq.Lease, 0, len(byLease))
	for _, j := range byLease {
		ls = append(ls, j.currentLease())
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, revokedTimeout)
	defer cancel()
	lost, err := r.cfg.Queue.Lost(ctx, ls[:min(len(ls), dbq.MaxBulk)])
	if parent.Err() == nil { // what is not found here is found by the heartbeats as well
		r.server.note(opRevoked, err)
	}
	for _, l := range lost {
		cause := dbq.ErrLeaseLost
		if l.Revoked != "" {
			cause = fmt.Errorf("%w: %s (%w)", ErrRevoked, l.Revoked, dbq.ErrLeaseLost)
		}
		r.held.loseBecause(byLease[key(l.Lease)], cause)
	}
}

// inWork are the tasks whose handlers have been called at least so long ago, by the lease's task and fence.
func (h *held) inWork(least time.Duration) map[dbq.Lease]*job {
	h.mu.Lock()
	defer h.mu.Unlock()
	byLease := map[dbq.Lease]*job{}
	for j := h.first; j != nil; j = j.after {
		if j.state == running && time.Since(j.began) >= least {
			byLease[key(j.lease)] = j
		}
	}
	return byLease
}

// loseBecause is lose for a known reason.
func (h *held) loseBecause(j *job, cause error) {
	h.mu.Lock()
	if f := j.flight; f != nil && len(f.jobs) == 1 && j.state == running {
		f.lostBy = cause
	}
	h.mu.Unlock()
	h.lose(j)
}
