package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
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

// whyLost is source.whyLost with a time-out.
func (e *env) whyLost(ctx context.Context, ls []dbq.Lease) (causes map[leaseKey]error, err error) {
	ctx, cancel := context.WithTimeout(ctx, lostTimeout)
	defer cancel()
	return e.source.whyLost(ctx, ls)
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
