package worker

// checkPool warns of more handlers than can have a transaction open at once. The worker starts all the
// same: not every handler begins one.
func (r *run) checkPool() {
	client := r.cfg.Queue.Client()
	most := client.DB().Stats().MaxOpenConnections
	if most == 0 || r.cfg.Concurrency <= most || client.Server().OneWriter {
		return
	}
	r.log.write(linePool, "concurrency", r.cfg.Concurrency, "connections", most,
		"cure", "raise pool_max_conns in the DSN, or the limit of the pool given to New, or lower Concurrency")
}
