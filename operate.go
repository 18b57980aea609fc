package dbq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Operate does an operator's event to one task, whatever its lease. ErrNotFound and ErrWrongState say why it did not. The
// methods below do the same for one event each.
func (c *Client) Operate(ctx context.Context, e state.Event, id uuid.UUID) (err error) {
	defer func(start time.Time) { c.observed(string(e), "", 1, start, err) }(time.Now())
	t, ok := state.Find(e, state.Operator)
	if !ok {
		return c.wrap(string(e), "", id, fmt.Errorf("%w: %q is not an operator's event", ErrFilter, e))
	}
	err = c.write(ctx, func(ctx context.Context, conn dialect.Conn, again bool) error {
		moved, err := c.move(ctx, conn, t, []uuid.UUID{id})
		if err != nil || len(moved) == 1 {
			return err
		}
		rows, err := c.peek(ctx, conn, []uuid.UUID{id})
		if err != nil {
			return err
		}
		row, exists := rows[id]
		switch {
		case again && (exists && row.State == t.To || !exists && t.To == state.None):
			return nil // an earlier try of this very call did it
		case !exists:
			return ErrNotFound
		}
		return fmt.Errorf("%w: it is %v, %s takes %s", ErrWrongState, row.State, e, sources(t))
	})
	if err == nil && t.To == StateCreated {
		c.rung("", 0)
	}
	return c.wrap(string(e), "", id, err)
}

// OperateMany does an operator's event to up to f.Limit tasks that the filter selects and whose state allows it, and returns
// how many it changed. Fewer than f.Limit means that no more were found; call it again for the rest. Each batch of tasks is a
// transaction of its own, so an error may come after some were changed: the number says how many.
func (c *Client) OperateMany(ctx context.Context, e state.Event, f Filter) (changed int, err error) {
	defer func(start time.Time) { c.observed(string(e), f.Queue, changed, start, err) }(time.Now())
	t, ok := state.Find(e, state.Operator)
	if !ok {
		return 0, c.wrap(string(e), f.Queue, uuid.Nil, fmt.Errorf("%w: %q is not an operator's event", ErrFilter, e))
	}
	rows, err := c.find(ctx, c.s.Statements.FindIDs, f, &t)
	if err != nil {
		return 0, c.wrap(string(e), f.Queue, uuid.Nil, err)
	}
	for size := c.s.Statements.Move[e].Max; len(rows) > 0; {
		ids := make([]uuid.UUID, min(size, len(rows)))
		for i := range ids {
			ids[i] = rows[i].ID // by id already: batches never wait for each other in a circle
		}
		rows = rows[len(ids):]
		var moved []dialect.Row
		err := c.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			moved, err = c.move(ctx, conn, t, ids)
			return err
		})
		if err != nil {
			return changed, c.wrap(string(e), f.Queue, uuid.Nil, err)
		}
		changed += len(moved)
		if t.To == StateCreated {
			c.rung(f.Queue, 0)
		}
	}
	return changed, nil
}

func (c *Client) move(ctx context.Context, conn dialect.Conn, t state.Transition, ids []uuid.UUID) ([]dialect.Row, error) {
	b, ok := c.s.Statements.Move[t.Event]
	if !ok {
		return nil, errors.New("the dialect has no statement for it")
	}
	return c.s.QueryBatch(ctx, conn, b, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
}

func sources(t state.Transition) string {
	text := ""
	for i, src := range t.From {
		if i > 0 {
			text += " or "
		}
		if src.When != state.Always {
			text += string(src.When) + " "
		}
		text += src.State.String()
	}
	return text
}

// Reenqueue makes a task in ERROR or POISON due now; its attempts start over.
func (c *Client) Reenqueue(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, state.Reenqueue, id)
}

// Quarantine moves a task from ERROR to POISON.
func (c *Client) Quarantine(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, state.Quarantine, id)
}

// Restore moves a task from POISON to ERROR, parked, for inspection.
func (c *Client) Restore(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, state.Restore, id)
}

// Reject takes a task out before it runs: from CREATED to ERROR, parked.
func (c *Client) Reject(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, state.Reject, id)
}

// Revoke takes the lease of a task away: from PROCESSING to ERROR, parked. Its worker gets ErrLeaseLost at its next call.
func (c *Client) Revoke(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, state.Revoke, id)
}

// Purge removes a task that is COMPLETED, POISON or parked.
func (c *Client) Purge(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, state.Purge, id)
}

// ReenqueueMany is Reenqueue for tasks by filter; see OperateMany.
func (c *Client) ReenqueueMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, state.Reenqueue, f)
}

// QuarantineMany is Quarantine for tasks by filter; see OperateMany.
func (c *Client) QuarantineMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, state.Quarantine, f)
}

// RestoreMany is Restore for tasks by filter; see OperateMany.
func (c *Client) RestoreMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, state.Restore, f)
}

// RejectMany is Reject for tasks by filter; see OperateMany.
func (c *Client) RejectMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, state.Reject, f)
}

// RevokeMany is Revoke for tasks by filter; see OperateMany.
func (c *Client) RevokeMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, state.Revoke, f)
}

// PurgeMany is Purge for tasks by filter; see OperateMany.
func (c *Client) PurgeMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, state.Purge, f)
}
