package api

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/wire"
)

// readLeases are the leases of a request: for each a lease or a problem.
type readLeases struct {
	key      []byte
	leases   []held
	problems []*wire.Problem
}

// readLeases verifies the texts of n leases of a queue.
func (a *API) readLeases(ctx context.Context, d *database, queue string, n int, text func(int) string) (
	r readLeases, err error) {
	if r.key, err = d.leases.load(ctx, d.client); err != nil {
		return r, err
	}
	r.leases, r.problems = make([]held, n), make([]*wire.Problem, n)
	now := time.Now()
	for i := range n {
		l, err := verify(r.key, text(i), now)
		if err == nil && l.Queue != queue {
			err = wire.BadLease.Problem()
		}
		if err != nil {
			r.problems[i] = problemOf(err)
			continue
		}
		r.leases[i] = l
	}
	return r, nil
}
