package dbq

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Settlement describes how the attempt of one lease ends.
type Settlement struct {
	Lease   Lease
	Outcome Outcome

	again, unrecorded, attemptsLeft bool // see access.SettleOptions
	cause                           error
}

// Settled is the outcome of one Settlement.
type Settled struct {
	// State is the task's state now, or state.None if it was removed.
	State State
	// Err is nil, ErrLeaseLost, ErrLocked, or ErrMayHaveHappened.
	Err error
}

// Settle ends an attempt with any outcome. It returns the errors of Complete, and ErrDelay for a time outside the
// limits. After Deleted, ErrMayHaveHappened means that the task no longer exists and dbq cannot determine whether
// this call removed it.
//
//	err := q.Settle(ctx, t.Lease, dbq.RetryIn(time.Minute, cause))
func (q *Queue) Settle(ctx context.Context, l Lease, o Outcome) error {
	s := Settlement{Lease: l, Outcome: o}
	out, err := q.settle(ctx, []Settlement{s}, true)
	return q.settledOne(s, out, err)
}

// SettleTx is Settle in the caller's transaction; see CompleteTx. If another attempt may follow, pass the lease that
// Extend has returned last: only its Progress is sure to be kept.
func (q *Queue) SettleTx(ctx context.Context, tx Tx, l Lease, o Outcome) error {
	s := Settlement{Lease: l, Outcome: o}
	out, err := q.settleTx(ctx, tx, s)
	return q.settledOne(s, out, err)
}

func (q *Queue) settleTx(ctx context.Context, tx Tx, s Settlement) (out []Settled, err error) {
	defer q.endTx("settle", 1, time.Now(), &err)
	ss, err := q.settlements([]Settlement{s})
	if err != nil {
		return nil, err
	}
	outcomes, left, err := q.c.store.SettleTx(ctx, tx, q.name, ss)
	if err != nil {
		return nil, err
	}
	if q.c.store.KnownLimited(q.name) { // the commit frees a slot
		q.c.wake.WakeAfterCommit(q.name, wake.Now())
	}
	q.c.core.FollowUpTx(left)
	return []Settled{Settled(outcomes[0])}, nil
}

// Complete is Settle with Completed(result): the task becomes COMPLETED and stores the result unless it is nil. If
// the lease is no longer valid, for example because the task is already settled, Complete returns ErrLeaseLost and
// changes nothing.
func (q *Queue) Complete(ctx context.Context, l Lease, result []byte) error {
	return q.Settle(ctx, l, Completed(result))
}

// CompleteTx is Complete in the caller's transaction: the task is completed when the transaction commits, together
// with the caller's own changes. If CompleteTx returns ErrLeaseLost, roll back: another worker may have taken the
// task over and will do the work. If the connection is lost, it returns ErrUnavailable, as EnqueueTx does.
func (q *Queue) CompleteTx(ctx context.Context, tx Tx, l Lease, result []byte) error {
	return q.SettleTx(ctx, tx, l, Completed(result))
}

// SettleMany ends up to MaxBulk attempts, each with its own outcome, in one transaction and as few statements as the
// engine allows. It returns the outcome of each, in order. An error means that nothing was settled, unless it is
// ErrMayHaveHappened.
//
// A task whose row another transaction has locked is skipped and reported as ErrLocked. The first such task delays
// the others by a tenth of a second on PostgreSQL, and by a second on MySQL and MariaDB. During the next ten seconds,
// locked rows delay nothing.
func (q *Queue) SettleMany(ctx context.Context, ss []Settlement) ([]Settled, error) {
	return q.settle(ctx, ss, false)
}

// settle is SettleMany. With wait, it waits for locked rows for as long as ctx allows.
func (q *Queue) settle(ctx context.Context, ss []Settlement, wait bool) (out []Settled, err error) {
	defer q.end("settle", len(ss), time.Now(), &err)
	settlements, err := q.settlements(ss)
	if err != nil || len(ss) == 0 {
		return nil, err
	}
	outcomes, left, err := q.c.store.Settle(ctx, q.name, settlements, wait)
	if err != nil {
		return nil, err
	}
	out = make([]Settled, len(ss))
	for i, o := range outcomes {
		out[i] = Settled(o)
	}
	due := dueAgain(settlements, out)
	if q.c.store.KnownLimited(q.name) { // each ended attempt frees a slot
		for i := range out {
			if out[i].Err == nil {
				due.Add(0)
			}
		}
	}
	q.c.wake.Wake(q.name, due)
	q.c.core.FollowUp(left)
	return out, nil
}

// settlements checks settlements and returns them in the store's form.
func (q *Queue) settlements(ss []Settlement) ([]store.SettleRow, error) {
	if err := q.check(len(ss)); err != nil {
		return nil, err
	}
	out := make([]store.SettleRow, len(ss))
	for i := range ss {
		s := &ss[i]
		if err := q.checkLease(s.Lease); err != nil {
			return nil, err
		}
		if err := s.Outcome.check(); err != nil {
			return nil, err
		}
		if err := bounds.Progress(s.Lease.Progress); err != nil {
			return nil, err
		}
		out[i] = s.Outcome.settlement(s.Lease, s.again)
		out[i].Unrecorded, out[i].AttemptsLeft = s.unrecorded, s.attemptsLeft
		if s.cause != nil && out[i].Event == state.Release {
			out[i].Cause = []byte(s.cause.Error())
		}
	}
	return out, nil
}

func (q *Queue) checkLease(l Lease) error {
	if l.TaskID == uuid.Nil {
		return fmt.Errorf("%w: the zero Lease; only Checkout fills Task.Lease", ErrLeaseLost)
	}
	if l.Queue != q.name {
		return fmt.Errorf("%w: %q, not %q", ErrWrongQueue, l.Queue, q.name)
	}
	return nil
}

// dueAgain returns when released and failed tasks are due again, by this process's clock.
func dueAgain(ss []store.SettleRow, out []Settled) (due wake.Due) {
	for i := range ss {
		s, to := &ss[i], out[i].State
		switch {
		case out[i].Err != nil || to != StateCreated && to != StateError:
		case s.After != nil:
			due.Add(*s.After)
		case !s.At.IsZero():
			due.Add(time.Until(s.At))
		}
	}
	return due
}

func (q *Queue) settledOne(s Settlement, out []Settled, err error) error {
	if err == nil {
		err = out[0].Err
	}
	if outer, ok := err.(*Error); ok { // from Settle: report the caller's operation instead
		outer.Op, outer.TaskID = string(s.Outcome.Event()), s.Lease.TaskID
		return outer
	}
	return q.c.wrap(string(s.Outcome.Event()), q.name, s.Lease.TaskID, err)
}
