// Package workflow enqueues tasks that need others, as one graph in one transaction.
//
//	w, err := workflow.Enqueue(ctx, client, []workflow.Step{
//		{Name: "charge", Queue: orders, Task: dbq.NewTask{Kind: "charge"}},
//		{Name: "pack", Queue: orders, Task: dbq.NewTask{Kind: "pack"}},
//		{Name: "ship", Queue: orders, Task: dbq.NewTask{Kind: "ship"}, Needs: []string{"charge", "pack"}},
//	})
//
// A task becomes due once all that it needs are completed. Its handler reads their results with Needs. Get reads a
// workflow and draws it, Cancel and Retry change it as a whole.
//
// The tasks are tasks like any other, in one or several queues of one database, with attempts, backoff and history of
// their own. A workflow is not replayed, and its steps never change.
package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// Limits of a workflow.
const (
	MaxName  = 200             // characters in a step's name
	MaxSteps = limits.MaxSteps // of a workflow
	MaxNeeds = 1_000_000       // of all steps together
)

// ErrInvalid is returned if the steps contain a cycle, a need that names no step, or a duplicate name. It
// matches dbq.ErrInvalid too. Other errors are those of package dbq.
var ErrInvalid error = &errs.InvalidError{Text: "invalid workflow"}

// OnFailure is what happens to a step when a task that it needs goes to POISON, by its attempts or by an operator.
type OnFailure int

// The values of OnFailure.
const (
	// CancelStep cancels the step, and in turn those that need it.
	CancelStep OnFailure = store.OnFailureCancel
	// WaitStep lets the step wait until an operator has reenqueued the failed task and it is completed.
	WaitStep OnFailure = store.OnFailureWait
	// IgnoreFailure lets the step run as if the failed task were completed. Needs shows it the failure.
	IgnoreFailure OnFailure = store.OnFailureIgnore
)

// Step is a task of a workflow.
type Step struct {
	// Name is unique in the workflow. It has 1 to MaxName characters.
	Name string
	// Queue is the task's queue. All queues of a workflow are of one client.
	Queue *dbq.Queue
	// Task is the task. For a step with Needs, Delay counts from the end of the last of them, and RunAt is the earliest
	// start. ID and Unique must be zero. If a Reference is taken, no task of the workflow is added.
	Task dbq.NewTask
	// Needs are the names of the steps that must be completed before this one. They may come later in the slice.
	Needs []string
	// OnFailure is what happens when one of Needs fails. The zero value cancels the step.
	OnFailure OnFailure
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
	ID    uuid.UUID   // the workflow's
	Tasks []uuid.UUID // their ids, in the order of the steps
}

// Enqueue adds the tasks of a workflow, all or none, in one transaction. If it returns no error, they are committed.
//
// Invalid steps are ErrInvalid. A reference that is taken is dbq.ErrDuplicate, with the existing task in
// dbq.Error. ErrMayHaveHappened means that the answer was lost: either all or none were added.
func Enqueue(ctx context.Context, c *dbq.Client, steps []Step) (Enqueued, error) {
	return enqueue(ctx, c, steps, func(parts *core.Core, g *store.NewGraph) (uuid.UUID, error) {
		return parts.Store.InsertGraph(ctx, g)
	}, (*wake.Waker).Wake)
}

// EnqueueTx is Enqueue in the caller's transaction: the tasks exist once it commits. If it returns an error, roll back.
// Workers are woken as by dbq.Queue.EnqueueManyTx.
func EnqueueTx(ctx context.Context, tx dbq.Tx, c *dbq.Client, steps []Step) (Enqueued, error) {
	return enqueue(ctx, c, steps, func(parts *core.Core, g *store.NewGraph) (uuid.UUID, error) {
		return parts.Store.InsertGraphTx(ctx, tx, g)
	}, (*wake.Waker).WakeAfterCommit)
}

func enqueue(ctx context.Context, c *dbq.Client, steps []Step,
	insert func(*core.Core, *store.NewGraph) (duplicate uuid.UUID, err error),
	wakeUp func(*wake.Waker, string, wake.Due)) (out Enqueued, err error) {
	parts := access.Of(c)
	defer func(start time.Time) { parts.Observe("workflow", "", len(steps), start, err) }(time.Now())
	g, order, err := newGraph(ctx, c, steps)
	if err != nil {
		return Enqueued{}, parts.Wrap("workflow", "", uuid.Nil, err)
	}
	duplicate, err := insert(parts, g)
	if err != nil {
		return Enqueued{}, parts.Wrap("workflow", "", duplicate, err)
	}
	out = Enqueued{ID: g.ID, Tasks: make([]uuid.UUID, len(steps))}
	due := map[string]wake.Due{}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		out.Tasks[order[i]] = t.ID
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
	return out, nil
}

// newGraph checks the steps. order has the index in steps of each task.
func newGraph(ctx context.Context, c *dbq.Client, steps []Step) (g *store.NewGraph, order []int, err error) {
	if err := limits.Range("the number of steps", len(steps), 1, MaxSteps, ErrInvalid); err != nil {
		return nil, nil, err
	}
	needs, err := indexNeeds(steps)
	if err != nil {
		return nil, nil, err
	}
	if order, err = sorted(steps, needs); err != nil {
		return nil, nil, err
	}
	g = &store.NewGraph{ID: dbq.NewID(), Tasks: make([]store.NewGraphTask, len(steps))}
	place := make([]int, len(steps)) // of each step in order
	for at, i := range order {
		place[i] = at
		s := &steps[i]
		if err := s.check(c); err != nil {
			return nil, nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		rows, err := access.NewRows(ctx, s.Queue, []dbq.NewTask{s.Task})
		if err != nil {
			return nil, nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		t := store.NewGraphTask{InsertRow: rows[0], Queue: s.Queue.Name(), Name: s.Name, OnFailure: int(s.OnFailure)}
		for _, parent := range needs[i] {
			t.Needs = append(t.Needs, place[parent])
		}
		g.Tasks[at] = t
	}
	g.SetIDs()
	return g, order, nil
}

// check refuses what only plain tasks can have.
func (s *Step) check(c *dbq.Client) error {
	switch {
	case s.Queue == nil:
		return fmt.Errorf("%w: it has no Queue", ErrInvalid)
	case s.Queue.Client() != c:
		return fmt.Errorf("%w: its Queue belongs to another client", ErrInvalid)
	case s.Task.ID != uuid.Nil || s.Task.Unique != nil:
		return fmt.Errorf("%w: its Task has an ID or is Unique; give it a Reference instead", ErrInvalid)
	}
	return limits.Range("OnFailure", s.OnFailure, CancelStep, IgnoreFailure, ErrInvalid)
}

// indexNeeds returns the indexes of the steps that each step needs.
func indexNeeds(steps []Step) ([][]int, error) {
	index := make(map[string]int, len(steps))
	for i := range steps {
		name := steps[i].Name
		if err := limits.Text(name, 1, MaxName, ErrInvalid, "name of a step"); err != nil {
			return nil, err
		}
		if _, twice := index[name]; twice {
			return nil, fmt.Errorf("%w: two steps have the name %q", ErrInvalid, name)
		}
		index[name] = i
	}
	needs, total := make([][]int, len(steps)), 0
	last := make([]int, len(steps)) // the step, plus one, that was the last to need each step
	for i := range steps {
		for _, name := range steps[i].Needs {
			parent, ok := index[name]
			switch {
			case !ok:
				return nil, fmt.Errorf("%w: step %q needs %q, but no step has that name", ErrInvalid, steps[i].Name, name)
			case parent == i:
				return nil, fmt.Errorf("%w: step %q needs itself", ErrInvalid, name)
			case last[parent] == i+1:
				return nil, fmt.Errorf("%w: step %q needs %q twice", ErrInvalid, steps[i].Name, name)
			}
			last[parent] = i + 1
			needs[i] = append(needs[i], parent)
		}
		if total += len(needs[i]); total > MaxNeeds {
			return nil, fmt.Errorf("%w: more than %d needs", ErrInvalid, MaxNeeds)
		}
	}
	return needs, nil
}

// sorted returns the indexes of the steps in an order in which each comes after what it needs, and otherwise in the
// given order.
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
			return nil, fmt.Errorf("%w: a cycle: %s", ErrInvalid, cycle(steps, needs, open, i))
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
