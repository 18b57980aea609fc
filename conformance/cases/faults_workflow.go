package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// workflowCalls are the enqueue of a workflow, and an operator's end of a leased task that another one needs.
func workflowCalls() []faultCall {
	return []faultCall{
		{name: "EnqueueWorkflow", call: callEnqueueWorkflow, did: didEnqueueWorkflow, after: afterEnqueueWorkflow,
			once: true},
		{name: "Cancel", prepare: prepareStep, did: didCancel, after: afterCancel,
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return admin.New(q.Client()).Operate(ctx, admin.Cancel, s.tasks[0].ID)
			}},
	}
}

// fourSteps are a workflow whose first step has a reference.
func fourSteps(q *dbq.Queue) []workflow.Step {
	ss := stepsOf(q, []string{"a"}, []string{"b", "a"}, []string{"c", "a"}, []string{"d", "b", "c"})
	ss[0].Task.Reference = "first"
	return ss
}

func callEnqueueWorkflow(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	w, err := workflow.Enqueue(ctx, q.Client(), fourSteps(q))
	s.ids = w.Tasks
	return err
}

func didEnqueueWorkflow(in []dbq.Task, s *faultRun) (bool, string) {
	if len(in) != 0 && len(in) != 4 {
		return true, fmt.Sprintf("of 4 steps %d are there", len(in))
	}
	if s.err == nil {
		for _, task := range in {
			if !slices.Contains(s.ids, task.ID) {
				return true, fmt.Sprintf("it answered the ids %v, and task %s is there", s.ids, task.ID)
			}
		}
	}
	return len(in) > 0, ""
}

// afterEnqueueWorkflow makes the enqueue again, which must add the workflow or find all of it there, and runs its
// steps.
func afterEnqueueWorkflow(t *test, direct *dbq.Client, s *faultRun) {
	q := direct.Queue(s.queue)
	_, err := workflow.Enqueue(t.ctx, direct, fourSteps(q))
	if e := (*dbq.Error)(nil); errors.Is(err, dbq.ErrDuplicate) && errors.As(err, &e) {
		id, _, err := workflow.Of(t.ctx, direct, e.Task)
		t.must(err)
		info, err := workflow.Get(t.ctx, direct, id, workflow.MaxSteps)
		if t.must(err); len(info.Steps) != 4 || len(info.Needs) != 4 {
			t.Fatalf("%s: the workflow has %d steps and %d needs, want 4 of each", s.queue, len(info.Steps), len(info.Needs))
		}
	} else if err != nil {
		t.Fatalf("%s: the workflow cannot be enqueued again: %v (the call answered %v)", s.queue, err, s.err)
	}
	for _, n := range []int{1, 2, 1} {
		for _, task := range t.takeDue(fmt.Sprintf("%s: %d steps are due", s.queue, n), q, n) {
			t.must(q.Complete(t.ctx, task.Lease, nil))
		}
	}
	in := t.list(direct, admin.Filter{Queue: s.queue, States: []dbq.State{dbq.StateCompleted}})
	if all := t.count(direct, s.queue); len(in) != 4 || all != 4 {
		t.Errorf("%s: %d of %d tasks are COMPLETED, want 4 of 4", s.queue, len(in), all)
	}
}

// prepareStep enqueues a workflow of two steps, and leases the first.
func prepareStep(t *test, q *dbq.Queue, s *faultRun) {
	t.enqueueSteps(q.Client(), stepsOf(q, []string{"a"}, []string{"b", "a"}))
	s.tasks = []dbq.Task{t.take(q, long)}
}

// second returns the task that needs the first.
func second(in []dbq.Task, s *faultRun) dbq.Task {
	return in[slices.IndexFunc(in, func(task dbq.Task) bool { return task.ID != s.tasks[0].ID })]
}

func didCancel(in []dbq.Task, s *faultRun) (bool, string) {
	did, wrong := movedState(state.Processing, state.Poison)(in, s)
	if b := second(in, s); wrong == "" && b.State != state.Created && (!did || b.State != state.Poison) {
		wrong = fmt.Sprintf("what needs the task is %v; was it cancelled: %v", b.State, did)
	}
	return did, wrong
}

// afterCancel wants the step that needs the task to be cancelled with it, or to run after it.
func afterCancel(t *test, direct *dbq.Client, s *faultRun) {
	q, id := direct.Queue(s.queue), s.tasks[0].ID
	outcome := dbq.AttemptCancelled
	if err := q.Complete(t.ctx, s.tasks[0].Lease, nil); !errors.Is(err, dbq.ErrLeaseLost) {
		outcome = dbq.AttemptCompleted
		t.must(err)
		t.must(q.Complete(t.ctx, t.takeDue(s.queue+": the next step is due", q, 1)[0].Lease, nil))
	} else {
		t.eventually(s.queue+": what needs the cancelled task is cancelled", func() bool {
			t.must(workflow.Resume(t.ctx, direct))
			b := second(t.list(direct, admin.Filter{Queue: s.queue}), s)
			return b.State == state.Poison && b.Cancelled
		})
	}
	as, err := admin.New(direct).Attempts(t.ctx, id)
	if t.must(err); len(as) != 1 || as[0].Outcome != outcome {
		t.Errorf("%s: the attempts of the task are %+v, want one that was %v", s.queue, as, outcome)
	}
}

// wantAllOrNone checks that a workflow whose enqueue answered with err is there or not, as that says.
func (t *test) wantAllOrNone(direct *dbq.Client, queue string, ids []uuid.UUID, err error) {
	s := &faultRun{queue: queue, ids: ids, err: err}
	did, wrong := didEnqueueWorkflow(t.list(direct, admin.Filter{Queue: queue}), s)
	switch {
	case wrong != "":
		t.Errorf("%s: %s (it answered %v)", queue, wrong, err)
	case err == nil && !did:
		t.Errorf("%s: it answered that the workflow was added, and it was not", queue)
	case err != nil && did && !errors.Is(err, dbq.ErrMayHaveHappened):
		t.Errorf("%s: the workflow was added, although the error means that it was not: %v", queue, err)
	}
	afterEnqueueWorkflow(t, direct, s)
}
