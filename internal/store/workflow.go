package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The ids of the tasks of workflows are UUIDs of version 8 in the form of version 7, with a last bit that is 1 if other
// tasks need the task. So a call needs no query to find whether its tasks belong to workflows, and plain tasks cost
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

// only returns the ids that satisfy is.
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

// Blocked reports whether a row is a task that waits for others of its workflow.
func Blocked(r dialect.Row) bool {
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

// FollowUp is the work that remains after a call has been committed. Without it, workers find it later.
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
	return queryIDs[sqlrun.WorkflowRow](ctx, s, conn, s.sql.Texts.WorkflowTasks, ids)
}

// lockSteps locks the rows of steps until the end of the transaction.
func (s *Store) lockSteps(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error {
	ids = slices.SortedFunc(slices.Values(ids), compareIDs)
	_, err := queryIDs[sqlrun.WorkflowRow](ctx, s, conn, s.sql.Texts.LockWorkflowTasks, ids)
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
	case state.Completed, state.Poison:
		return s.addChanges(ctx, conn, only(moved, isNeeded))
	}
	return nil, nil
}

// WorkflowPage is a part of a workflow: some of its tasks, by id, and the tasks that need them.
type WorkflowPage struct {
	Tasks []sqlrun.WorkflowRow
	Needs []sqlrun.NeedRow
}

// ReadWorkflow reads up to limit tasks of a workflow above after, and at most needs of the dependencies on them.
func (s *Store) ReadWorkflow(ctx context.Context, workflow, after uuid.UUID, limit, needs int) (
	WorkflowPage, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) (p WorkflowPage, err error) {
		p.Tasks, err = s.listWorkflow(ctx, conn, workflow, after, limit)
		var parents dialect.Col[uuid.UUID]
		for i := range p.Tasks {
			if isNeeded(p.Tasks[i].Task) {
				parents = append(parents, p.Tasks[i].Task)
			}
		}
		if err != nil || len(parents) == 0 {
			return p, err
		}
		p.Needs, err = sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, s.sql, conn, s.sql.Texts.WorkflowNeeds,
			dialect.Args{"id": parents, "above": uuid.Nil, "met": 1, "limit": needs}, len(parents))
		return p, err
	})
}

func (s *Store) listWorkflow(ctx context.Context, conn dialect.Conn, workflow, after uuid.UUID, limit int) (
	[]sqlrun.WorkflowRow, error) {
	return sqlrun.QueryAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.WorkflowList,
		dialect.Args{"workflow": workflow, "after": after, "limit": limit})
}

// FindStep returns the step of a workflow with a name, or ErrNotFound. It reads in the caller's transaction, unless tx
// is nil.
func (s *Store) FindStep(ctx context.Context, tx sqlrun.Tx, workflow uuid.UUID, name string) (
	sqlrun.WorkflowRow, error) {
	find := func(ctx context.Context, conn dialect.Conn) (row sqlrun.WorkflowRow, err error) {
		rows, err := sqlrun.QueryAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.WorkflowStep,
			dialect.Args{"workflow": workflow, "name": name})
		if err == nil && len(rows) == 0 {
			err = fmt.Errorf("%w: workflow %s has no step %q, or its task was removed", errs.ErrNotFound, workflow, name)
		}
		if err != nil {
			return row, err
		}
		return rows[0], nil
	}
	if tx == nil {
		return read(ctx, s, find)
	}
	conn, err := s.txConn(tx)
	if err != nil {
		return sqlrun.WorkflowRow{}, err
	}
	return find(ctx, conn)
}

// checkSignal refuses a signal for a step that still waits for others, whose dependents would not wait for these, and
// for one that went to POISON, whose dependents may have been cancelled. moved is the task as it was before.
func (s *Store) checkSignal(ctx context.Context, conn dialect.Conn, moved dialect.Row) error {
	if moved.State == state.Poison {
		return fmt.Errorf("%w: it is POISON, and what needs it may have been cancelled", errs.ErrWrongState)
	}
	rows, err := s.workflowTasks(ctx, conn, []uuid.UUID{moved.ID})
	if err == nil && len(rows) > 0 && rows[0].Needs > 0 {
		err = fmt.Errorf("%w: the step still waits for others", errs.ErrWrongState)
	}
	return err
}

// Workflows returns the ids of up to n workflows below before, the newest first. It reads one index entry for each: a
// search for several at once would read all tasks of each.
func (s *Store) Workflows(ctx context.Context, before uuid.UUID, n int) ([]uuid.UUID, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) (ids []uuid.UUID, err error) {
		for last := before; len(ids) < n; ids = append(ids, last) {
			rows, err := sqlrun.QueryAs[sqlrun.WorkflowRow](ctx, s.sql, conn, s.sql.Texts.Workflows,
				dialect.Args{"before": last, "limit": 1})
			if err != nil || len(rows) == 0 {
				return ids, err
			}
			last = rows[0].Workflow
		}
		return ids, nil
	})
}

// ReadWorkflowTasks reads tasks of workflows. Those that do not exist are left out.
func (s *Store) ReadWorkflowTasks(ctx context.Context, ids []uuid.UUID) ([]sqlrun.WorkflowRow, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) ([]sqlrun.WorkflowRow, error) {
		return s.workflowTasks(ctx, conn, ids)
	})
}

// ReadParents reads up to limit tasks above after that a task of a workflow needs, with their results, by id.
func (s *Store) ReadParents(ctx context.Context, child, after uuid.UUID, limit int) (
	[]sqlrun.WorkflowRow, error) {
	return readRows[sqlrun.WorkflowRow](ctx, s, s.sql.Texts.WorkflowParents,
		dialect.Args{"child": child, "after": after, "limit": limit})
}

// unneeded leaves out the tasks that an unfinished task of their workflow needs, for its handler reads their results.
func (s *Store) unneeded(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]uuid.UUID, error) {
	parents := only(ids, isNeeded)
	rows, err := queryIDs[sqlrun.WorkflowRow](ctx, s, conn, s.sql.Texts.NeededWorkflowTasks, parents)
	if err != nil || len(rows) == 0 {
		return ids, err
	}
	needed := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		needed[r.Task] = true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return needed[id] }), nil
}

// leaveWorkflows deletes the workflow rows of removed tasks. Steps no longer wait for a removed task: one that was
// cancelled because of it runs if it is reenqueued, and one that is already waiting becomes due now. It locks the
// tasks' rows first, as advance does, so that only one of the two counts the steps that needed them.
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

// SetIDs turns the new tasks' ids into ids of a workflow's tasks.
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
// 7 of the same millisecond, and this client's next tasks must come after it in the order of its key.
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
	err = s.once(ctx, func() (bool, error) {
		return false, s.sql.Tx(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			duplicate, err = s.insertWorkflow(ctx, conn, w)
			return err
		})
	}, func() bool {
		return s.findLost(ctx, w.Tasks[0].Queue, func(ctx context.Context, conn dialect.Conn) (bool, error) {
			rows, err := s.listWorkflow(ctx, conn, w.ID, uuid.Nil, 1)
			return len(rows) > 0, err
		})
	})
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
	if _, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddWorkflowTasks, w.taskArgs(), len(w.Tasks)); err != nil {
		return uuid.Nil, err
	}
	needs := w.needs()
	_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.AddWorkflowNeeds, sqlrun.ColumnsOf(needs), len(needs))
	return uuid.Nil, err
}

// taskArgs returns the columns of AddWorkflowTasks.
func (w *NewWorkflow) taskArgs() dialect.Args {
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
		"dependents": dependents, "at": at, "delay": delay}
}

// needs returns the rows of AddWorkflowNeeds.
func (w *NewWorkflow) needs() (rows []sqlrun.NeedRow) {
	for _, t := range w.Tasks {
		for _, parent := range t.Needs {
			rows = append(rows, sqlrun.NeedRow{Parent: w.Tasks[parent].ID, Child: t.ID, OnFailure: int64(t.OnFailure)})
		}
	}
	return rows
}

// promote makes tasks due that wait and need nothing more.
func (a *advance) promote(ctx context.Context, conn dialect.Conn, ready []sqlrun.WorkflowRow) error {
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
		if !Blocked(w) { // an operator has acted on it
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
	_, err = a.s.sql.ExecBatch(ctx, conn, a.s.sql.Texts.Postpone, dialect.Args{"id": id, "at": at}, len(id))
	return err
}

// cancel cancels the tasks that fail with a task. The tasks that need these in turn are a change of their own.
func (a *advance) cancel(
	ctx context.Context, conn dialect.Conn, parent uuid.UUID, name string, children []uuid.UUID) error {
	event, _ := state.Find(state.Cancel, state.Operator)
	op := Operation{Transition: event, By: "dbq", Reason: fmt.Sprintf(
		"it needs %q (%s), which is in POISON", name, parent)}
	slices.SortFunc(children, compareIDs)
	for part := range slices.Chunk(children, a.s.OperateLimit(state.Cancel)) {
		_, changes, err := a.s.operate(ctx, conn, op, part)
		if err != nil {
			return err
		}
		a.further = append(a.further, changes...)
	}
	return nil
}

// holdBack makes reenqueued tasks wait again that need others, and records the change: their needs may have ended
// meanwhile.
func (s *Store) holdBack(ctx context.Context, conn dialect.Conn, moved []uuid.UUID) ([]WorkflowChange, error) {
	rows, err := s.workflowTasks(ctx, conn, only(moved, InWorkflow))
	if err != nil {
		return nil, err
	}
	var wait dialect.Col[uuid.UUID]
	for _, r := range rows {
		if r.Needs > 0 {
			wait = append(wait, r.Task)
		}
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

const (
	// advanceNeeds is how many tasks one transaction advances, so that it is short whatever the size of the workflow.
	advanceNeeds = 1000
	// changesAtOnce is how many records AdvanceWorkflows reads at a time.
	changesAtOnce = 200
	// lockedAtOnce is how many of them may be locked before it stops reading.
	lockedAtOnce = 3
	// advanceTimeout bounds the wait for tasks that other transactions have locked; briefTry bounds the first try, or
	// briefReads times the time of a query if that is more, and loneTry the try of each task by itself.
	advanceTimeout, briefTry, loneTry = 5 * time.Second, 250 * time.Millisecond, 2 * time.Second
	// briefReads makes the first try long enough for the statements of a change where a server is busy or far away.
	briefReads = 20
)

// lastID is above every id.
var lastID = uuid.Max

// Promoted is a task that no longer waits for others, and after how long it is due.
type Promoted struct {
	Queue string
	After time.Duration
}

// Advance applies a change to the workflows: tasks that need nothing more become due, and tasks that need one in POISON
// are cancelled, unless they must wait or continue. It can repeat the work of another call without harm. promoted is
// called after each commit.
//
// What is cancelled may cancel further tasks. These are changes of their own, so that each transaction is short, and
// one follows the other in a loop, since a chain can have MaxSteps.
func (s *Store) Advance(ctx context.Context, c WorkflowChange, promoted func([]Promoted)) error {
	for open := []WorkflowChange{c}; len(open) > 0; open = open[1:] {
		further, err := s.advanceOne(ctx, open[0], promoted)
		if err != nil {
			return err
		}
		open = append(open, further...)
	}
	return nil
}

// advanceOne carries out a change, and returns those that follow from it.
func (s *Store) advanceOne(ctx context.Context, c WorkflowChange, promoted func([]Promoted)) (
	further []WorkflowChange, err error) {
	s.advancing.Store(c.Name, true)
	defer s.advancing.Delete(c.Name)
	rows, err := s.ReadWorkflowTasks(ctx, c.Tasks)
	if err != nil {
		return nil, err
	}
	write := func(a *advance) error {
		a.s = s
		err := a.write(ctx, promoted)
		further = append(further, a.further...)
		return err
	}
	slices.SortFunc(rows, func(a, b sqlrun.WorkflowRow) int { return compareIDs(a.Task, b.Task) })
	var part []uuid.UUID
	needs := int64(0)
	for _, r := range rows {
		if r.Dependents > advanceNeeds {
			if err := advanceLarge(ctx, r.Task, write); err != nil {
				return nil, err
			}
			continue
		}
		if needs += r.Dependents; needs > advanceNeeds {
			if err := write(&advance{parents: part, last: lastID, limit: advanceNeeds + 1}); err != nil {
				return nil, err
			}
			part, needs = nil, r.Dependents
		}
		part = append(part, r.Task)
	}
	err = write(&advance{parents: part, last: lastID, limit: advanceNeeds + 1, record: c.Name})
	return further, err
}

// advanceLarge advances the many tasks that need one.
func advanceLarge(ctx context.Context, parent uuid.UUID, write func(*advance) error) error {
	for after, more := uuid.Nil, true; more; {
		a := &advance{parents: []uuid.UUID{parent}, after: after, last: lastID, limit: advanceNeeds}
		if err := write(a); err != nil {
			return err
		}
		after, more = a.last, a.more
		if err := Sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
	return nil
}

// AdvanceWorkflows advances the workflows with changes that are at least age old: changes of clients that have crashed,
// and changes that a caller's transaction has committed.
//
// Changes that cannot be carried out at once, because a transaction has locked one of their tasks, come last, in any
// order: they delay no others.
func (s *Store) AdvanceWorkflows(ctx context.Context, age time.Duration, promoted func([]Promoted)) (err error) {
	tried := map[string]bool{}
	for again := true; again; {
		locked, failed := s.advanceBriefly(ctx, age, tried, promoted)
		again = false
		rand.Shuffle(len(locked), func(i, k int) { locked[i], locked[k] = locked[k], locked[i] })
		for _, c := range locked {
			one := s.advanceApart(ctx, c, promoted)
			if one == nil {
				again = true // the rest of a brief try of a long chain is a change of its own
			} else if errors.Is(one, context.DeadlineExceeded) {
				break // another client is at it; the others have their turn in later searches
			} else {
				failed = errors.Join(failed, one)
			}
		}
		err = errors.Join(err, failed)
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return err
}

// advanceBriefly tries each change that was not tried before for a moment, and returns those that take longer. As soon
// as there are some, it reads all changes, in any order, so that the oldest ones do not keep it busy each time.
func (s *Store) advanceBriefly(ctx context.Context, age time.Duration, tried map[string]bool,
	promoted func([]Promoted)) (locked []WorkflowChange, err error) {
	for limit := changesAtOnce; ; {
		records, err := readRows[Record](ctx, s, s.sql.Texts.ListKV,
			dialect.Args{"namespace": workflowNamespace, "limit": limit})
		if err != nil {
			return locked, err
		}
		rand.Shuffle(len(records), func(i, k int) { records[i], records[k] = records[k], records[i] })
		fresh := false
		for _, r := range records {
			if c := changeOf(r); !tried[c.Name] && r.Now-r.Updated >= age.Microseconds() && !s.isAdvancing(c.Name) {
				fresh, tried[c.Name] = true, true
				if s.tryBriefly(ctx, c, promoted) != nil {
					locked = append(locked, c)
				}
			}
			if ctx.Err() != nil || limit < maxRecords && len(locked) > lockedAtOnce {
				break
			}
		}
		switch {
		case ctx.Err() != nil, len(records) < limit && !fresh, !fresh && limit == maxRecords:
			return locked, nil
		case !fresh, len(locked) > lockedAtOnce:
			limit = maxRecords
		}
	}
}

// tryBriefly is Advance with a time limit that follows from the time of a read just before it. A driver may close the
// connection of a try that runs out of time, as pgx does, and opening the next one takes long where a server is busy
// or far away. So a read that is not timed opens it: the change after a locked one neither runs out of time for that,
// nor has it more time than it needs.
func (s *Store) tryBriefly(ctx context.Context, c WorkflowChange, promoted func([]Promoted)) error {
	var began time.Time
	for range 2 {
		began = time.Now()
		if _, exists, err := s.GetKV(ctx, workflowNamespace, c.Name); err != nil || !exists {
			return err
		}
	}
	brief, cancel := context.WithTimeout(ctx, min(max(briefTry, briefReads*time.Since(began)), advanceTimeout))
	defer cancel()
	return s.Advance(brief, c, promoted)
}

// isAdvancing reports whether another call of this client is at a change.
func (s *Store) isAdvancing(name string) bool {
	_, busy := s.advancing.Load(name)
	return busy
}

// advanceApart is Advance for a change that may have failed before. If it fails again, as when a transaction has locked
// one of the tasks, it advances each task by itself.
func (s *Store) advanceApart(ctx context.Context, c WorkflowChange, promoted func([]Promoted)) error {
	try := func(c WorkflowChange, timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return s.Advance(ctx, c, promoted)
	}
	if s.isAdvancing(c.Name) {
		return context.DeadlineExceeded
	}
	err := try(c, advanceTimeout)
	if err == nil || len(c.Tasks) == 1 || s.sql.Class(err) == dialect.Unavailable {
		return err
	}
	for _, id := range c.Tasks {
		if ctx.Err() == nil {
			err = errors.Join(err, try(WorkflowChange{Tasks: []uuid.UUID{id}}, loneTry))
		}
	}
	return err
}

// AdvanceCommitted is Advance for changes that a caller's transaction has written. It reports whether they are there.
func (s *Store) AdvanceCommitted(ctx context.Context, name string, promoted func([]Promoted)) (bool, error) {
	r, exists, err := s.GetKV(ctx, workflowNamespace, name)
	if err != nil || !exists {
		return false, err
	}
	return true, s.Advance(ctx, changeOf(r), promoted)
}

// advance is one transaction of Advance. It locks the rows of the workflow's tasks, and counts in later statements, so
// when two tasks end at once, the later one finds that nothing more is needed.
type advance struct {
	s           *Store
	parents     []uuid.UUID // that have changed
	after, last uuid.UUID   // the children that it handles; last is lowered to the last one that was read
	limit       int
	more        bool   // there may be further children
	record      string // is removed, unless ""

	promoted []Promoted
	further  []WorkflowChange // the changes of the cancelled tasks
}

func (a *advance) write(ctx context.Context, promoted func([]Promoted)) error {
	err := a.s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error { return a.run(ctx, conn) })
	if err != nil {
		return err
	}
	if len(a.promoted) > 0 {
		promoted(a.promoted)
	}
	return nil
}

func (a *advance) run(ctx context.Context, conn dialect.Conn) error {
	a.promoted, a.further = nil, nil
	if len(a.parents) > 0 {
		if err := a.advance(ctx, conn); err != nil {
			return err
		}
	}
	if a.record == "" {
		return nil
	}
	_, err := a.s.sql.Exec(ctx, conn, a.s.sql.Texts.DropKV, dialect.Args{"namespace": workflowNamespace, "name": a.record})
	return err
}

func (a *advance) advance(ctx context.Context, conn dialect.Conn) error {
	if err := a.s.lockSteps(ctx, conn, a.parents); err != nil {
		return err
	}
	rows, err := a.s.workflowTasks(ctx, conn, a.parents)
	if err != nil {
		return err
	}
	var completed, removed, poisoned []uuid.UUID
	var ready []sqlrun.WorkflowRow
	names := map[uuid.UUID]string{}
	for _, r := range rows {
		names[r.Task] = r.Name
		switch {
		case r.State == nil: // it was completed by its removal: others that end are kept while they are needed
			removed = append(removed, r.Task)
			completed = append(completed, r.Task)
		case *r.State == int64(state.Completed):
			completed = append(completed, r.Task)
		case *r.State == int64(state.Poison) && r.Dependents > 0:
			poisoned = append(poisoned, r.Task)
		case r.Needs == 0 && *r.State == int64(state.Created) && isWorkflowWait(r.Due):
			ready = append(ready, r)
		}
	}
	if poisoned, err = a.stillPoisoned(ctx, conn, poisoned); err != nil {
		return err
	}
	needs, err := a.needs(ctx, conn, slices.Concat(completed, poisoned))
	if err != nil {
		return err
	}
	failed := map[uuid.UUID]bool{}
	for _, id := range poisoned {
		failed[id] = true
	}
	met, cancelled := map[uuid.UUID]int64{}, map[uuid.UUID][]uuid.UUID{} // by child; by parent
	for _, n := range needs {
		switch {
		case !failed[n.Parent] || n.OnFailure == OnFailureIgnore:
			met[n.Child]++
		case n.OnFailure == OnFailureCancel:
			cancelled[n.Parent] = append(cancelled[n.Parent], n.Child)
		}
	}
	if err := a.meet(ctx, conn, completed, OnFailureCancel); err != nil {
		return err
	}
	if err := a.meet(ctx, conn, poisoned, OnFailureIgnore); err != nil {
		return err
	}
	children, err := a.s.countNeeds(ctx, conn, met)
	if err != nil {
		return err
	}
	if err := a.promote(ctx, conn, append(ready, children...)); err != nil {
		return err
	}
	for _, parent := range poisoned {
		if err := a.cancel(ctx, conn, parent, names[parent], cancelled[parent]); err != nil {
			return err
		}
	}
	if a.more {
		return nil
	}
	return a.s.leaveWorkflows(ctx, conn, removed)
}

// stillPoisoned locks tasks in POISON, so that an operator does not reenqueue them until the commit.
func (a *advance) stillPoisoned(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) (out []uuid.UUID, err error) {
	rows, err := a.s.lockMovable(ctx, conn, state.Reenqueue, ids)
	for _, r := range rows {
		if r.State == state.Poison {
			out = append(out, r.ID)
		}
	}
	return out, err
}

// needs reads the needs of tasks that still wait for parents.
func (a *advance) needs(ctx context.Context, conn dialect.Conn, parents []uuid.UUID) ([]sqlrun.NeedRow, error) {
	a.last = lastID
	rows, err := sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, a.s.sql, conn, a.s.sql.Texts.WorkflowNeeds,
		dialect.Args{"id": dialect.Col[uuid.UUID](parents), "above": a.after, "met": 0, "limit": a.limit}, len(parents))
	if a.more = err == nil && len(rows) >= a.limit; a.more {
		a.last = rows[len(rows)-1].Child
	}
	return rows, err
}

// meet marks the needs of children as met, unless these fail with the parents.
func (a *advance) meet(ctx context.Context, conn dialect.Conn, parents []uuid.UUID, least int) error {
	_, err := a.s.sql.ExecBatch(ctx, conn, a.s.sql.Texts.MeetNeeds, dialect.Args{
		"id": dialect.Col[uuid.UUID](parents), "above": a.after, "last": a.last, "least": least}, len(parents))
	return err
}

// countNeeds subtracts the met needs of tasks, and returns the tasks that need nothing more.
func (s *Store) countNeeds(ctx context.Context, conn dialect.Conn, met map[uuid.UUID]int64) (
	ready []sqlrun.WorkflowRow, err error) {
	byCount, all := map[int64][]uuid.UUID{}, make([]uuid.UUID, 0, len(met))
	for child := range met {
		all = append(all, child)
	}
	slices.SortFunc(all, compareIDs)
	for _, child := range all {
		byCount[met[child]] = append(byCount[met[child]], child)
	}
	if len(byCount) > 1 { // lock in the order of ids
		if err := s.lockSteps(ctx, conn, all); err != nil {
			return nil, err
		}
	}
	for n, ids := range byCount {
		_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.CountNeeds,
			dialect.Args{"id": dialect.Col[uuid.UUID](ids), "met": n}, len(ids))
		if err != nil {
			return nil, err
		}
	}
	rows, err := s.workflowTasks(ctx, conn, all)
	return slices.DeleteFunc(rows, func(r sqlrun.WorkflowRow) bool { return r.Needs > 0 }), err
}
