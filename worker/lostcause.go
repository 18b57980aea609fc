package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
)

// lostTimeout limits the query for the causes of lost leases. Handlers whose leases are lost wait for it.
const lostTimeout = 5 * time.Second

var (
	errTakenOver   = lostBy(ErrTakenOver)
	errUnreachable = lostBy(ErrUnreachable)
	errRemoved     = lostBy(errors.New("worker: the task was removed"))
	errEnded       = lostBy(errors.New("worker: the attempt had been ended, as by CompleteTx"))
)

func lostBy(cause error) error { return fmt.Errorf("%w (%w)", cause, dbq.ErrLeaseLost) }

// whyLost queries how leases were lost, up to dbq.MaxBulk. The result omits the leases whose holders have ended the
// attempts, as a handler does that calls CompleteTx, and those that are still valid.
func (e *env) whyLost(ctx context.Context, ls []dbq.Lease) (causes map[leaseKey]error, err error) {
	ctx, cancel := context.WithTimeout(ctx, lostTimeout)
	defer cancel()
	lost, err := access.Lost(ctx, e.cfg.Queue, ls)
	causes = make(map[leaseKey]error, len(lost))
	for _, l := range lost {
		cause := errTakenOver
		switch {
		case l.Removed:
			cause = errRemoved
		case l.Cancelled:
			cause = fmt.Errorf("%w: %s (%w)", ErrCancelled, l.Revoked, dbq.ErrLeaseLost)
		case l.Revoked != "":
			cause = fmt.Errorf("%w: %s (%w)", ErrRevoked, l.Revoked, dbq.ErrLeaseLost)
		}
		causes[key(l.Lease)] = cause
	}
	return causes, err
}

// whyUnsettled returns the causes for those settlements of a batch whose leases were lost.
func (e *env) whyUnsettled(ctx context.Context, batch []settlement, out []dbq.Settled) map[leaseKey]error {
	var lost []dbq.Lease
	for i := range batch {
		if errors.Is(out[i].Err, dbq.ErrLeaseLost) {
			lost = append(lost, batch[i].leased.task.Lease)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	causes, err := e.whyLost(ctx, lost)
	for _, l := range lost {
		if causes[key(l)] == nil && err == nil {
			causes[key(l)] = errEnded
		}
	}
	return causes
}

// isWithdrawn reports whether an operator took the task away.
func isWithdrawn(cause error) bool {
	return errors.Is(cause, ErrRevoked) || errors.Is(cause, ErrCancelled)
}
