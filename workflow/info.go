package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Info is a workflow as it is now. Steps are in the order of the ids of their tasks, in which a step comes after those
// that it needs. Steps whose tasks were removed are missing.
type Info struct {
	ID    uuid.UUID  `json:"id"`
	Steps []StepInfo `json:"steps" nullable:"false"`
	Needs []Need     `json:"needs" nullable:"false"`
	// Cut reports whether the workflow has more steps or needs than the limit.
	Cut bool `json:"cut,omitempty"`
}

// StepInfo is a step of a workflow as it is now.
type StepInfo struct {
	TaskID uuid.UUID `json:"task_id"`
	Name   string    `json:"name"`
	Queue  string    `json:"queue"`
	// State is the task's state, or state.None if the task was completed by its removal.
	State     dbq.State `json:"state"`
	Cancelled bool      `json:"cancelled,omitempty"`
	// WaitsFor is how many tasks it still waits for.
	WaitsFor int `json:"waits_for,omitempty"`
	// Result is the result of a completion, or the text of the last error. Only Needs sets it.
	Result []byte `json:"-"`
}

// Need is a dependency: the task Child needs the task Parent.
type Need struct {
	Parent    uuid.UUID `json:"parent"`
	Child     uuid.UUID `json:"child"`
	OnFailure OnFailure `json:"on_failure"`
	Met       bool      `json:"met"` // Child no longer waits for Parent
}

const (
	pageSize  = 1000
	pageNeeds = 10 * pageSize
)

// Get reads up to limit steps of a workflow, and the needs for them. limit is 1 to MaxSteps; 0 means 1,000, and any
// other number is dbq.ErrCount. If there is no such workflow, or all of its tasks were removed, Get returns
// dbq.ErrNotFound.
func Get(ctx context.Context, c *dbq.Client, id uuid.UUID, limit int) (Info, error) {
	parts, info := access.Of(c), Info{ID: id, Needs: []Need{}}
	refuse := func(err error) (Info, error) { return Info{}, parts.Wrap("get workflow", "", uuid.Nil, err) }
	limit = cmp.Or(limit, pageSize)
	if err := bounds.Count(limit, MaxSteps); err != nil {
		return refuse(err)
	}
	for after := uuid.Nil; len(info.Steps) <= limit; { // one more, to know whether there are more
		n := min(pageSize, limit+1-len(info.Steps))
		p, err := parts.Store.ReadWorkflow(ctx, id, after, n, pageNeeds)
		if err != nil {
			return refuse(err)
		}
		for _, r := range p.Tasks {
			info.Steps, after = append(info.Steps, stepOf(r)), r.Task
		}
		for _, r := range p.Needs {
			info.Needs = append(info.Needs, Need{r.Parent, r.Child, onFailureOf(r.OnFailure), r.Met != 0})
		}
		// The limit of needs is for each statement of a page: a page can have more of them than that.
		info.Cut = info.Cut || len(p.Needs) >= pageNeeds
		if len(p.Tasks) < n {
			break
		}
	}
	if len(info.Steps) == 0 {
		return refuse(fmt.Errorf("%w: no workflow has this id", dbq.ErrNotFound))
	}
	if len(info.Steps) > limit {
		last := info.Steps[limit].TaskID // other steps need it only if they come later
		info.Steps, info.Cut = info.Steps[:limit], true
		info.Needs = slices.DeleteFunc(info.Needs, func(n Need) bool { return n.Child == last })
	}
	return info, nil
}

// List returns the ids of up to limit workflows that were enqueued before another one, the newest first; uuid.Max
// begins with the newest of all. An id begins with the time of its workflow. limit is 1 to dbq.MaxCheckout; 0 means
// 100, and any other number is dbq.ErrCount. Each id costs a short statement. A workflow is listed as long as one of
// its tasks exists.
func List(ctx context.Context, c *dbq.Client, before uuid.UUID, limit int) ([]uuid.UUID, error) {
	parts := access.Of(c)
	limit = cmp.Or(limit, 100)
	err := bounds.Count(limit, dbq.MaxCheckout)
	var ids []uuid.UUID
	if err == nil {
		ids, err = parts.Store.Workflows(ctx, before, limit)
	}
	return ids, parts.Wrap("list workflows", "", uuid.Nil, err)
}

func stepOf(r sqlrun.WorkflowRow) StepInfo {
	s := StepInfo{TaskID: r.Task, Name: r.Name, Queue: r.Queue, WaitsFor: int(r.Needs), Result: r.Result}
	s.Cancelled = r.Cancelled != nil && *r.Cancelled != 0
	if s.State = state.None; r.State != nil {
		s.State = dbq.State(*r.State)
	}
	if s.State != dbq.StateCreated {
		s.WaitsFor = 0
	}
	return s
}

// Of returns the workflow of a task, and the name of its step. If the task belongs to none, it returns dbq.ErrNotFound.
func Of(ctx context.Context, c *dbq.Client, task uuid.UUID) (id uuid.UUID, name string, err error) {
	parts := access.Of(c)
	err = dbq.ErrNotFound
	if store.InWorkflow(task) {
		var rows []sqlrun.WorkflowRow
		rows, err = parts.Store.ReadWorkflowTasks(ctx, []uuid.UUID{task})
		if err == nil && len(rows) > 0 {
			return rows[0].Workflow, rows[0].Name, nil
		}
		err = cmp.Or(err, dbq.ErrNotFound)
	}
	return uuid.Nil, "", parts.Wrap("find workflow", "", task, err)
}

// Needs yields the steps that a task of a workflow needs, with their results, in the order of the ids of their tasks.
// It reads 200 at a time. It omits a step whose task was removed on completion (dbq.Deleted). Cleaning and purging
// keep the others until all tasks that need them have ended.
//
//	for s, err := range workflow.Needs(ctx, client, t.ID) {
//		if err != nil {
//			return err
//		}
//		results[s.Name] = s.Result
//	}
func Needs(ctx context.Context, c *dbq.Client, task uuid.UUID) iter.Seq2[StepInfo, error] {
	return func(yield func(StepInfo, error) bool) {
		const page = 200
		parts := access.Of(c)
		for after := uuid.Nil; ; {
			rows, err := parts.Store.ReadParents(ctx, task, after, page)
			if err != nil {
				yield(StepInfo{}, parts.Wrap("read needs", "", task, err))
				return
			}
			for _, r := range rows {
				if after = r.Task; !yield(stepOf(r), nil) {
					return
				}
			}
			if len(rows) < page {
				return
			}
		}
	}
}

// ErrNoResult is returned by Result and StepInfo.Decode if there is no result: the task needs no such step, or the step
// failed, has none, or one that is not JSON because it was too long to be stored whole, or its task was removed.
var ErrNoResult = errors.New("no result")

// Result returns the result of the step with this name, which a task of a workflow needs, decoded from JSON. Handlers
// that worker.HandleResult registers write such results. To read many results, use Needs.
//
//	receipt, err := workflow.Result[Receipt](ctx, client, t.ID, "charge")
func Result[T any](ctx context.Context, c *dbq.Client, task uuid.UUID, step string) (result T, err error) {
	for s, err := range Needs(ctx, c, task) {
		if err != nil {
			return result, err
		}
		if s.Name == step {
			err = access.Of(c).Wrap("read result", "", task, s.Decode(&result))
			return result, err
		}
	}
	return result, access.Of(c).Wrap("read result", "", task,
		fmt.Errorf("%w: the task needs no step %q, or its task was removed", ErrNoResult, step))
}

// Decode decodes the result of a step that Needs yields from JSON into v.
func (s StepInfo) Decode(v any) error {
	switch {
	case s.State != dbq.StateCompleted:
		return fmt.Errorf("%w: step %q is in %v: %s", ErrNoResult, s.Name, s.State, s.Result)
	case len(s.Result) == 0:
		return fmt.Errorf("%w: step %q has completed without one", ErrNoResult, s.Name)
	}
	if !json.Valid(s.Result) {
		return fmt.Errorf("%w: what step %q has stored is not JSON, or not whole", ErrNoResult, s.Name)
	}
	if err := json.Unmarshal(s.Result, v); err != nil {
		return fmt.Errorf("result of step %q: %w", s.Name, err)
	}
	return nil
}

// Cancel cancels all tasks of a workflow that have not ended, and returns how many. It accepts the options of
// admin.Admin.OperateMany.
func Cancel(ctx context.Context, c *dbq.Client, id uuid.UUID, opts ...admin.Option) (int, error) {
	return operate(ctx, c, admin.Cancel, admin.Filter{Workflow: id}, opts)
}

// Retry reenqueues all tasks of a workflow that are in POISON or parked, including cancelled ones, and returns how
// many. Each task waits again for the tasks that it still needs. A failure that was already ignored stays ignored.
func Retry(ctx context.Context, c *dbq.Client, id uuid.UUID, opts ...admin.Option) (changed int, err error) {
	for _, f := range []admin.Filter{
		{States: []dbq.State{dbq.StatePoison}}, {CancelledOnly: true}, {ParkedOnly: true}, // the first leaves out the second
	} {
		f.Workflow = id
		n, err := operate(ctx, c, admin.Reenqueue, f, opts)
		if changed += n; err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// Find returns the step of a workflow with this name, or dbq.ErrNotFound.
func Find(ctx context.Context, c *dbq.Client, id uuid.UUID, step string) (StepInfo, error) {
	parts := access.Of(c)
	row, err := parts.Store.FindStep(ctx, nil, id, step)
	if err != nil {
		return StepInfo{}, parts.Wrap("find step", "", uuid.Nil, err)
	}
	return stepOf(row), nil
}

// operate applies an event to all tasks that a filter selects. It is one call, which begins with the last tasks when it
// cancels: no task starts because another one was cancelled before it.
func operate(
	ctx context.Context, c *dbq.Client, event state.Event, f admin.Filter, opts []admin.Option) (int, error) {
	f.Limit = MaxSteps
	done, err := admin.New(c).OperateMany(ctx, event, f, opts...)
	return done.Changed, err
}

// Resume advances workflows whose clients crashed between ending a task and making the next steps due. Workers do
// this on their own: call it only in a program that settles tasks without a worker.Worker.
func Resume(ctx context.Context, c *dbq.Client) error {
	parts := access.Of(c)
	return parts.Wrap("resume workflows", "", uuid.Nil, parts.ResumeWorkflows(ctx, 0))
}
