package store

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The ids of the tasks of workflows are UUIDs of version 8 in the form of version 7, with a last bit that is 1 if other
// tasks need the task. So a call knows without a query whether its tasks belong to workflows, and plain tasks cost
// nothing.
const (
	workflowVersion = 0x80
	neededBit       = 0x01
)

// workflowTaskID returns the id of a task of a workflow, made of a new id.
func workflowTaskID(id uuid.UUID, needed bool) uuid.UUID {
	id[6] = workflowVersion | id[6]&0x0f
	id[15] &^= neededBit
	if needed {
		id[15] |= neededBit
	}
	return id
}

// InWorkflow reports whether a task belongs to a workflow.
func InWorkflow(id uuid.UUID) bool { return id[6]&0xf0 == workflowVersion }

// only returns the ids for which is holds.
func only(ids []uuid.UUID, is func(uuid.UUID) bool) (out []uuid.UUID) {
	for _, id := range ids {
		if is(id) {
			out = append(out, id)
		}
	}
	return out
}

// isNeeded reports whether other tasks of a workflow need the task.
func isNeeded(id uuid.UUID) bool { return InWorkflow(id) && id[15]&neededBit != 0 }

// WorkflowWaits is the due time of a task that waits for others of its workflow: the last one that there is.
// Checkouts pass it like any task of the future.
var WorkflowWaits = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// Waits reports whether a row is a task that waits for others of its workflow.
func Waits(r dialect.Row) bool {
	return InWorkflow(r.ID) && r.State == state.Created && isWorkflowWait(r.Due)
}

func isWorkflowWait(due *int64) bool { return due != nil && *due == WorkflowWaits.UnixMicro() }

// What happens to a task of a workflow when one that it needs goes to POISON, as stored.
const (
	OnFailureCancel = iota
	OnFailureWait
	OnFailureIgnore
)

// A change is a task whose workflow has to be advanced: it has ended, or it may start. The records of changes are
// written in the transaction that changes the tasks, and removed by the one that advances their workflows. So a crash
// in between loses nothing, and the change waits for no other task of the workflow.
const (
	workflowNamespace = "workflow"
	changeTasks       = 100 // in one record: a value has room for 125
)

// WorkflowChange is a record of changes.
type WorkflowChange struct {
	Name  string
	Tasks []uuid.UUID
}

// FollowUp is what is left to do after a call has been committed. Without it, workers find it later.
type FollowUp struct {
	Notices
	Changes []WorkflowChange
}

// addChanges records that the workflows of tasks have to be advanced.
func (s *Store) addChanges(ctx context.Context, conn dialect.Conn, tasks []uuid.UUID) (
	added []WorkflowChange, err error) {
	for part := range slices.Chunk(tasks, changeTasks) {
		name, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		var value strings.Builder
		for _, id := range part {
			value.WriteString(strings.ReplaceAll(id.String(), "-", ""))
		}
		_, err = s.sql.Exec(ctx, conn, s.sql.Texts.AddWorkflowChange,
			dialect.Args{"namespace": workflowNamespace, "name": name.String(), "value": value.String()})
		if err != nil {
			return nil, err
		}
		added = append(added, WorkflowChange{name.String(), part})
	}
	return added, nil
}

// changeOf reads a record of changes. Text that is no id is left out.
func changeOf(r Record) WorkflowChange {
	c := WorkflowChange{Name: r.Name}
	for v := r.Value; len(v) >= 32; v = v[32:] {
		if id, err := uuid.Parse(v[:32]); err == nil {
			c.Tasks = append(c.Tasks, id)
		}
	}
	return c
}

// workflowTasks reads tasks of workflows.
func (s *Store) workflowTasks(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]sqlrun.WorkflowRow, error) {
	args := dialect.Args{"id": dialect.Col[uuid.UUID](ids)}
	return sqlrun.QueryBatchAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.WorkflowTasks, args, len(ids))
}

// lockSteps locks the rows of steps until the end of the transaction.
func (s *Store) lockSteps(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error {
	ids = slices.SortedFunc(slices.Values(ids), compareIDs)
	_, err := sqlrun.QueryBatchAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.LockWorkflowTasks,
		dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
	return err
}

// execIDs runs a batch whose only column is :id.
func (s *Store) execIDs(ctx context.Context, conn dialect.Conn, b dialect.Batch, ids []uuid.UUID) error {
	_, err := s.sql.ExecBatch(ctx, conn, b, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
	return err
}

// changeWorkflows adjusts workflows to tasks that an operator has moved, and returns the changes that it has recorded.
func (s *Store) changeWorkflows(ctx context.Context, conn dialect.Conn, to state.State, moved []uuid.UUID) (
	[]WorkflowChange, error) {
	switch to {
	case state.None:
		return nil, s.leaveWorkflows(ctx, conn, moved)
	case state.Created:
		return s.holdBack(ctx, conn, moved)
	case state.Poison:
		return s.addChanges(ctx, conn, only(moved, isNeeded))
	}
	return nil, nil
}

// WorkflowPage is a part of a workflow: some of its tasks, by id, and what needs them.
type WorkflowPage struct {
	Tasks []sqlrun.WorkflowRow
	Needs []sqlrun.NeedRow
}

// ReadWorkflow reads up to limit tasks of a workflow above after, and at most needs of what needs them.
func (s *Store) ReadWorkflow(ctx context.Context, workflow, after uuid.UUID, limit, needs int) (
	p WorkflowPage, err error) {
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		p.Tasks, err = sqlrun.QueryAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.WorkflowList,
			dialect.Args{"workflow": workflow, "after": after, "limit": limit})
		var parents dialect.Col[uuid.UUID]
		for i := range p.Tasks {
			if isNeeded(p.Tasks[i].Task) {
				parents = append(parents, p.Tasks[i].Task)
			}
		}
		if err != nil || len(parents) == 0 {
			return err
		}
		p.Needs, err = sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, s.sql, conn, s.sql.Texts.WorkflowNeeds,
			dialect.Args{"id": parents, "above": uuid.Nil, "met": 1, "limit": needs}, len(parents))
		return err
	})
	return p, err
}

// ReadWorkflowTasks reads tasks of workflows. Those that do not exist are left out.
func (s *Store) ReadWorkflowTasks(ctx context.Context, ids []uuid.UUID) (rows []sqlrun.WorkflowRow, err error) {
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.workflowTasks(ctx, conn, ids)
		return err
	})
	return rows, err
}

// ReadParents reads up to limit tasks above after that a task of a workflow needs, with their results, by id.
func (s *Store) ReadParents(ctx context.Context, child, after uuid.UUID, limit int) (
	rows []sqlrun.WorkflowRow, err error) {
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = sqlrun.QueryAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.WorkflowParents,
			dialect.Args{"child": child, "after": after, "limit": limit})
		return err
	})
	return rows, err
}

// unneeded leaves out the tasks that an unfinished task of their workflow needs, for its handler reads their results.
func (s *Store) unneeded(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]uuid.UUID, error) {
	parents := only(ids, isNeeded)
	if len(parents) == 0 {
		return ids, nil
	}
	rows, err := sqlrun.QueryBatchAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.NeededWorkflowTasks,
		dialect.Args{"id": dialect.Col[uuid.UUID](parents)}, len(parents))
	if err != nil || len(rows) == 0 {
		return ids, err
	}
	needed := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		needed[r.Task] = true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return needed[id] }), nil
}

// leaveWorkflows removes what workflows keep of tasks that are removed. A failed task that is removed is no longer
// needed: what was cancelled with it can be reenqueued, and runs. What is reenqueued meanwhile becomes due here. The
// rows of the tasks are locked first, as by advance, so that of the two only one counts what they were needed for.
func (s *Store) leaveWorkflows(ctx context.Context, conn dialect.Conn, removed []uuid.UUID) error {
	ids := only(removed, InWorkflow)
	if len(ids) == 0 {
		return nil
	}
	if err := s.lockSteps(ctx, conn, ids); err != nil {
		return err
	}
	open, err := sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, s.sql, conn, s.sql.Texts.WorkflowNeeds,
		dialect.Args{"id": dialect.Col[uuid.UUID](ids), "above": uuid.Nil, "met": 0, "limit": math.MaxInt32}, len(ids))
	if err != nil {
		return err
	}
	met := map[uuid.UUID]int64{}
	for _, n := range open {
		met[n.Child]++
	}
	ready, err := s.countNeeds(ctx, conn, met)
	if err != nil {
		return err
	}
	if err := (&advance{s: s}).promote(ctx, conn, ready); err != nil {
		return err
	}
	if err := s.execIDs(ctx, conn, s.sql.Texts.DropWorkflowNeeds, ids); err != nil {
		return err
	}
	return s.execIDs(ctx, conn, s.sql.Texts.DropWorkflowTasks, ids)
}
