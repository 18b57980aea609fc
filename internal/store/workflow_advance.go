package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

const (
	// advanceNeeds is how many tasks one transaction advances, so that it is short whatever the size of the workflow.
	advanceNeeds = 1000
	// changesAtOnce is how many records AdvanceWorkflows reads at a time.
	changesAtOnce = 200
	// blockedAtOnce is how many of them may be blocked until it reads all.
	blockedAtOnce = 3
	// advanceTimeout bounds the wait for tasks that other transactions have locked; briefTry is that of the first try, and
	// loneTry that of each task by itself.
	advanceTimeout, briefTry, loneTry = 5 * time.Second, 250 * time.Millisecond, 2 * time.Second
)

// lastID is above every id.
var lastID = uuid.Max

// Promoted is a task that no longer waits for others, and after how long it is due.
type Promoted struct {
	Queue string
	After time.Duration
}

// Advance carries out what a change means for the workflows: tasks that need nothing more become due, and tasks that
// need one in POISON are cancelled, unless they are to wait or to go on. It repeats what another call has done
// without harm. promoted is called after each commit.
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

// AdvanceWorkflows advances the workflows with changes that are at least age old: those of clients that have crashed,
// or whose changes a caller's transaction has committed.
//
// Changes that cannot be carried out at once, because a transaction has locked one of their tasks, come last, in any
// order: they delay no others.
func (s *Store) AdvanceWorkflows(ctx context.Context, age time.Duration, promoted func([]Promoted)) (err error) {
	tried := map[string]bool{}
	for again := true; again; {
		blocked, failed := s.advanceBriefly(ctx, age, tried, promoted)
		again = false
		rand.Shuffle(len(blocked), func(i, k int) { blocked[i], blocked[k] = blocked[k], blocked[i] })
		for _, c := range blocked {
			one := s.advanceApart(ctx, c, promoted)
			if one == nil {
				again = true // what a brief try of a long chain has left is a change of its own
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
	promoted func([]Promoted)) (blocked []WorkflowChange, err error) {
	for limit := changesAtOnce; ; {
		records, err := s.readKV(ctx, s.sql.Texts.ListKV, dialect.Args{"namespace": workflowNamespace, "limit": limit})
		if err != nil {
			return blocked, err
		}
		rand.Shuffle(len(records), func(i, k int) { records[i], records[k] = records[k], records[i] })
		fresh := false
		for _, r := range records {
			if c := changeOf(r); !tried[c.Name] && r.Now-r.Updated >= age.Microseconds() && !s.isAdvancing(c.Name) {
				fresh, tried[c.Name] = true, true
				brief, cancel := context.WithTimeout(ctx, briefTry)
				one := s.Advance(brief, c, promoted)
				cancel()
				if one != nil {
					blocked = append(blocked, c)
				}
			}
			if ctx.Err() != nil || limit < maxRecords && len(blocked) > blockedAtOnce {
				break
			}
		}
		switch {
		case ctx.Err() != nil, len(records) < limit && !fresh, !fresh && limit == maxRecords:
			return blocked, nil
		case !fresh, len(blocked) > blockedAtOnce:
			limit = maxRecords
		}
	}
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
// that of two tasks that end at once the later one finds that nothing more is needed.
type advance struct {
	s           *Store
	parents     []uuid.UUID // that have changed
	after, last uuid.UUID   // the children that it handles; last is lowered to the last one that was read
	limit       int
	more        bool   // there may be further children
	record      string // is removed, unless ""

	promoted []Promoted
	further  []WorkflowChange // what follows from the cancelled tasks
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
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := a.s.lockMovable(ctx, conn, state.Reenqueue, ids)
	for _, r := range rows {
		if r.State == state.Poison {
			out = append(out, r.ID)
		}
	}
	return out, err
}

// needs reads what still waits for parents.
func (a *advance) needs(ctx context.Context, conn dialect.Conn, parents []uuid.UUID) ([]sqlrun.NeedRow, error) {
	a.last, a.more = lastID, false
	if len(parents) == 0 {
		return nil, nil
	}
	rows, err := sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, a.s.sql, conn, a.s.sql.Texts.WorkflowNeeds,
		dialect.Args{"id": dialect.Col[uuid.UUID](parents), "above": a.after, "met": 0, "limit": a.limit}, len(parents))
	if a.more = err == nil && len(rows) >= a.limit; a.more {
		a.last = rows[len(rows)-1].Child
	}
	return rows, err
}

// meet marks what needs the parents, if it does not fail with them.
func (a *advance) meet(ctx context.Context, conn dialect.Conn, parents []uuid.UUID, least int) error {
	if len(parents) == 0 {
		return nil
	}
	_, err := a.s.sql.ExecBatch(ctx, conn, a.s.sql.Texts.MeetNeeds, dialect.Args{
		"id": dialect.Col[uuid.UUID](parents), "above": a.after, "last": a.last, "least": least}, len(parents))
	return err
}

// countNeeds subtracts what was met from the needs of tasks, and returns those that need nothing more.
func (s *Store) countNeeds(ctx context.Context, conn dialect.Conn, met map[uuid.UUID]int64) (
	ready []sqlrun.WorkflowRow, err error) {
	if len(met) == 0 {
		return nil, nil
	}
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
