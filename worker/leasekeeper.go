package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/wake"
)

const (
	// renewMost is the maximum number of leases in one call: a call that hangs delays only its own leases.
	renewMost = 500
	// revokedEvery is how often the worker checks that it still holds the tasks that have been in handlers for
	// revokedLeast.
	revokedEvery = 1900 * time.Millisecond
	revokedLeast = 100 * time.Millisecond
)

// leaseKeeper renews the leases of a worker, and ends the handlers whose leases are lost or revoked.
type leaseKeeper struct {
	*env
	leases *leases
	soon   chan struct{} // see renewSoon
}

func newLeaseKeeper(e *env, ls *leases) *leaseKeeper {
	k := &leaseKeeper{env: e, leases: ls, soon: make(chan struct{}, 1)}
	ls.renewSoon = k.renewSoon
	return k
}

// renewSoon starts renewals immediately, with the current length of leases: to store progress, and because tasks that
// were leased for a shorter time would not last until the next renewal of longer leases.
func (k *leaseKeeper) renewSoon() {
	select {
	case k.soon <- struct{}{}:
	default: // they are already requested
	}
}

// renew renews all leases, three times within each lease, until ctx ends. A failed renewal is soon repeated. If a
// lease cannot be renewed, its handler's context ends by the local clock, unless the database can still confirm that
// no other worker has the task.
func (k *leaseKeeper) renew(ctx context.Context) {
	pause, overdue := k.settings().lease/3, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-k.soon:
		}
		lease := k.settings().lease
		pause = lease / 3
		if overdue = k.renewAll(ctx, lease, overdue); overdue {
			pause = lease / 30
		}
	}
}

// renewAll renews all leases that need it. overdue reports whether some could not be renewed the last time. The
// result reports whether some cannot be renewed now.
func (k *leaseKeeper) renewAll(ctx context.Context, lease time.Duration, overdue bool) (failed bool) {
	ls, byKey := k.leases.toRenew(lease)
	for len(ls) > 0 && ctx.Err() == nil {
		part := ls[:min(len(ls), renewMost)]
		ls = ls[len(part):]
		if overdue {
			k.vouch(ctx, part, byKey, lease)
		}
		err := k.renewSome(ctx, part, byKey, lease)
		if err != nil && ctx.Err() == nil {
			failed = true
			k.vouch(ctx, part, byKey, lease)
		}
		if ctx.Err() == nil {
			k.health.report(opRenew, err)
		}
	}
	return failed
}

func (k *leaseKeeper) renewSome(ctx context.Context, ls []dbq.Lease, byKey map[leaseKey]*leased,
	lease time.Duration) error {
	// A call that hangs, as on a dead connection, must leave time for others.
	inTime, cancel := context.WithTimeout(ctx, lease/6)
	defer cancel()
	renewed, lost, err := k.cfg.Queue.ExtendMany(inTime, ls, lease)
	if err != nil {
		k.leases.unanswered(ls, byKey)
	}
	for _, l := range renewed {
		k.leases.renewed(byKey[key(l)], l)
	}
	k.lose(ctx, lost, byKey)
	return err
}

// lose ends the handlers whose leases are lost, with the cause, but not those that have ended their attempts.
func (k *leaseKeeper) lose(ctx context.Context, ls []dbq.Lease, byKey map[leaseKey]*leased) {
	if len(ls) == 0 {
		return
	}
	causes, err := k.whyLost(ctx, ls)
	for _, l := range ls {
		if cause := causes[key(l)]; cause != nil || err != nil {
			k.leases.lose(byKey[key(l)], cause)
		} else {
			k.leases.endedItself(byKey[key(l)])
		}
	}
}

// vouch queries which of the leases that cannot be renewed are still this worker's. These count as held for another
// half of a lease. vouch runs before and after each failed renewal, at least three times within that half, so one
// late answer on a busy machine does no harm. A handler can overlap for at most that long with the handler of a
// worker that took its task over.
func (k *leaseKeeper) vouch(ctx context.Context, ls []dbq.Lease, byKey map[leaseKey]*leased, lease time.Duration) {
	begun := time.Now()
	inTime, cancel := context.WithTimeout(ctx, lease/6)
	defer cancel()
	held, err := k.source.held(inTime, ls)
	if err != nil {
		return
	}
	free := make(map[leaseKey]bool, len(held))
	for _, l := range held {
		free[key(l)] = true
	}
	var lost []dbq.Lease
	for _, l := range ls {
		if free[key(l)] {
			k.leases.vouch(byKey[key(l)], begun.Add(lease/2))
		} else {
			lost = append(lost, l)
		}
	}
	k.lose(ctx, lost, byKey)
}

// watchRevoked ends the handlers whose tasks are revoked or cancelled, until ctx ends: at once where the database
// notifies, and otherwise by a cheap query about those that take long.
func (k *leaseKeeper) watchRevoked(ctx context.Context) {
	var revoked <-chan wake.Wakeup
	if !k.cfg.UntilEmpty {
		waiter := k.wake.RevokedWaiter(k.cfg.Queue.Name())
		defer waiter.Close()
		revoked = waiter.C()
	}
	tick := time.NewTicker(revokedEvery)
	defer tick.Stop()
	for {
		least := time.Duration(0)
		select {
		case <-ctx.Done():
			return
		case <-revoked:
		case <-tick.C:
			least = revokedLeast
		}
		k.endRevoked(ctx, least)
	}
}

// endRevoked ends the handlers of revoked tasks, among those that were called at least this long ago.
func (k *leaseKeeper) endRevoked(ctx context.Context, least time.Duration) {
	ls, byKey := k.leases.inHandlers(least)
	for some := range slices.Chunk(ls, dbq.MaxBulk) {
		k.endRevokedOf(ctx, some, byKey)
	}
}

func (k *leaseKeeper) endRevokedOf(ctx context.Context, ls []dbq.Lease, byKey map[leaseKey]*leased) {
	causes, err := k.whyLost(ctx, ls)
	if ctx.Err() == nil { // renewals find the others
		k.health.report(opRevoked, err)
	}
	for lost, cause := range causes {
		k.leases.lose(byKey[lost], cause)
	}
}

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
