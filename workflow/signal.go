package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Signal ends the wait of a step, such as one for an approval: it completes the step's task without running its
// handler, and stores v as the result in JSON. The steps that need it go on, and read v by Result.
//
// A step waits for its Delay, or until its RunAt: if no signal comes, its handler runs. Of the handler and all signals,
// one ends the step. Signal returns dbq.ErrWrongState if the step is running or has ended, and also while it waits for
// steps that it needs. If there is no such step, it returns dbq.ErrNotFound, and dbq.ErrPayload if v cannot be encoded
// or has more than dbq.MaxResult bytes. Signals are not recorded in the audit.
func Signal(ctx context.Context, c *dbq.Client, id uuid.UUID, step string, v any) error {
	return signal(ctx, nil, c, id, step, v, func(parts *core.Core, op store.Operation, task uuid.UUID) error {
		moved, left, err := parts.Store.OperateOne(ctx, op, task)
		if err != nil {
			return err
		}
		parts.FollowUp(left)
		if hasKey(moved) {
			parts.Wake.WakeTasks(moved[0].Queue, 1)
		}
		return nil
	})
}

// SignalTx is Signal in the caller's transaction: the step is completed when it commits. If it returns an error, roll
// back.
func SignalTx(ctx context.Context, tx dbq.Tx, c *dbq.Client, id uuid.UUID, step string, v any) error {
	return signal(ctx, tx, c, id, step, v, func(parts *core.Core, op store.Operation, task uuid.UUID) error {
		moved, left, err := parts.Store.OperateTx(ctx, tx, op, task)
		if err != nil {
			return err
		}
		parts.FollowUpTx(left)
		if hasKey(moved) {
			parts.Wake.WakeAfterCommit(moved[0].Queue, wake.Now())
		}
		return nil
	})
}

// hasKey reports whether a later task of the same key may start because a step has ended: the queue may have an order.
func hasKey(moved []dialect.Row) bool { return moved[0].TaskKey != nil }

func signal(ctx context.Context, tx dbq.Tx, c *dbq.Client, id uuid.UUID, step string, v any,
	complete func(*core.Core, store.Operation, uuid.UUID) error) (err error) {
	parts := access.Of(c)
	const op = "signal"
	var row sqlrun.WorkflowRow
	defer func(start time.Time) { parts.Observe(op, row.Queue, 1, tx != nil, start, err) }(time.Now())
	result, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("%w: the value of the signal cannot be encoded: %w", dbq.ErrPayload, err)
	} else {
		err = bounds.Range("the size of the signal's value", len(result), 0, dbq.MaxResult, dbq.ErrPayload)
	}
	if err == nil {
		row, err = parts.Store.FindStep(ctx, tx, id, step)
	}
	if err == nil {
		finish, _ := state.Find(state.Finish, state.Operator)
		err = complete(parts, store.Operation{Transition: finish, By: c.Info().Name, Result: result, Signal: true}, row.Task)
	}
	return parts.Wrap(op, row.Queue, row.Task, err)
}
