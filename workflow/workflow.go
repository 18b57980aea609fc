// Package workflow enqueues tasks with dependencies on each other, in one transaction.
//
//	w, err := workflow.Enqueue(ctx, client, []workflow.Step{
//		workflow.NewStep("charge", Charge, order),
//		workflow.NewStep("pack", Pack, order),
//		workflow.NewStep("ship", Ship, order, "charge", "pack"),
//	})
//
// Charge, Pack and Ship are of type dbq.Kind. A task becomes due when all tasks that it needs are completed. Its
// handler reads their results with Result or Needs. Get reads a workflow, and Info draws it. Cancel and Retry change
// a workflow as a whole.
//
// The tasks are ordinary tasks, in one or several queues of one database, each with its own attempts, backoff and
// history. A workflow is not replayed, and its steps do not change after it is enqueued.
package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// Limits of a workflow.
const (
	MaxName  = 200             // characters in a step's name
	MaxSteps = bounds.MaxSteps // of a workflow
	MaxNeeds = 1_000_000       // of all steps together
)

// ErrDefinition is returned if the steps contain a cycle, an unknown or duplicate name, or another invalid field. It
// matches dbq.ErrInvalid too. Other errors come from package dbq.
var ErrDefinition error = &errs.InvalidError{Text: "invalid workflow"}

// StepError is the error for one step of Enqueue. It matches the same errors as its cause: ErrDefinition, or an error
// of package dbq such as dbq.ErrKind.
type StepError struct {
	Step  int    // the index of the step
	Field string // the field of Step to change
	Err   error
}

// Error returns the text of the cause.
func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// OnFailure determines the fate of a step when a task that it needs goes to POISON, for whatever reason. "" means
// CancelStep.
type OnFailure string

const (
	// CancelStep cancels the step, and then the steps that need it.
	CancelStep OnFailure = "cancel"
	// WaitStep keeps the step waiting until an operator reenqueues the failed task and that task completes.
	WaitStep OnFailure = "wait"
	// IgnoreFailure lets the step run as if the failed task were completed. Needs shows it the failure.
	IgnoreFailure OnFailure = "ignore"
)

// stored has each OnFailure at the number that is stored for it.
var stored = []OnFailure{
	store.OnFailureCancel: CancelStep, store.OnFailureWait: WaitStep, store.OnFailureIgnore: IgnoreFailure,
}

// Step is a task of a workflow.
type Step struct {
	// Name is unique in the workflow. It has 1 to MaxName characters.
	Name string
	// Queue is the name of the task's queue. Steps of a workflow can be in different queues.
	Queue string
	// Task is the task. For a step with Needs, Delay counts from the end of the last of them, and RunAt is the earliest
	// start. ID and Unique must be zero. If a Reference is taken, no task of the workflow is added.
	Task dbq.NewTask
	// Needs are the names of the steps that must be completed before this one. They may come later in the slice.
	Needs []string
	// OnFailure determines the fate of the step when one of Needs fails. By default, the step is cancelled.
	OnFailure OnFailure

	err error // of NewStep
}

// onFailureOf returns the OnFailure that is stored as n.
func onFailureOf(n int64) OnFailure {
	if n < 0 || n >= int64(len(stored)) {
		return ""
	}
	return stored[n]
}

// NewStep returns a step with a task of a kind, in the kind's queue. needs are the names of the steps that it needs. If
// v cannot be encoded, Enqueue returns dbq.ErrPayload. Other fields, such as OnFailure and Task.Reference, can be set
// before the step is enqueued.
func NewStep[T any](name string, k dbq.Kind[T], v T, needs ...string) Step {
	t, err := k.Task(v)
	return Step{Name: name, Queue: k.Queue, Task: t, Needs: needs, err: err}
}

// Names returns the names of steps, for a last step that needs all of them.
func Names(steps []Step) []string {
	names := make([]string, len(steps))
	for i := range steps {
		names[i] = steps[i].Name
	}
	return names
}

// Enqueued is a workflow that was enqueued.
type Enqueued struct {
	ID      uuid.UUID   // the workflow's
	TaskIDs []uuid.UUID // their ids, in the order of the steps
}

// Enqueue adds the tasks of a workflow, all or none, in one transaction. If it returns no error, they are committed.
//
// Enqueue returns ErrDefinition for invalid steps, and dbq.ErrDuplicate if a reference is taken; dbq.Error has the
// existing task. If a single step is invalid, the error is a StepError. After dbq.ErrMayHaveHappened, either all tasks
// were added or none.
func Enqueue(ctx context.Context, c *dbq.Client, steps []Step) (Enqueued, error) {
	return enqueue(ctx, c, steps, false, func(parts *core.Core, w *store.NewWorkflow) (uuid.UUID, error) {
		return parts.Store.InsertWorkflow(ctx, w)
	}, (*wake.Waker).Wake)
}

// EnqueueTx is Enqueue in the caller's transaction: the tasks exist once it commits. If it returns an error, roll back.
// Workers are woken as by dbq.Queue.EnqueueManyTx.
func EnqueueTx(ctx context.Context, tx dbq.Tx, c *dbq.Client, steps []Step) (Enqueued, error) {
	return enqueue(ctx, c, steps, true, func(parts *core.Core, w *store.NewWorkflow) (uuid.UUID, error) {
		return parts.Store.InsertWorkflowTx(ctx, tx, w)
	}, (*wake.Waker).WakeAfterCommit)
}

// opEnqueue is the operation of an enqueue, in dbq.Call and dbq.Error.
const opEnqueue = "enqueue workflow"

func enqueue(ctx context.Context, c *dbq.Client, steps []Step, tx bool,
	insert func(*core.Core, *store.NewWorkflow) (duplicate uuid.UUID, err error),
	wakeUp func(*wake.Waker, string, wake.Due)) (out Enqueued, err error) {
	parts := access.Of(c)
	defer func(start time.Time) { parts.Observe(opEnqueue, "", len(steps), tx, start, err) }(time.Now())
	w, order, err := newWorkflow(ctx, c, steps)
	if err != nil {
		return Enqueued{}, parts.Wrap(opEnqueue, "", uuid.Nil, err)
	}
	duplicate, err := insert(parts, w)
	if err != nil {
		return Enqueued{}, parts.Wrap(opEnqueue, "", duplicate, err)
	}
	out = Enqueued{ID: w.ID, TaskIDs: make([]uuid.UUID, len(steps))}
	due := map[string]wake.Due{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		out.TaskIDs[order[i]] = t.ID
		if len(t.Needs) == 0 {
			after := t.Delay
			if !t.RunAt.IsZero() {
				after = time.Until(t.RunAt)
			}
			d := due[t.Queue]
			d.Add(after)
			due[t.Queue] = d
		}
	}
	for queue, d := range due {
		wakeUp(parts.Wake, queue, d)
	}
	w.AwaitLaterIDs()
	return out, nil
}

// newWorkflow checks the steps. order has the index in steps of each task.
func newWorkflow(ctx context.Context, c *dbq.Client, steps []Step) (w *store.NewWorkflow, order []int, err error) {
	if err := bounds.Range("the number of steps", len(steps), 1, MaxSteps, ErrDefinition); err != nil {
		return nil, nil, err
	}
	needs, err := indexNeeds(steps)
	if err != nil {
		return nil, nil, err
	}
	if order, err = sorted(steps, needs); err != nil {
		return nil, nil, err
	}
	w = &store.NewWorkflow{ID: dbq.NewID(), Tasks: make([]store.NewWorkflowTask, len(steps))}
	place := make([]int, len(steps)) // of each step in order
	for at, i := range order {
		place[i] = at
		s := &steps[i]
		row, field, err := s.row(ctx, c)
		if err != nil {
			return nil, nil, &StepError{i, field, fmt.Errorf("step %q: %w", s.Name, err)}
		}
		t := store.NewWorkflowTask{InsertRow: row, Queue: s.Queue, Name: s.Name,
			OnFailure: max(slices.Index(stored, s.OnFailure), store.OnFailureCancel)}
		for _, parent := range needs[i] {
			t.Needs = append(t.Needs, place[parent])
		}
		w.Tasks[at] = t
	}
	w.SetIDs()
	return w, order, nil
}

// row checks a step and returns its task. field is the one to change after an error.
func (s *Step) row(ctx context.Context, c *dbq.Client) (row store.InsertRow, field string, err error) {
	if s.OnFailure != "" && !slices.Contains(stored, s.OnFailure) {
		return row, "OnFailure", fmt.Errorf("%w: its OnFailure is %q, it must be one of %q", ErrDefinition, s.OnFailure,
			stored)
	}
	if err = s.err; err == nil {
		row, err = access.NewRow(ctx, c.Queue(s.Queue), s.Task)
	}
	switch {
	case errors.Is(err, dbq.ErrQueueName):
		return row, "Queue", err
	case err == nil && (row.GivenID || row.Unique != nil): // also from a hook
		err = fmt.Errorf("%w: its Task has an ID or Unique, which must be zero; set Reference instead", ErrDefinition)
	}
	return row, "Task", err
}

// indexNeeds returns the indexes of the steps that each step needs.
func indexNeeds(steps []Step) ([][]int, error) {
	index := make(map[string]int, len(steps))
	for i := range steps {
		name := steps[i].Name
		if err := bounds.Text(name, 1, MaxName, ErrDefinition, "name of a step"); err != nil {
			return nil, &StepError{i, "Name", err}
		}
		if _, twice := index[name]; twice {
			return nil, &StepError{i, "Name", fmt.Errorf("%w: two steps have the name %q", ErrDefinition, name)}
		}
		index[name] = i
	}
	needs, total := make([][]int, len(steps)), 0
	last := make([]int, len(steps)) // the step, plus one, that was the last to need each step
	for i := range steps {
		refuse := func(text string, args ...any) ([][]int, error) {
			args = append([]any{ErrDefinition, steps[i].Name}, args...)
			return nil, &StepError{i, "Needs", fmt.Errorf("%w: step %q "+text, args...)}
		}
		for _, name := range steps[i].Needs {
			parent, ok := index[name]
			switch {
			case !ok:
				return refuse("needs %q, but no step has that name", name)
			case parent == i:
				return refuse("needs itself")
			case last[parent] == i+1:
				return refuse("needs %q twice", name)
			}
			last[parent] = i + 1
			needs[i] = append(needs[i], parent)
		}
		if total += len(needs[i]); total > MaxNeeds {
			return nil, fmt.Errorf("%w: more than %d needs", ErrDefinition, MaxNeeds)
		}
	}
	return needs, nil
}

// sorted returns the indexes of the steps in an order in which each comes after its needs, and otherwise in the given
// order.
func sorted(steps []Step, needs [][]int) ([]int, error) {
	open := make([]int, len(steps)) // needs that are not in order yet
	dependents := make([][]int, len(steps))
	order := make([]int, 0, len(steps))
	for i := range needs {
		open[i] = len(needs[i])
		for _, parent := range needs[i] {
			dependents[parent] = append(dependents[parent], i)
		}
		if open[i] == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, child := range dependents[order[at]] {
			if open[child]--; open[child] == 0 {
				order = append(order, child)
			}
		}
	}
	for i := range open {
		if open[i] > 0 {
			return nil, &StepError{i, "Needs", fmt.Errorf("%w: a cycle: %s", ErrDefinition, cycle(steps, needs, open, i))}
		}
	}
	return order, nil
}

// cycle describes a cycle that step i is on or needs.
func cycle(steps []Step, needs [][]int, open []int, i int) string {
	seen, path := map[int]int{}, []int{}
	for {
		if from, again := seen[i]; again {
			text := fmt.Sprintf("%q", steps[i].Name)
			for _, j := range path[from+1:] {
				text += fmt.Sprintf(" needs %q", steps[j].Name)
			}
			return text + fmt.Sprintf(" needs %q", steps[i].Name)
		}
		seen[i] = len(path)
		path = append(path, i)
		for _, parent := range needs[i] {
			if open[parent] > 0 {
				i = parent
				break
			}
		}
	}
}
