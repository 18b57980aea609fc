package admin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The operators' events, the same as in state.ByOperator.
const (
	// Reenqueue makes a task in ERROR or POISON due now; its attempts start over.
	Reenqueue = state.Reenqueue
	// Reject parks a task before it runs: from CREATED to ERROR.
	Reject = state.Reject
	// Revoke takes the lease of a task away and parks it: from PROCESSING to ERROR. Its worker gets dbq.ErrLeaseLost at
	// its next call. The context of its handler ends immediately in this process, and on PostgreSQL also in other
	// processes that listen. Otherwise it ends within 2 seconds.
	Revoke = state.Revoke
	// Cancel ends a task that is no longer wanted: from CREATED, PROCESSING or ERROR to POISON, marked as cancelled.
	// Its worker's handler ends as by Revoke, with the cause worker.ErrCancelled. Reenqueue lets a cancelled task run
	// after all.
	Cancel = state.Cancel
	// Finish completes a task without an attempt: from CREATED, ERROR or POISON to COMPLETED. Result sets its result. It
	// cannot be undone. The tasks of its workflow that need it go on, even if the task itself still waited for others;
	// those that were cancelled because of it need workflow.Retry.
	Finish = state.Finish
	// Quarantine moves a task from ERROR to POISON.
	Quarantine = state.Quarantine
	// Restore moves a task from POISON to ERROR, parked, for inspection.
	Restore = state.Restore
	// Purge removes a task in COMPLETED or POISON, or a parked one. It cannot be undone.
	Purge = state.Purge
)

// Operate applies an event to one task, regardless of its lease. It returns dbq.ErrNotFound if the task does not
// exist, dbq.ErrWrongState if its state does not allow the event, and dbq.ErrInvalid for an event that is not an
// operator's. If the answer is lost, Operate checks the outcome. It returns dbq.ErrMayHaveHappened only if another
// call has changed the task in between, or if the answer to a Purge was lost and the task no longer exists.
//
// A revoked, rejected or cancelled task has "revoked by ann: reason" as its Result, and so has one that Finish
// completes without Result. Other events prepend the reason, if any, to the existing Result. The attempt that Revoke or
// Cancel ends is recorded in the history in the same transaction, whatever the queue's dbq.History.
func (a *Admin) Operate(ctx context.Context, event state.Event, id uuid.UUID, opts ...Option) (err error) {
	defer func(start time.Time) { a.core.Observe(string(event), "", 1, false, start, err) }(time.Now())
	ctx, o, err := a.audited(ctx, opts, store.Audit{Action: string(event), TaskID: id})
	op, err := operation(event, o, err)
	if err != nil {
		return a.core.Wrap(string(event), "", id, err)
	}
	moved, _, err := a.store.OperateOne(ctx, op, id)
	if err != nil {
		return a.core.Wrap(string(event), "", id, err)
	}
	a.wake(ctx, op.Transition, moved)
	return nil
}

// OperateTx is Operate in the caller's transaction: the event happens when it commits, together with the caller's own
// changes. If it returns an error, roll back. Workers are woken as by dbq.Queue.EnqueueManyTx. The handler of a
// revoked or cancelled task ends within 2 seconds of the commit.
func (a *Admin) OperateTx(
	ctx context.Context, tx dbq.Tx, event state.Event, id uuid.UUID, opts ...Option,
) (err error) {
	defer func(start time.Time) { a.core.Observe(string(event), "", 1, true, start, err) }(time.Now())
	ctx, o, err := a.audited(ctx, opts, store.Audit{Action: string(event), TaskID: id})
	op, err := operation(event, o, err)
	var moved []dialect.Row
	var left store.FollowUp
	if err == nil {
		moved, left, err = a.store.OperateTx(ctx, tx, op, id)
	}
	if err != nil {
		return a.core.Wrap(string(event), "", id, err)
	}
	a.core.FollowUpTx(left)
	ordered := false
	if freesPlace(op.Transition, moved[0]) {
		if ordered, err = a.store.OrderedTx(ctx, tx, moved[0].Queue); err != nil {
			return a.core.Wrap(string(event), moved[0].Queue, id, err)
		}
	}
	if ordered || mayStart(op.Transition, moved[0]) {
		a.core.Wake.WakeAfterCommit(moved[0].Queue, wake.Now())
	}
	return nil
}

// Operated is the result of a call of OperateMany.
type Operated struct {
	// Changed counts the tasks that it changed or, with DryRun, would try to change.
	Changed int
	// More reports that it found as many tasks as Filter.Limit: there may be more. For these, set Filter.After to Last.
	More bool
	// Last is the last task that it tried to change or, if there was none, Filter.After.
	Last uuid.UUID
}

// OperateMany applies an event to up to f.Limit tasks that the filter selects and whose state allows it, in the order
// of their ids. If there may be more, Operated.More is true: call it again with f.After set to Operated.Last. Some
// selected tasks may stay unchanged, for example because they end first or a workflow still needs them. Without
// f.After, the next call selects the same tasks again and may never reach the rest. Each batch of tasks is a separate
// transaction: after an error, the result is about the batches before. Results and reasons are stored as by Operate.
//
// Reenqueue and Finish skip cancelled tasks unless f.CancelledOnly selects them, so retrying failures does not revive
// cancelled work.
func (a *Admin) OperateMany(
	ctx context.Context, event state.Event, f Filter, opts ...Option,
) (done Operated, err error) {
	done.Last = f.After
	defer func(start time.Time) { a.core.Observe(string(event), f.Queue, done.Changed, false, start, err) }(time.Now())
	o, err := a.optionsOrDryRun(ctx, opts)
	if err == nil {
		err = o.resultFor(string(event))
	}
	op, err := operation(event, o, err)
	if err == nil {
		err = f.check()
	}
	if err == nil && f.NewestFirst {
		err = errNewestFirst
	}
	var ids []uuid.UUID
	if err == nil {
		ids, err = a.store.ListIDs(ctx, f.of(event), op.Transition)
	}
	if err != nil {
		return done, a.wrap(string(event), f.Queue, err)
	}
	all := Operated{Changed: len(ids), More: len(ids) == f.Limit, Last: f.After}
	if len(ids) > 0 {
		all.Last = ids[len(ids)-1]
	}
	if o.dryRun {
		return all, nil
	}
	entry := store.Audit{
		Origin: store.Origin{By: o.by, Reason: o.reason}, Action: string(event), Queue: f.Queue,
		Filter: filterJSON(f, 0),
	}
	if ctx, err = store.Audited(ctx, o.by, entry); err != nil {
		return done, a.wrap(string(event), f.Queue, err)
	}
	batches := slices.Collect(slices.Chunk(ids, a.store.OperateLimit(event)))
	lastFirst := f.Workflow != uuid.Nil && (op.Transition.Cancels || event == Finish)
	if lastFirst {
		slices.Reverse(batches) // a task's dependents come after it, and must not run
	}
	for _, batch := range batches {
		moved, err := a.store.Operate(ctx, op, batch)
		if err != nil {
			return done, a.wrap(string(event), f.Queue, err)
		}
		done.Changed += len(moved)
		if !lastFirst {
			done.Last = batch[len(batch)-1]
		}
		a.wake(ctx, op.Transition, moved)
	}
	done.More, done.Last = all.More, all.Last
	return done, nil
}

// OperateChosen applies an event to up to dbq.MaxBulk tasks that the caller has chosen among those of a filter by what
// no filter can select, such as a text in their errors. It returns how many it changed: tasks whose state does not
// allow the event stay as they are. It does not compare the tasks with the filter, which only the audit gets, with the
// number of chosen tasks. Each batch of tasks is a separate transaction: after an error, the result is about the
// batches before.
func (a *Admin) OperateChosen(
	ctx context.Context, event state.Event, ids []uuid.UUID, f Filter, opts ...Option,
) (changed int, err error) {
	defer func(start time.Time) { a.core.Observe(string(event), f.Queue, changed, false, start, err) }(time.Now())
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(x, y uuid.UUID) int { return bytes.Compare(x[:], y[:]) })
	ids = slices.Compact(ids)
	f.Limit = len(ids)
	ctx, o, err := a.audited(ctx, opts,
		store.Audit{Action: string(event), Queue: f.Queue, Filter: filterJSON(f, len(ids))})
	op, err := operation(event, o, err)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return 0, a.wrap(string(event), f.Queue, err)
	}
	for batch := range slices.Chunk(ids, a.store.OperateLimit(event)) {
		moved, err := a.store.Operate(ctx, op, batch)
		if err != nil {
			return changed, a.wrap(string(event), f.Queue, err)
		}
		changed += len(moved)
		a.wake(ctx, op.Transition, moved)
	}
	return changed, nil
}

// CountMovable counts the tasks that OperateMany would try to change, up to f.Limit, at a cost that does not grow with
// the table: it looks at up to f.Limit tasks of a queue in each state or, if no index leads to these, at up to 10,000
// tasks by their ids. more reports that there may be more. A Limit of zero means dbq.MaxBulk.
func (a *Admin) CountMovable(ctx context.Context, event state.Event, f Filter) (n int, more bool, err error) {
	f.Limit = cmp.Or(f.Limit, dbq.MaxBulk)
	op, err := operation(event, options{}, nil)
	if err == nil {
		err = f.check()
	}
	if err == nil && f.NewestFirst {
		err = errNewestFirst
	}
	if err == nil {
		n, more, err = a.store.CountMovable(ctx, f.of(event), op.Transition)
	}
	return n, more, a.wrap(string(event), f.Queue, err)
}

// operation returns an event with its options, or err, which is why the options are refused.
func operation(event state.Event, o options, err error) (store.Operation, error) {
	t, ok := state.Find(event, state.Operator)
	if !ok {
		return store.Operation{}, fmt.Errorf("%w: %q is not an operator's", dbq.ErrEvent, event)
	}
	return store.Operation{Transition: t, By: o.by, Reason: o.reason, Result: o.result}, err
}

// mayStart reports whether a task may start because of an event: the moved task is due, or it was leased, and makes
// room in a queue with limits. Whether the queue has limits is not known here: a wake-up for nothing does no harm.
func mayStart(t state.Transition, moved dialect.Row) bool {
	return t.To == dbq.StateCreated || moved.State == dbq.StateProcessing
}

// freesPlace reports whether a later task of the same key may start because of an event, if the queue has an order.
// Restore leaves the task as one that waits for an operator, and Reenqueue makes it the next.
func freesPlace(t state.Transition, moved dialect.Row) bool {
	return moved.TaskKey != nil && moved.State != dbq.StateCompleted && t.Event != Restore && t.Event != Reenqueue
}

// wake wakes the workers of queues whose tasks may start now, and those whose leases were taken away.
func (a *Admin) wake(ctx context.Context, t state.Transition, moved []dialect.Row) {
	due, revoked, workflows := map[string]int{}, map[string]bool{}, false
	orders := map[string]bool{}
	ordered := func(queue string) bool {
		if _, known := orders[queue]; !known {
			orders[queue] = a.store.Ordered(ctx, queue)
		}
		return orders[queue]
	}
	for _, r := range moved {
		workflows = workflows || store.InWorkflow(r.ID)
		if mayStart(t, r) || freesPlace(t, r) && ordered(r.Queue) {
			due[r.Queue]++
		}
		if t.To != dbq.StateCreated && t.GrowsFence(r.State) {
			revoked[r.Queue] = true
		}
	}
	for queue, n := range due {
		a.core.Wake.WakeTasks(queue, n)
	}
	for queue := range revoked {
		a.core.Wake.WakeRevoked(queue)
	}
	if workflows {
		a.core.AdvanceWorkflows()
	}
}
