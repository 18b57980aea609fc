package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
)

// Queue is a queue whose tasks a Worker handles: a *dbq.Queue, or a *client.Queue in a program without access to the
// database. Their methods of these names have the documentation. With another implementation, as in a test, the worker
// polls, and can use only the features that it has with package client's.
type Queue interface {
	Name() string
	Checkout(ctx context.Context, n int, lease time.Duration) ([]dbq.Task, error)
	ExtendMany(ctx context.Context, ls []dbq.Lease, d time.Duration) (renewed, lost []dbq.Lease, err error)
	SettleMany(ctx context.Context, ss []dbq.Settlement) ([]dbq.Settled, error)
}

// source has the methods of a queue that a run calls besides those of Queue. A queue of a database implements more of
// them than one of a server.
type source interface {
	// checkout leases up to n tasks. A server may wait for some.
	checkout(ctx context.Context, n int, lease time.Duration) (access.CheckoutResult, error)
	// start records that attempts are about to begin, and returns those leases that are still valid.
	start(ctx context.Context, ls []dbq.Lease) ([]dbq.Lease, error)
	// held returns the leases of tasks that no other worker has taken over.
	held(ctx context.Context, ls []dbq.Lease) ([]dbq.Lease, error)
	// whyLost returns how leases were lost, up to dbq.MaxBulk. It omits those whose holders have ended the attempts, as
	// a handler does that calls CompleteTx, and those that are still valid.
	whyLost(ctx context.Context, ls []dbq.Lease) (map[leaseKey]error, error)
	// due returns when the next task is due; some is false if there is none.
	due(ctx context.Context) (wait time.Duration, some bool, err error)
	// isEmpty reports that no task is due, after a checkout that found none.
	isEmpty(ctx context.Context) bool
	// wakeups returns the wake-ups of the fetcher.
	wakeups() wakeups
	// isConflict reports whether a handler's error is about a transaction that was rolled back because of another one.
	isConflict(err error) bool
	// attrs describes the database or the server in the log.
	attrs() []any
	// settle sends the settlements of a batch.
	settle(ctx context.Context, batch []settlement, ss []dbq.Settlement) ([]dbq.Settled, error)
	// refuses reports whether a request to settle was refused because of the settlements in it, and otherwise whether
	// it may have failed because of one of them.
	refuses(err error) (refused, maybe bool)
	// isFinal reports whether repeating a checkout cannot help after an error.
	isFinal(err error) bool
}

// inDatabase is the source of a *dbq.Queue.
type inDatabase struct {
	*env
	queue *dbq.Queue // for the worker's id
}

func newInDatabase(e *env) *inDatabase {
	return &inDatabase{e, access.ForWorker(e.db, e.cfg.ID)}
}

func (s *inDatabase) checkout(ctx context.Context, n int, lease time.Duration) (access.CheckoutResult, error) {
	return access.Checkout(ctx, s.queue, n, lease)
}

func (s *inDatabase) start(ctx context.Context, ls []dbq.Lease) ([]dbq.Lease, error) {
	marked, _, err := access.MarkStarted(ctx, s.db, ls)
	return marked, err
}

func (s *inDatabase) held(ctx context.Context, ls []dbq.Lease) ([]dbq.Lease, error) {
	return access.StillHeld(ctx, s.db, ls)
}

func (s *inDatabase) whyLost(ctx context.Context, ls []dbq.Lease) (causes map[leaseKey]error, err error) {
	lost, err := access.Lost(ctx, s.db, ls)
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

func (s *inDatabase) due(ctx context.Context) (wait time.Duration, some bool, err error) {
	return s.wake.Next(ctx, s.db.Name())
}

// isEmpty queries the database. A checkout that found nothing is not enough, because it skips rows that other
// transactions have locked.
func (s *inDatabase) isEmpty(ctx context.Context) bool {
	wait, some, err := s.due(ctx)
	return err == nil && (!some || wait > 0)
}

func (s *inDatabase) wakeups() wakeups { return s.wake.TaskWaiter(s.db.Name()) }

func (s *inDatabase) isConflict(err error) bool { return s.db.Client().IsConflict(err) }

func (s *inDatabase) attrs() []any {
	c := s.db.Client().Info()
	attrs := []any{"dialect", c.Dialect, "server", c.Server.Product + " " + c.Server.Version,
		"strategy", string(c.Strategy)}
	if t := c.Target; t != (dialect.Target{}) { // not known for a client made by New
		attrs = append(attrs, "database", t.String())
	}
	return attrs
}

func (s *inDatabase) settle(ctx context.Context, _ []settlement, ss []dbq.Settlement) ([]dbq.Settled, error) {
	return s.db.SettleMany(ctx, ss)
}

func (s *inDatabase) refuses(err error) (refused, maybe bool) { return refuses(err), false }

func (s *inDatabase) isFinal(err error) bool {
	return errors.Is(err, dbq.ErrClosed) || errors.Is(err, dbq.ErrInvalid)
}
