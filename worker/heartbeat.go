package worker

import (
	"context"
	"time"
)

// heartbeats renews all leases, three times within each lease, in one statement each time, until ctx ends. One that fails is soon repeated. A lease
// that cannot be renewed ends its handler by the local clock.
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
		leases, jobs := r.held.leases(lease / 2)
		if len(leases) == 0 {
			continue
		}
		once, cancel := context.WithTimeout(ctx, lease/6) // one that hangs, as on a dead connection, must leave time for others
		renewed, lost, err := r.cfg.Queue.ExtendMany(once, leases, lease)
		cancel()
		if err != nil && ctx.Err() == nil {
			pause = lease / 30
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
