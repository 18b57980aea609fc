package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
)

// Where one transaction writes at a time, as on SQLite, a renewal can wait for longer than its lease, and so can a
// checkout. Whichever comes first must not be the checkout: it would take over what its own worker is still at.

// checkOutInTime is a checkout that has ended before the first of the worker's leases does. While one is overdue it
// finds nothing.
func (r *run) checkOutInTime(ctx context.Context, want int, lease time.Duration) (out dbq.CheckedOut, err error) {
	q := r.cfg.Queue.ForWorker(r.cfg.ID)
	if !q.Client().Server().OneWriter {
		return q.CheckoutAndSpent(ctx, want, lease)
	}
	first, some := r.held.firstEnd()
	if !some {
		return q.CheckoutAndSpent(ctx, want, lease)
	}
	inTime, cancel := context.WithDeadline(ctx, first)
	defer cancel()
	if inTime.Err() != nil {
		return out, ctx.Err()
	}
	out, err = q.CheckoutAndSpent(inTime, want, lease)
	cut := errors.Is(err, context.DeadlineExceeded) && inTime.Err() != nil && ctx.Err() == nil
	if cut && !errors.Is(err, dbq.ErrMayHaveHappened) {
		return dbq.CheckedOut{}, nil
	}
	return out, err
}

// firstEnd is when the first lease of what the worker still holds ends, by this process's clock; some is false when it
// holds nothing.
func (h *held) firstEnd() (first time.Time, some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for j := h.first; j != nil; j = j.after {
		if until := j.lease.Until; j.state < expired && (!some || until.Before(first)) {
			first, some = until, true
		}
	}
	return first, some
}
