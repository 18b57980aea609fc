package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Operation is an operator's event, with the operator's name and reason.
type Operation struct {
	Transition state.Transition
	By, Reason string
	Result     []byte // nil, or the result of the tasks, for an event that replaces it
	Signal     bool   // it is a signal for a step of a workflow, which must be waiting for it
}

// text returns the note that a task keeps of an operation.
func (op Operation) text() string {
	text := op.Transition.Past + " by " + op.By
	if op.Reason != "" {
		text += ": " + op.Reason
	}
	return text
}

// OperateLimit is the most tasks of one Operate.
func (s *Store) OperateLimit(event state.Event) int { return s.sql.Texts.Move[event].Max }

// Operate applies an operation to tasks in one transaction, whatever their leases. It returns those that it changed, as
// they were before; a task whose state does not allow the event stays as it is. The ids are in ascending order, so that
// two calls never deadlock.
func (s *Store) Operate(ctx context.Context, op Operation, ids []uuid.UUID) ([]dialect.Row, error) {
	tx := &operateTx{s: s, op: op, ids: ids, audit: auditOf(ctx)}
	err := s.writeTx(ctx, tx.run)
	if err == nil && len(tx.moved) > 0 {
		tx.audit.committed()
	}
	return tx.moved, err
}

// OperateOne is Operate for one task. It returns ErrNotFound or ErrWrongState if the task was not changed. It also
// returns the work that remains.
func (s *Store) OperateOne(ctx context.Context, op Operation, id uuid.UUID) ([]dialect.Row, FollowUp, error) {
	tx := &operateTx{s: s, op: op, ids: []uuid.UUID{id}, audit: auditOf(ctx)}
	err := s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, again bool) error {
		if err := tx.run(ctx, conn, again); err != nil || len(tx.moved) == 1 {
			return err
		}
		return s.refusal(ctx, conn, op.Transition, id)
	})
	return tx.moved, FollowUp{Changes: tx.changes}, err
}

// OperateTx is OperateOne in the caller's transaction. It tries once. It also returns the work that remains after the
// commit.
func (s *Store) OperateTx(ctx context.Context, tx sqlrun.Tx, op Operation, id uuid.UUID) (
	moved []dialect.Row, left FollowUp, err error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return nil, left, err
	}
	var was map[uuid.UUID]dialect.Row
	audit := auditOf(ctx)
	if audit != nil && op.Transition.To == state.None { // its statement returns only ids
		if was, err = s.Peek(ctx, conn, []uuid.UUID{id}); err != nil {
			return nil, left, err
		}
	}
	moved, left.Changes, err = s.operate(ctx, conn, op, []uuid.UUID{id})
	switch {
	case err != nil:
	case len(moved) == 0:
		err = s.refusal(ctx, conn, op.Transition, id)
	default:
		err = s.auditMoved(ctx, conn, audit, op, moved, was)
	}
	return moved, left, err
}

// operate moves tasks, and records the reason and the ended attempts. It returns the moved tasks as they were before,
// and the changes of workflows that it has recorded.
func (s *Store) operate(ctx context.Context, conn dialect.Conn, op Operation, ids []uuid.UUID) (
	moved []dialect.Row, changes []WorkflowChange, err error) {
	removes := op.Transition.To == state.None
	if removes {
		if ids, err = s.unneeded(ctx, conn, ids); err != nil || len(ids) == 0 {
			return nil, nil, err
		}
		moved, err = s.purge(ctx, conn, ids, s.recordRemoved)
	} else {
		moved, err = s.move(ctx, conn, op.Transition.Event, ids)
	}
	if err == nil && len(moved) > 0 && op.Signal {
		err = s.checkSignal(ctx, conn, moved[0])
	}
	if err == nil && len(moved) > 0 {
		changes, err = s.changeWorkflows(ctx, conn, op.Transition.To, idsOf(moved))
	}
	if err != nil || len(moved) == 0 || removes {
		return moved, changes, err
	}
	if err := kit.KeepProgress(ctx, &s.sql.Session, conn, moved); err != nil { // the progress of leases that end
		return nil, nil, err
	}
	if err := s.keepReason(ctx, conn, op, moved); err != nil {
		return nil, nil, err
	}
	return moved, changes, s.recordMoved(ctx, conn, op, moved)
}

// move applies an operator's event to tasks. It returns the moved tasks as they were before.
func (s *Store) move(ctx context.Context, conn dialect.Conn, e state.Event, ids []uuid.UUID) ([]dialect.Row, error) {
	move, ok := s.sql.Texts.Move[e]
	if !ok {
		return nil, errors.New("the dialect has no statement for it")
	}
	if e == state.Purge && s.sql.Texts.Returning { // it returns the removed rows
		return queryIDs[dialect.Row](ctx, s, conn, move, ids)
	}
	rows, err := s.lockMovable(ctx, conn, e, ids)
	if err == nil {
		err = s.execIDs(ctx, conn, move, idsOf(rows))
	}
	return rows, err
}

// purge removes tasks, and returns them. before runs before that, unless it is nil, for those that are removed: they
// are locked first, since another one may become purgeable meanwhile.
func (s *Store) purge(
	ctx context.Context, conn dialect.Conn, ids []uuid.UUID, before beforeRemoval,
) ([]dialect.Row, error) {
	if before != nil {
		rows, err := s.lockMovable(ctx, conn, state.Purge, ids)
		if err != nil {
			return nil, err
		}
		ids = idsOf(rows)
		if err := before(ctx, conn, ids); err != nil {
			return nil, err
		}
	}
	return s.move(ctx, conn, state.Purge, ids)
}

// lockMovable locks the tasks that an event may move, and returns them.
func (s *Store) lockMovable(
	ctx context.Context, conn dialect.Conn, e state.Event, ids []uuid.UUID,
) ([]dialect.Row, error) {
	return queryIDs[dialect.Row](ctx, s, conn, s.sql.Texts.Movable[e], ids)
}

// keepReason writes the results of moved tasks. If the event replaces the result, the new one is the given one, or
// names the operator and the reason. Otherwise a reason becomes a line before the existing result.
func (s *Store) keepReason(ctx context.Context, conn dialect.Conn, op Operation, moved []dialect.Row) error {
	replaced := op.Transition.Result
	if !replaced && op.Reason == "" {
		return nil
	}
	n := len(moved)
	id, result, size := dialect.Col[uuid.UUID](idsOf(moved)), make(dialect.Col[[]byte], n), make(dialect.Col[*int64], n)
	for i, r := range moved {
		text := op.Result
		if text == nil {
			text = []byte(op.text())
		}
		if !replaced && len(r.Result) > 0 {
			text = append(append(text, '\n'), r.Result...)
		}
		result[i] = bounds.CutResult(text)
		size[i] = sizeOf(result[i])
	}
	args := dialect.Args{"id": id, "result": result, "result_size": size}
	_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.SetResult, args, n)
	return err
}

// refusal reports why an event did not move a task.
func (s *Store) refusal(ctx context.Context, conn dialect.Conn, t state.Transition, id uuid.UUID) error {
	rows, err := s.Peek(ctx, conn, []uuid.UUID{id})
	if err != nil {
		return err
	}
	row, exists := rows[id]
	if !exists {
		return errs.ErrNotFound
	}
	if t.To == state.None && slices.ContainsFunc(t.From, func(f state.Source) bool { return f.State == row.State }) {
		return fmt.Errorf("%w: a step of its workflow that has not ended needs it; cancel that step first",
			errs.ErrWrongState)
	}
	return fmt.Errorf("%w: it is %v, %s takes %s", errs.ErrWrongState, row.State, t.Event,
		strings.Join(t.Sources(), " or "))
}

// operateTx is the transaction of an operation, with its retries. If the answer to a commit is lost, the next try must
// not mistake another operator's identical change for its own, and must not repeat its change after later ones. The
// time of a task's last change decides: before its commit, each try reads the time of its own change.
type operateTx struct {
	s     *Store
	op    Operation
	ids   []uuid.UUID
	moved []dialect.Row // as they were before
	audit *Audit        // nil for none

	changes []WorkflowChange

	tries []operateTry // those that moved something and may have been committed
}

// operateTry is the change of one try, if it was committed.
type operateTry struct {
	moved         []dialect.Row
	changes       []WorkflowChange
	before, after map[uuid.UUID]dialect.Row // their versions; after is empty for an event that removes them
}

// errChangedSince means that a task is neither as before an earlier try nor as after it.
var errChangedSince = errors.New("the task has changed since")

// run is a changeFunc. It sets moved.
func (o *operateTx) run(ctx context.Context, conn dialect.Conn, again bool) error {
	if again {
		if done, err := o.resolve(ctx, conn); done || err != nil {
			return err
		}
	} else {
		o.tries = nil // the earlier tries were rolled back
	}
	tried, err := o.try(ctx, conn)
	if err != nil {
		return err
	}
	if len(o.moved) == 0 {
		if again { // the commit of an earlier try may have been under way during resolve
			_, err = o.resolve(ctx, conn)
		}
		return err
	}
	if !o.asBefore(tried.before) { // it was during resolve
		return errChangedSince
	}
	o.tries = append(o.tries, tried)
	return nil
}

// try applies the operation once.
func (o *operateTx) try(ctx context.Context, conn dialect.Conn) (tried operateTry, err error) {
	removes := o.op.Transition.To == state.None
	if removes { // its statement returns only ids
		if tried.before, err = o.s.Peek(ctx, conn, o.ids); err != nil {
			return tried, err
		}
	}
	if o.moved, o.changes, err = o.s.operate(ctx, conn, o.op, o.ids); err != nil || len(o.moved) == 0 {
		return tried, err
	}
	tried.moved, tried.changes = o.moved, o.changes
	if removes {
		removed := byID(o.moved)
		maps.DeleteFunc(tried.before, func(id uuid.UUID, _ dialect.Row) bool { _, ok := removed[id]; return !ok })
		return tried, o.s.auditMoved(ctx, conn, o.audit, o.op, o.moved, tried.before)
	}
	tried.before = byID(o.moved)
	if tried.after, err = o.s.Peek(ctx, conn, idsOf(o.moved)); err != nil {
		return tried, err
	}
	return tried, o.s.auditMoved(ctx, conn, o.audit, o.op, o.moved, nil)
}

// resolve determines whether one of the earlier tries was committed. Each was committed as a whole or not at all.
func (o *operateTx) resolve(ctx context.Context, conn dialect.Conn) (done bool, err error) {
	rows, err := o.s.Peek(ctx, conn, o.ids)
	if err != nil {
		return false, err
	}
	for _, tried := range o.tries {
		for id, after := range tried.after {
			if row, ok := rows[id]; ok && sameVersion(row, after) {
				o.moved, o.changes = tried.moved, tried.changes
				return true, nil
			}
		}
	}
	if !o.asBefore(rows) {
		return false, errChangedSince
	}
	return false, nil
}

// asBefore reports whether each earlier try has a task that is still as before, so that none was committed.
func (o *operateTx) asBefore(rows map[uuid.UUID]dialect.Row) bool {
	for _, tried := range o.tries {
		still := false
		for _, was := range tried.before {
			row, ok := rows[was.ID]
			still = still || ok && sameVersion(row, was)
		}
		if !still {
			return false
		}
	}
	return true
}

// sameVersion reports whether a row is unchanged, except for a renewal of its lease.
func sameVersion(a, b dialect.Row) bool {
	return a.State == b.State && a.Fence == b.Fence && a.Updated == b.Updated
}

func byID(rows []dialect.Row) map[uuid.UUID]dialect.Row {
	out := make(map[uuid.UUID]dialect.Row, len(rows))
	for _, r := range rows {
		out[r.ID] = r
	}
	return out
}

func idsOf(rows []dialect.Row) []uuid.UUID {
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

// setOf returns the set of the rows' ids.
func setOf(rows []dialect.Row) map[uuid.UUID]bool {
	out := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		out[r.ID] = true
	}
	return out
}
