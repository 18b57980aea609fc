package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/dbq-go/dbq/internal/wake"
)

// remote is the source of a queue without access to its database, as over HTTP. Its attempts count from the checkout,
// so it leases none ahead, and no task is marked as started.
type remote struct {
	*env
	invoke.Remote
	waited bool // the last checkout of the fetcher has waited at the server
}

// longestWait is how long a request waits at most for a task.
const longestWait = time.Minute

// remoteQueue is a *client.Queue.
type remoteQueue interface{ Remote() invoke.Remote }

func newRemote(e *env) *remote {
	s := &remote{env: e}
	if q, ok := e.cfg.Queue.(remoteQueue); ok {
		s.Remote = q.Remote()
	}
	return s
}

func (s *remote) checkout(ctx context.Context, n int, lease time.Duration) (out access.CheckoutResult, err error) {
	// The response must come before DrainTimeout ends, so that its tasks can be released.
	begun, wait := time.Now(), min(s.settings().pollMax, s.cfg.DrainTimeout, longestWait)
	if s.cfg.UntilEmpty || s.share != nil { // in a Group, the slots of a request that waits would be idle
		wait = 0
	}
	if s.Remote.Checkout != nil {
		out.Tasks, err = s.Remote.Checkout(ctx, s.cfg.ID, n, lease, wait)
	} else {
		out.Tasks, err = s.cfg.Queue.Checkout(ctx, n, lease)
	}
	// A server may wait for a shorter time.
	s.waited = err == nil && s.Remote.Checkout != nil && wait > 0 && time.Since(begun) >= min(wait/2, time.Second)
	return out, err
}

func (s *remote) start(_ context.Context, ls []dbq.Lease) ([]dbq.Lease, error) { return ls, nil }

func (s *remote) held(context.Context, []dbq.Lease) ([]dbq.Lease, error) {
	return nil, dbq.ErrUnavailable
}

func (s *remote) whyLost(_ context.Context, ls []dbq.Lease) (map[leaseKey]error, error) {
	causes := make(map[leaseKey]error, len(ls))
	for _, l := range ls {
		causes[key(l)] = dbq.ErrLeaseLost
	}
	return causes, nil
}

// due reports that some may be: only a checkout finds out.
func (s *remote) due(context.Context) (wait time.Duration, some bool, err error) { return 0, true, nil }

func (s *remote) isEmpty(context.Context) bool { return true }

func (s *remote) wakeups() wakeups { return remoteWakeups{s} }

func (s *remote) isConflict(error) bool { return false }

func (s *remote) attrs() []any { return s.Remote.Attrs }

// settle leaves time for another try within the lease, as a database's calls do themselves. Unlike a database, a server
// does not find out whether an earlier call has settled a task whose lease is gone: it probably has.
func (s *remote) settle(ctx context.Context, batch []settlement, ss []dbq.Settlement) ([]dbq.Settled, error) {
	ctx, cancel := context.WithTimeout(ctx, s.settings().lease/3)
	defer cancel()
	out, err := s.cfg.Queue.SettleMany(ctx, ss)
	for i := range out {
		if batch[i].again && errors.Is(out[i].Err, dbq.ErrLeaseLost) {
			out[i].Err = nil
		}
	}
	return out, err
}

// refuses takes only invalid settlements for refused. A response of a proxy, or of a server that is stopping, must not
// end a task.
func (s *remote) refuses(err error) (refused, maybe bool) {
	maybe = refuses(err)
	refused = maybe && errors.Is(err, dbq.ErrInvalid) && !errors.Is(err, dbq.ErrMayHaveHappened)
	return refused, maybe
}

func (s *remote) isFinal(err error) bool {
	if s.Remote.IsFinal != nil {
		return s.Remote.IsFinal(err)
	}
	return errors.Is(err, dbq.ErrInvalid)
}

// remoteWakeups are the wake-ups of a server that waits for tasks: after a checkout that has waited, the next one may
// follow at once. Otherwise the fetcher pauses.
type remoteWakeups struct{ *remote }

func (remoteWakeups) Pass()                                 {}
func (w remoteWakeups) BeforeCheckout()                     { w.waited = false }
func (w remoteWakeups) AfterCheckout(_ int, full bool) bool { return full || w.waited }
func (remoteWakeups) Wait(int) <-chan wake.Wakeup           { return nil }
func (remoteWakeups) Close()                                {}
