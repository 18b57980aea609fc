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
	pause := r.now().lease / 3
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
		for len(leases) > 0 && ctx.Err() == nil {
			part := leases[:min(len(leases), heartbeatMost)]
			leases = leases[len(part):]
			err := r.renew(ctx, part, jobs, lease)
			if ctx.Err() != nil {
				return
			}
			if r.server.note(opRenew, err); err != nil {
				pause = lease / 30
			}
		}
	}
}

// renew renews some leases. When it fails it asks which of them nobody has taken over: these go on for half a lease
// more. They are renewed or asked for again a fifth of a lease later, which leaves time for an answer on a busy machine;
// until then, at the longest, a handler may go on beside one that took its task over.
func (r *run) renew(ctx context.Context, ls []dbq.Lease, jobs map[dbq.Lease]*job, lease time.Duration) error {
	once, cancel := context.WithTimeout(ctx, lease/6) // one that hangs, as on a dead connection, must leave time for others
	renewed, lost, err := r.cfg.Queue.ExtendMany(once, ls, lease)
	cancel()
	for _, l := range renewed {
		r.held.renew(jobs[key(l)], l)
	}
	for _, l := range lost {
		r.held.lose(jobs[key(l)])
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	begun := time.Now()
	once, cancel = context.WithTimeout(ctx, lease/6)
	defer cancel()
	still, unknown := r.cfg.Queue.StillHeld(once, ls)
	for _, l := range still {
		r.held.vouch(jobs[key(l)], begun.Add(lease/2))
	}
	if unknown == nil && len(still) < len(ls) {
		for _, l := range ls {
			if j := jobs[key(l)]; !r.held.vouched(j, begun) {
				r.held.lose(j)
			}
		}
	}
	return err
}
