package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// promote makes tasks due that wait and need nothing more.
func (a *advance) promote(ctx context.Context, conn dialect.Conn, ready []sqlrun.WorkflowRow) error {
	if len(ready) == 0 {
		return nil
	}
	slices.SortFunc(ready, func(x, y sqlrun.WorkflowRow) int { return compareIDs(x.Task, y.Task) })
	rows := make(map[uuid.UUID]sqlrun.WorkflowRow, len(ready))
	ids := make(dialect.Col[uuid.UUID], 0, len(ready))
	for _, r := range ready {
		if _, twice := rows[r.Task]; !twice {
			rows[r.Task], ids = r, append(ids, r.Task)
		}
	}
	waiting, err := a.s.sql.QueryBatch(ctx, conn, a.s.sql.Texts.LockWaiting,
		dialect.Args{"id": ids, "running": 0}, len(ids))
	if err != nil {
		return err
	}
	var id dialect.Col[uuid.UUID]
	var at dialect.Col[int64]
	for _, w := range waiting {
		if !Waits(w) { // an operator has acted on it
			continue
		}
		r := rows[w.ID]
		due := r.Now + r.Delay
		if r.RunAt != nil {
			due = max(due, *r.RunAt)
		}
		id, at = append(id, w.ID), append(at, due)
		a.promoted = append(a.promoted, Promoted{r.Queue, time.Duration(due-r.Now) * time.Microsecond})
	}
	if len(id) == 0 {
		return nil
	}
	_, err = a.s.sql.ExecBatch(ctx, conn, a.s.sql.Texts.Postpone, dialect.Args{"id": id, "at": at}, len(id))
	return err
}

// cancel cancels what fails with a task. The tasks that need these in turn are a change of their own.
func (a *advance) cancel(
	ctx context.Context, conn dialect.Conn, parent uuid.UUID, name string, children []uuid.UUID) error {
	if len(children) == 0 {
		return nil
	}
	event, _ := state.Find(state.Cancel, state.Operator)
	op := Operation{Transition: event, By: "dbq", Reason: fmt.Sprintf(
		"it needs %q (%s), which is in POISON", name, parent)}
	slices.SortFunc(children, compareIDs)
	for part := range slices.Chunk(children, a.s.OperateLimit(state.Cancel)) {
		_, changes, err := a.s.operateIn(ctx, conn, op, part)
		if err != nil {
			return err
		}
		a.further = append(a.further, changes...)
	}
	return nil
}

// holdBack makes reenqueued tasks wait again that need others, and records the change: what they need may have ended
// meanwhile.
func (s *Store) holdBack(ctx context.Context, conn dialect.Conn, moved []uuid.UUID) ([]WorkflowChange, error) {
	ids := only(moved, InWorkflow)
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := s.workflowTasks(ctx, conn, ids)
	if err != nil {
		return nil, err
	}
	var wait dialect.Col[uuid.UUID]
	for _, r := range rows {
		if r.Needs > 0 {
			wait = append(wait, r.Task)
		}
	}
	if len(wait) == 0 {
		return nil, nil
	}
	slices.SortFunc(wait, compareIDs)
	at := make(dialect.Col[int64], len(wait))
	for i := range at {
		at[i] = WorkflowWaits.UnixMicro()
	}
	_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.Postpone, dialect.Args{"id": wait, "at": at}, len(wait))
	if err != nil {
		return nil, err
	}
	return s.addChanges(ctx, conn, wait)
}
