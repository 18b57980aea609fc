package worker

import (
	"context"
	"time"
)

// heartbeats renews all leases, three times within each lease, in one statement each time, until ctx ends.
func (r *run) heartbeats(ctx context.Context) {
	for {
		lease := r.now().lease
		every := lease / 3
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-r.leaseChanged: // leases that were taken with a shorter time must be renewed in time
			timer.Stop()
			continue
		}
		leases, jobs := r.held.leases()
		if len(leases) == 0 {
			continue
		}
		// A heartbeat that takes longer than until the next one is given up; a lease that cannot be renewed ends its handler by
		// the local clock.
		once, cancel := context.WithTimeout(ctx, every)
		renewed, lost, err := r.cfg.Queue.ExtendMany(once, leases, lease)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Error("worker: cannot renew leases", "leases", len(leases), "error", err)
		}
		for _, l := range renewed {
			r.held.renew(jobs[key(l)], l)
		}
		for _, l := range lost {
			r.held.lose(jobs[key(l)])
		}
	}
}
