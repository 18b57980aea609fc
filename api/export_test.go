package api

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/wire"
)

// What the tests of this package use.
var ProblemOf = problemOf

// CheckBody checks a body of an operation, such as "POST /v1/databases".
func CheckBody(a *API, operation string, body []byte) *wire.Problem {
	return a.routes[operation].body.check(body, &reservation{shared: a.budget, most: a.cfg.MaxMemory / 2})
}

// HoldSeries takes the place for series of each database, until free is called.
func HoldSeries(a *API) (free func()) {
	for _, d := range a.databases {
		d.reading <- struct{}{}
	}
	return func() {
		for _, d := range a.databases {
			<-d.reading
		}
	}
}

// ReportWorkers reports the workers of every database as of now.
func ReportWorkers(ctx context.Context, a *API, now time.Time) (err error) {
	for _, d := range a.databases {
		err = errors.Join(err, d.workers.report(ctx, now))
	}
	return err
}

// Sign signs a lease of an attempt that has begun a minute ago.
func Sign(key []byte, l dbq.Lease, worker string, now time.Time) string {
	return sign(key, held{l, worker, now.Add(-time.Minute)}, now)
}

// Verify verifies a lease.
func Verify(key []byte, text string, now time.Time) (l dbq.Lease, worker string, started time.Time, err error) {
	h, err := verify(key, text, now)
	return h.Lease, h.worker, h.started, err
}
