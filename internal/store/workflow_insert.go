package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// NewWorkflow is a workflow to insert. A task comes after those that it needs.
type NewWorkflow struct {
	ID    uuid.UUID
	Tasks []NewWorkflowTask
}

// NewWorkflowTask is a task of a workflow. SetIDs sets the ids of all rows.
type NewWorkflowTask struct {
	InsertRow
	Queue     string
	Name      string
	Needs     []int // indexes of Tasks
	OnFailure int
}

// SetIDs turns the ids of the tasks, which are new, into those of tasks of a workflow.
func (w *NewWorkflow) SetIDs() {
	needed := make([]bool, len(w.Tasks))
	for i := range w.Tasks {
		for _, parent := range w.Tasks[i].Needs {
			needed[parent] = true
		}
	}
	for i := range w.Tasks {
		w.Tasks[i].ID = workflowTaskID(w.Tasks[i].ID, needed[i])
	}
}

// AwaitLaterIDs waits until the next millisecond if a task has a key: an id of version 8 is higher than all of version
// 7 of the same millisecond, and what this client enqueues next must come after it in the order of its key.
func (w *NewWorkflow) AwaitLaterIDs() {
	last := time.Time{}
	for i := range w.Tasks {
		if at := TimeOf(w.Tasks[i].ID); w.Tasks[i].Key != "" && at.After(last) {
			last = at
		}
	}
	if left := time.Until(last.Add(time.Millisecond)); !last.IsZero() && left > 0 {
		time.Sleep(min(left, time.Second))
	}
}

// InsertWorkflow adds the tasks of a workflow in one transaction, all or none. A reference that is taken is
// ErrDuplicate, with the id of the existing task. If the answer is lost, it searches for the workflow for a few
// hundred milliseconds, and returns ErrMayHaveHappened if it does not find it.
func (s *Store) InsertWorkflow(ctx context.Context, w *NewWorkflow) (duplicate uuid.UUID, err error) {
	var lost error
	err = s.repeat(ctx, func() (bool, error) {
		err := s.sql.Tx(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			duplicate, err = s.insertWorkflow(ctx, conn, w)
			return err
		})
		if s.sql.Class(err) != dialect.Ambiguous {
			return false, err
		}
		if !s.findWorkflow(ctx, w) {
			lost = err
		}
		return true, nil
	})
	if err == nil && lost != nil {
		err = maybeHappened(true, lost)
	}
	return duplicate, err
}

// InsertWorkflowTx is InsertWorkflow in the caller's transaction. It tries once. After an error, the caller rolls back.
func (s *Store) InsertWorkflowTx(ctx context.Context, tx sqlrun.Tx, w *NewWorkflow) (duplicate uuid.UUID, err error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return uuid.Nil, err
	}
	return s.insertWorkflow(ctx, conn, w)
}

// findWorkflow reports whether a workflow whose insert was not answered is there.
func (s *Store) findWorkflow(ctx context.Context, w *NewWorkflow) bool {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	for _, pause := range searchPauses {
		if Sleep(ctx, pause) != nil {
			return false
		}
		p, err := s.ReadWorkflow(ctx, w.ID, uuid.Nil, 1, 1)
		if err != nil || len(p.Tasks) > 0 {
			return err == nil
		}
	}
	return false
}

func (s *Store) insertWorkflow(ctx context.Context, conn dialect.Conn, w *NewWorkflow) (
	duplicate uuid.UUID, err error) {
	queues := map[string][]InsertRow{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		row := t.InsertRow
		if len(t.Needs) > 0 {
			row.RunAt, row.Delay = WorkflowWaits, 0
		}
		queues[t.Queue] = append(queues[t.Queue], row)
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		out, err := s.newInsertBatch(queue, queues[queue]).insert(ctx, conn)
		if err != nil {
			return uuid.Nil, err
		}
		for _, in := range out {
			if in.Duplicate {
				return in.ID, fmt.Errorf("%w: a task of the workflow, in the queue %q; no task of it was added",
					errs.ErrDuplicate, queue)
			}
		}
	}
	args, n := w.taskArgs()
	if _, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddWorkflowTasks, args, n); err != nil {
		return uuid.Nil, err
	}
	if args, n = w.needArgs(); n > 0 {
		_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddWorkflowNeeds, args, n)
	}
	return uuid.Nil, err
}

// taskArgs returns the columns of AddWorkflowTasks, and their number of rows.
func (w *NewWorkflow) taskArgs() (dialect.Args, int) {
	n := len(w.Tasks)
	id, name, queue := make(dialect.Col[uuid.UUID], n), make(dialect.Col[string], n), make(dialect.Col[string], n)
	workflow := make(dialect.Col[uuid.UUID], n)
	needs, dependents := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	at, delay := make(dialect.Col[*int64], n), make(dialect.Col[int64], n)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		id[i], workflow[i], name[i], queue[i], needs[i] = t.ID, w.ID, t.Name, t.Queue, int64(len(t.Needs))
		at[i], delay[i] = micros(t.RunAt), t.Delay.Microseconds()
		for _, parent := range t.Needs {
			dependents[parent]++
		}
	}
	return dialect.Args{"id": id, "workflow_id": workflow, "name": name, "queue_name": queue, "needs": needs,
		"dependents": dependents, "at": at, "delay": delay}, n
}

// needArgs returns the columns of AddWorkflowNeeds, and their number of rows.
func (w *NewWorkflow) needArgs() (dialect.Args, int) {
	var parents, children dialect.Col[uuid.UUID]
	var policies dialect.Col[int64]
	for i := range w.Tasks {
		for _, parent := range w.Tasks[i].Needs {
			parents = append(parents, w.Tasks[parent].ID)
			children, policies = append(children, w.Tasks[i].ID), append(policies, int64(w.Tasks[i].OnFailure))
		}
	}
	return dialect.Args{"parent": parents, "child": children, "on_failure": policies}, len(parents)
}
