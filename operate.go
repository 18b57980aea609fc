package dbq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Operation is an operator's event, and who causes it for what reason.
type Operation struct {
	Event state.Event // one of state.ByOperator, such as state.Revoke
	// By names the operator, in up to MaxReference characters. The default is the client's name.
	By string
	// Reason is for people, up to MaxReason characters. It may be empty.
	Reason string
}

// MaxReason is the most characters of an Operation's Reason.
const MaxReason = 1000

// past is what an event has done to a task, for the text that is kept.
var past = map[state.Event]string{
	state.Reject: "rejected", state.Revoke: "revoked", state.Reenqueue: "reenqueued", state.Quarantine: "quarantined", state.Restore: "restored",
	state.Purge: "purged",
}

// checked is the operation with its default, and its row of the state table.
func (c *Client) checked(op Operation) (Operation, state.Transition, error) {
	t, ok := state.Find(op.Event, state.Operator)
	if !ok {
		return op, t, fmt.Errorf("%w: %q is not an operator's event", ErrFilter, op.Event)
	}
	op.By = cmp.Or(op.By, c.cfg.name)
	err := checkText(op.By, 1, MaxReference, ErrOption, "operator's name")
	if err == nil {
		err = checkText(op.Reason, 0, MaxReason, ErrOption, "reason")
	}
	return op, t, err
}

// text is what a task keeps of an operation.
func (op Operation) text() string {
	text := past[op.Event] + " by " + op.By
	if op.Reason != "" {
		text += ": " + op.Reason
	}
	return text
}

// Operate does an operator's event to one task, whatever its lease. ErrNotFound and ErrWrongState say why it did not; an Operation that is
// not allowed is ErrInvalid. When the answer to it is lost, Operate finds out what became of it; ErrMayHaveHappened means that somebody else
// has changed the task in between, or that an answer to Purge was lost and the task is gone.
//
// A task that is revoked or rejected has "revoked by ...: reason" as its Result; of the other events only a reason is kept, in a line before
// the Result that was there. The attempt that Revoke ends is recorded in the history in the same transaction, whatever the queue's History.
func (c *Client) Operate(ctx context.Context, op Operation, id uuid.UUID) (err error) {
	defer func(start time.Time) { c.observed(string(op.Event), "", 1, start, err) }(time.Now())
	op, t, err := c.checked(op)
	if err != nil {
		return c.wrap(string(op.Event), "", id, err)
	}
	o := &operating{c: c, op: op, t: t, ids: []uuid.UUID{id}}
	err = c.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, again bool) error {
		if err := o.run(ctx, conn, again); err != nil || len(o.moved) == 1 {
			return err
		}
		return o.refusal(ctx, conn, id)
	})
	if err == nil {
		c.operated(t, o.moved)
	}
	return c.wrap(string(op.Event), "", id, err)
}

// OperateMany does an operator's event to up to f.Limit tasks that the filter selects and whose state allows it, and returns
// how many it changed. Fewer than f.Limit means that no more were found; call it again for the rest. Each batch of tasks is a
// transaction of its own, so an error may come after some were changed: the number says how many. What is kept of it is as for Operate.
func (c *Client) OperateMany(ctx context.Context, op Operation, f Filter) (changed int, err error) {
	defer func(start time.Time) { c.observed(string(op.Event), f.Queue, changed, start, err) }(time.Now())
	op, t, err := c.checked(op)
	if err != nil {
		return 0, c.wrap(string(op.Event), f.Queue, uuid.Nil, err)
	}
	rows, err := c.find(ctx, c.s.Statements.FindIDs, f, &t)
	if err != nil {
		return 0, c.wrap(string(op.Event), f.Queue, uuid.Nil, err)
	}
	for size := c.s.Statements.Move[op.Event].Max; len(rows) > 0; {
		ids := make([]uuid.UUID, min(size, len(rows)))
		for i := range ids {
			ids[i] = rows[i].ID // by id already: batches never wait for each other in a circle
		}
		rows = rows[len(ids):]
		o := &operating{c: c, op: op, t: t, ids: ids}
		if err := c.writeTx(ctx, o.run); err != nil {
			return changed, c.wrap(string(op.Event), f.Queue, uuid.Nil, err)
		}
		changed += len(o.moved)
		c.operated(t, o.moved)
	}
	return changed, nil
}

// operate moves tasks and keeps what there is to keep about it, in one transaction. It returns those that moved as they were.
func (c *Client) operate(ctx context.Context, conn dialect.Conn, op Operation, t state.Transition, ids []uuid.UUID) ([]dialect.Row, error) {
	moved, err := c.move(ctx, conn, t, ids)
	if err != nil || len(moved) == 0 || t.To == state.None {
		return moved, err
	}
	ends := op.Event == state.Revoke || op.Event == state.Reject // there is no other result then
	if ends || op.Reason != "" {
		n := len(moved)
		id, result, size := make(dialect.Col[uuid.UUID], n), make(dialect.Col[[]byte], n), make(dialect.Col[*int64], n)
		for i, r := range moved {
			text := []byte(op.text())
			if !ends && len(r.Result) > 0 {
				text = append(append(text, '\n'), r.Result...)
			}
			id[i], result[i] = r.ID, cutResult(text)
			size[i] = dialect.SizeOf(result[i])
		}
		args := dialect.Args{"id": id, "result": result, "result_size": size}
		if _, err := c.s.ExecBatch(ctx, conn, c.s.Statements.SetResult, args, n); err != nil {
			return nil, err
		}
	}
	if op.Event == state.Revoke {
		err = c.recordRevoked(ctx, conn, op, moved)
	}
	return moved, err
}

// recordRevoked adds the attempts that ended by it to the history: their workers do not, since the leases are not theirs any more.
func (c *Client) recordRevoked(ctx context.Context, conn dialect.Conn, op Operation, moved []dialect.Row) error {
	byQueue := map[string][]Attempt{}
	for _, r := range moved {
		byQueue[r.Queue] = append(byQueue[r.Queue], Attempt{Task: r.ID, Queue: r.Queue, Attempt: r.Attempt, Fence: r.Fence, Outcome: OutcomeRevoked,
			Started: fromMicros(&r.Updated), Ended: fromMicros(&r.Now), Worker: workerOf(text(r.Holder)), Error: op.text()})
	}
	for queue, as := range byQueue {
		args, err := c.Queue(queue).attemptArgs(as)
		if err == nil {
			_, err = c.s.ExecBatch(ctx, conn, c.s.Statements.Record, args, len(as))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// operated wakes the workers of the queues whose tasks are due now, or are not theirs any more.
func (c *Client) operated(t state.Transition, moved []dialect.Row) {
	if t.To != StateCreated && t.Event != state.Revoke {
		return
	}
	due := map[string]int{}
	for _, r := range moved {
		due[r.Queue]++
	}
	for queue, n := range due {
		if t.Event == state.Revoke {
			c.rungAll(revocations + queue)
		} else {
			c.rung(queue, wakeup{now: n})
		}
	}
}

// move does an event to tasks by id. It returns those that moved.
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
	return c.Operate(ctx, Operation{Event: state.Reenqueue}, id)
}

// Quarantine moves a task from ERROR to POISON.
func (c *Client) Quarantine(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, Operation{Event: state.Quarantine}, id)
}

// Restore moves a task from POISON to ERROR, parked, for inspection.
func (c *Client) Restore(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, Operation{Event: state.Restore}, id)
}

// Reject takes a task out before it runs: from CREATED to ERROR, parked.
func (c *Client) Reject(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, Operation{Event: state.Reject}, id)
}

// Revoke takes the lease of a task away: from PROCESSING to ERROR, parked. Its worker gets ErrLeaseLost at its next call.
// The context of its handler ends at once in this process, on PostgreSQL also in others that listen, and elsewhere within 2 seconds.
// Operate also takes a reason.
func (c *Client) Revoke(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, Operation{Event: state.Revoke}, id)
}

// Purge removes a task that is COMPLETED, POISON or parked.
func (c *Client) Purge(ctx context.Context, id uuid.UUID) error {
	return c.Operate(ctx, Operation{Event: state.Purge}, id)
}

// ReenqueueMany is Reenqueue for tasks by filter; see OperateMany.
func (c *Client) ReenqueueMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, Operation{Event: state.Reenqueue}, f)
}

// QuarantineMany is Quarantine for tasks by filter; see OperateMany.
func (c *Client) QuarantineMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, Operation{Event: state.Quarantine}, f)
}

// RestoreMany is Restore for tasks by filter; see OperateMany.
func (c *Client) RestoreMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, Operation{Event: state.Restore}, f)
}

// RejectMany is Reject for tasks by filter; see OperateMany.
func (c *Client) RejectMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, Operation{Event: state.Reject}, f)
}

// RevokeMany is Revoke for tasks by filter; see OperateMany.
func (c *Client) RevokeMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, Operation{Event: state.Revoke}, f)
}

// PurgeMany is Purge for tasks by filter; see OperateMany.
func (c *Client) PurgeMany(ctx context.Context, f Filter) (int, error) {
	return c.OperateMany(ctx, Operation{Event: state.Purge}, f)
}
