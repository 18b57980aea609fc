package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
)

// extendMost is the maximum number of leases in one request.
const extendMost = 100

// heartbeat extends the leases of all tasks three times within each lease, until the run ends. After a failure it tries
// again sooner.
func (r *run) heartbeat() {
	pause := r.Lease / 3
	for r.final.Err() == nil {
		r.sleep(r.final, pause, nil)
		pause = r.Lease / 3
		for _, part := range r.toExtend() {
			err := r.extend(part)
			if err == nil || r.final.Err() != nil {
				continue
			}
			r.log.each(lineRepeat, "op", "extend", "leases", len(part), "error", cut(err.Error()))
			pause = min(max(r.Lease/15, pauseOf(err)), r.Lease/3)
		}
	}
}

// pauseOf returns the pause that a server requests.
func pauseOf(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return p.RetryAfter
	}
	return 0
}

// toExtend returns the tasks whose leases are to be extended. Their outcomes are not sent meanwhile, because an
// extension changes the lease.
func (r *run) toExtend() (parts [][]*held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*held
	for h := range r.tasks {
		if !h.lost && !h.settling && (!h.expired || h.finished) {
			h.renewing = true
			all = append(all, h)
		}
	}
	return slices.Collect(slices.Chunk(all, extendMost))
}

// extend extends leases in one request.
func (r *run) extend(tasks []*held) error {
	in := struct {
		LeaseSeconds float64         `json:"lease_seconds"`
		Leases       []wireExtension `json:"leases"`
	}{r.Lease.Seconds(), make([]wireExtension, len(tasks))}
	r.mu.Lock()
	for i, h := range tasks {
		in.Leases[i] = h.extension()
	}
	r.mu.Unlock()
	var out struct {
		Leases []wireExtended `json:"leases"`
	}
	begin := time.Now()
	path, err := r.Queue.path("extend")
	if err == nil {
		err = once(r.final, r.Lease/3, func(ctx context.Context) error { return r.Queue.client.call(ctx, path, in, &out) })
	}
	if err == nil && len(out.Leases) != len(tasks) {
		err = &lostError{http.MethodPost, "the response does not have an entry for each lease", nil}
	}
	r.mu.Lock()
	for i, h := range tasks {
		h.renewing = false
		if err != nil {
			continue
		}
		switch failed := taskError(out.Leases[i].Problem); {
		case errors.Is(failed, dbq.ErrLeaseLost):
			h.lose()
		case failed == nil && out.Leases[i].Lease != "":
			h.extended(out.Leases[i].Lease, begin.Add(r.Lease))
		}
	}
	r.mu.Unlock()
	signal(r.ready)
	return err
}
