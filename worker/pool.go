package worker

import "context"

// reserve keeps connections of a pool that was given to dbq.New for the worker's own calls, so that the transactions of
// its handlers cannot take them all.
func (r *run) reserve(ctx context.Context) {
	r.own, r.kept, r.unreserve = r.cfg.Queue.Client().Reserve(ctx)
}

// checkPool warns of more handlers than can have a transaction open at once. The worker starts all the same: not every
// handler begins one.
func (r *run) checkPool() {
	client := r.cfg.Queue.Client()
	limit := client.DB().Stats().MaxOpenConnections
	left := limit - r.kept
	if limit == 0 || r.cfg.Concurrency <= left || client.Server().OneWriter {
		return
	}
	r.log.write(linePool, "concurrency", r.cfg.Concurrency, "connections", left,
		"cure", "raise pool_max_conns in the DSN, or the limit of the pool given to New, or lower Concurrency")
}
