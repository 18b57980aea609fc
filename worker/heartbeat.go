package worker

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
)

// heartbeatMost is how many leases one call renews: a call that hangs holds up no more than its own.
const heartbeatMost = 500

// heartbeats renews all leases, three times within each lease, until ctx ends. What fails is soon repeated. A lease that cannot be renewed
// ends its handler by the local clock, unless the database can still say that nobody has taken the task over.
func (r *run) heartbeats(ctx context.Context) {
	pause, overdue := r.now().lease/3, false
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-r.leaseChanged: // what was taken for a shorter time is not held until the next heartbeat of a longer one
			timer.Stop()
		}
		lease := r.now().lease
		pause = lease / 3
		leases, jobs := r.held.leases(lease)
		was := overdue
		overdue = false
		for len(leases) > 0 && ctx.Err() == nil {
			part := leases[:min(len(leases), heartbeatMost)]
			leases = leases[len(part):]
			if was {
				r.vouch(ctx, part, jobs, lease)
			}
			err := r.renew(ctx, part, jobs, lease)
			if err != nil && ctx.Err() == nil {
				pause, overdue = lease/30, true
				r.vouch(ctx, part, jobs, lease)
			}
			if ctx.Err() != nil {
				return
			}
			r.server.note(opRenew, err)
		}
	}
}

// renew renews some leases.
func (r *run) renew(ctx context.Context, ls []dbq.Lease, jobs map[dbq.Lease]*job, lease time.Duration) error {
	once, cancel := context.WithTimeout(ctx, lease/6) // one that hangs, as on a dead connection, must leave time for others
	defer cancel()
	renewed, lost, err := r.cfg.Queue.ExtendMany(once, ls, lease)
	for _, l := range renewed {
		r.held.renew(jobs[key(l)], l)
	}
	for _, l := range lost {
		r.held.lose(jobs[key(l)])
	}
	return err
}

// vouch asks which leases nobody has taken over, when they cannot be renewed: these go on for half a lease more. It is
// asked before and after each renewal that fails, at least three times within that half, so that one answer that is late
// on a busy machine costs nothing; until its end, at the longest, a handler may go on beside one that took its task over.
func (r *run) vouch(ctx context.Context, ls []dbq.Lease, jobs map[dbq.Lease]*job, lease time.Duration) {
	begun := time.Now()
	once, cancel := context.WithTimeout(ctx, lease/6)
	defer cancel()
	still, err := r.cfg.Queue.StillHeld(once, ls)
	if err != nil {
		return
	}
	free := make(map[dbq.Lease]bool, len(still))
	for _, l := range still {
		free[key(l)] = true
	}
	for _, l := range ls {
		if j := jobs[key(l)]; free[key(l)] {
			r.held.vouch(j, begun.Add(lease/2))
		} else {
			r.held.lose(j)
		}
	}
}
