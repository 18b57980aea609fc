package access

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// The calls in this file are for package worker, in addition to the calls of dbq.Queue. A program that settles tasks
// itself does not need them: it starts each task immediately after the checkout, in one caller.

// CheckoutResult has the tasks that a checkout leased, and those that it moved to POISON.
type CheckoutResult struct {
	// Tasks are leased, in the order in which the worker should handle them.
	Tasks []dbq.Task
	// Exhausted are tasks that the checkout moved to POISON because the lease of their last attempt expired. They count
	// towards n, and there is nothing to settle about them.
	Exhausted []dbq.Task
	// More reports whether due tasks may have been left because of WithMaxCheckoutBytes, so that the caller should
	// check out again at once.
	More bool
}

// Checkout is Queue.Checkout that also returns the tasks that it moved to POISON, and whether payloads have cut it
// short.
func Checkout(ctx context.Context, q *dbq.Queue, n int, lease time.Duration) (CheckoutResult, error) {
	tasks, exhausted, more, err := root.Checkout(ctx, q, n, lease)
	return CheckoutResult{tasks, exhausted, more}, err
}

// SettleOptions have the facts about a settlement that a worker adds to the lease and the outcome.
type SettleOptions struct {
	// Again repeats a settlement that returned ErrMayHaveHappened. If the task is already in the state that the outcome
	// leads to, under the lease's fence, then the earlier call settled it, and this one does not report ErrLeaseLost.
	// With Completed or Deleted the same is true if the lease's holder has ended the attempt in another way, or if the
	// task was removed before the lease ended; Settled.State then has the task's state.
	Again bool
	// Unrecorded keeps the attempt out of the history if another one follows it.
	Unrecorded bool
	// AttemptsLeft says that the task has attempts left, so that Failed and RetryIn do not lead to POISON.
	AttemptsLeft bool
	// Cause is stored in the history as the reason of a Released. Other outcomes ignore it.
	Cause error
}

// Settlement returns a settlement with options, for Queue.SettleMany.
func Settlement(l dbq.Lease, o dbq.Outcome, opts SettleOptions) dbq.Settlement {
	return root.Settlement(l, o, opts.Again, opts.Unrecorded, opts.AttemptsLeft, opts.Cause)
}

// StillHeld takes up to dbq.MaxBulk leases, and returns the ones whose tasks are still leased under their fence: they
// have not been settled, revoked or taken over. It reads without locks, so it returns even while renewals have to wait.
// An expired lease can be taken over at any moment.
func StillHeld(ctx context.Context, q *dbq.Queue, ls []dbq.Lease) (held []dbq.Lease, err error) {
	c := Of(q.Client())
	if err = bounds.Bulk(len(ls)); err == nil && len(ls) > 0 {
		rows, readErr := c.Store.PeekTasks(ctx, tasksOf(ls))
		for _, l := range ls {
			if readErr == nil && keyOf(l).HeldBy(rows[l.TaskID]) {
				held = append(held, l)
			}
		}
		err = readErr
	}
	return held, c.Wrap("peek", q.Name(), uuid.Nil, err)
}

// LostLease is a lease that is no longer valid.
type LostLease struct {
	Lease dbq.Lease
	// Revoked names the operator who took the lease away, and the reason: "revoked by ..." or "cancelled by ...", as in
	// the task's result. It is empty if another worker has taken the task over, if it was removed, or if it has changed
	// since.
	Revoked   string
	Cancelled bool // the operator has cancelled the task
	Removed   bool // the task no longer exists
}

// Lost takes up to dbq.MaxBulk leases, and returns the lost ones: others took the tasks over, an operator revoked or
// cancelled them, or they were removed. A lease whose holder has ended the attempt is not lost. It locks and changes
// nothing.
func Lost(ctx context.Context, q *dbq.Queue, ls []dbq.Lease) (lost []LostLease, err error) {
	if len(ls) == 0 {
		return nil, nil
	}
	c := Of(q.Client())
	if err := bounds.Bulk(len(ls)); err != nil {
		return nil, c.Wrap("lost", q.Name(), uuid.Nil, err)
	}
	rows, err := c.Store.PeekTasks(ctx, tasksOf(ls))
	for i := 0; i < len(ls) && err == nil; i++ {
		l := ls[i]
		row, exists := rows[l.TaskID]
		if exists && row.Fence == l.Fence {
			continue
		}
		gone := LostLease{Lease: l, Removed: !exists}
		if exists && row.Fence == l.Fence+1 && (row.State == dbq.StateError || row.State == dbq.StatePoison) {
			err = gone.revoked(ctx, q.Client(), row.Fence)
		}
		lost = append(lost, gone)
	}
	return lost, c.Wrap("lost", q.Name(), uuid.Nil, err)
}

// revoked reads whether an operator took the lease away, which left the task under a fence.
func (l *LostLease) revoked(ctx context.Context, c *dbq.Client, fence int64) error {
	t, err := c.Get(ctx, l.Lease.TaskID)
	switch {
	case errors.Is(err, dbq.ErrNotFound):
		return nil
	case err == nil && t.Fence == fence && (t.Cancelled || bytes.HasPrefix(t.Result, []byte("revoked by "))):
		l.Revoked, l.Cancelled = string(t.Result), t.Cancelled
	}
	return err
}

// SetResultTx sets the result of a task that this transaction has completed under the lease, for a result that is
// known only after the completion. A result longer than dbq.MaxResult bytes is cut and marked as cut.
func SetResultTx(ctx context.Context, q *dbq.Queue, tx dbq.Tx, l dbq.Lease, result []byte) error {
	c := Of(q.Client())
	return c.Wrap("complete", q.Name(), l.TaskID, c.Store.SetResultTx(ctx, tx, keyOf(l), result))
}

// SettledTx reports whether the task is settled, as this transaction sees it: no longer leased under the lease. If it
// returns false after SettleTx, the server has rolled the transaction back by itself, as MySQL and MariaDB do after a
// deadlock, and later statements are not part of it; see dialect.Server.RollsBack.
func SettledTx(ctx context.Context, q *dbq.Queue, tx dbq.Tx, l dbq.Lease) (bool, error) {
	c := Of(q.Client())
	leased, err := c.Store.LeasedTx(ctx, tx, keyOf(l))
	return err == nil && !leased, c.Wrap("peek", q.Name(), l.TaskID, err)
}

func keyOf(l dbq.Lease) store.LeaseKey { return store.LeaseKey{TaskID: l.TaskID, Fence: l.Fence} }

func tasksOf(ls []dbq.Lease) []uuid.UUID {
	ids := make([]uuid.UUID, len(ls))
	for i, l := range ls {
		ids[i] = l.TaskID
	}
	return ids
}
