package console

import (
	"context"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// stepsShown is how many steps of a workflow a page shows.
const stepsShown = 200

// stepRow is a step of a workflow's page.
type stepRow struct {
	workflow.StepInfo
	Needs []string // the names of the steps that it needs
	Level int      // how many steps are before it in its longest chain, counted from 1
}

// workflowView is the content of a workflow's page.
type workflowView struct {
	workflow.Info
	Rows  []stepRow
	Graph graph
}

// workflow reads the workflow of the path if the user may see all of it.
func (v *visit) workflow() (workflow.Info, error) {
	id, err := v.id()
	if err != nil {
		return workflow.Info{}, err
	}
	w, err := workflow.Get(v.ctx(), v.db.client, id, stepsShown)
	if err != nil {
		return w, err
	}
	return w, v.sees().Workflow(w, stepsShown)
}

// workflowFor is how long the pages of tasks show the other steps of a workflow as they were read.
const workflowFor = 10 * time.Second

// stepsAround returns the workflow of a task, without results, if the user may see all of its queues. Visitors share
// it. It is read again if it has the task in another state than the task's page.
func (v *visit) stepsAround(t dbq.Task, id uuid.UUID) (workflow.Info, error) {
	w, err := v.db.sharedWorkflow(v.ctx(), id)
	if err == nil && !shows(w, t) {
		v.db.workflows.expire(id)
		w, err = v.db.sharedWorkflow(v.ctx(), id)
	}
	if err != nil {
		return w, err
	}
	return w, v.sees().Workflow(w, stepsShown)
}

// sharedWorkflow returns a workflow that visitors share, without the results of its steps: many would take much memory.
func (d *database) sharedWorkflow(ctx context.Context, id uuid.UUID) (workflow.Info, error) {
	return d.workflows.get(ctx, id, func(ctx context.Context) (workflow.Info, error) {
		w, err := workflow.Get(ctx, d.client, id, stepsShown)
		for i := range w.Steps {
			w.Steps[i].Result = nil
		}
		return w, err
	})
}

// shows reports whether a workflow has a step in the state of its task, or does not list it because it is too large.
func shows(w workflow.Info, t dbq.Task) bool {
	for _, s := range w.Steps {
		if s.TaskID == t.ID {
			return s.State == t.State && s.Cancelled == t.Cancelled && (s.WaitsFor > 0) == t.Blocked
		}
	}
	return true
}

func (c *Console) workflowPage(v *visit) error {
	w, err := v.workflow()
	if err != nil {
		return err
	}
	page := workflowView{w, stepsOf(w), graphOf(w, uuid.Nil)}
	v.show(http.StatusOK, "workflow", "Workflow "+shorten(w.ID.String()), page)
	return nil
}

// workflowChange is a change of a workflow as a whole.
type workflowChange struct {
	ID    uuid.UUID
	How   string
	Title string
	Doc   string
	Past  string
	Count string // of the tasks that would change
	None  bool
	apply func(context.Context, *dbq.Client, uuid.UUID, ...admin.Option) (int, error)
}

// workflowChange reads the change of the path. Only a user of all queues may do it, because a page shows only a part
// of a large workflow.
func (v *visit) workflowChange() (workflowChange, error) {
	if err := v.need(auth.Operate, ""); err != nil {
		return workflowChange{}, err
	}
	id, err := v.id()
	if err != nil {
		return workflowChange{}, err
	}
	switch how := v.r.PathValue("how"); how {
	case "cancel":
		return workflowChange{ID: id, How: how, Title: "Cancel", Past: "cancelled", apply: workflow.Cancel,
			Doc: "All tasks of the workflow that have not ended go to POISON, as cancelled."}, nil
	case "retry":
		return workflowChange{ID: id, How: how, Title: "Retry", Past: "made due again", apply: workflow.Retry,
			Doc: "All tasks of the workflow that are in POISON or parked run again, also those that were cancelled."}, nil
	}
	return workflowChange{}, errNoPage
}

// confirmWorkflow counts the tasks that a change of a workflow would change, and requests a confirmation.
func (c *Console) confirmWorkflow(v *visit) error {
	change, err := v.workflowChange()
	if err != nil {
		return err
	}
	n, err := change.apply(v.ctx(), v.db.client, change.ID, admin.DryRun())
	if err != nil {
		return err
	}
	change.Count, change.None = tasks(n), n == 0
	v.show(http.StatusOK, "workflowchange", change.Title+" workflow "+shorten(change.ID.String()), change)
	return nil
}

// changeWorkflow cancels or retries a workflow as a whole.
func (c *Console) changeWorkflow(v *visit) error {
	change, err := v.workflowChange()
	if err != nil {
		return err
	}
	n, err := change.apply(v.ctx(), v.db.client, change.ID)
	if err != nil {
		return err
	}
	v.db.changed()
	return v.done(v.path("workflow/"+change.ID.String()), changed(n)+change.Past+".")
}

// Headline returns how the steps of a workflow stand.
func (w workflowView) Headline() string {
	of := number(len(w.Rows)) + " steps"
	if w.Cut {
		of = "the first " + of
	}
	text := number(w.Done()) + " of " + of + " are completed"
	for _, s := range []dbq.State{dbq.StateProcessing, dbq.StateError, dbq.StatePoison} {
		if n := w.in(s); n > 0 {
			text += ", " + number(n) + " " + stepWords[s]
		}
	}
	return text + "."
}

// Next returns the first steps that wait for nothing but a worker, or are retried: at these the workflow stands.
func (w workflowView) Next() (out []stepRow) {
	const most = 3
	for _, row := range w.Rows {
		waits := row.State == dbq.StateCreated && row.WaitsFor == 0 || row.State == dbq.StateError
		if waits && len(out) < most {
			out = append(out, row)
		}
	}
	return out
}

// Stands says at which step the workflow is.
func (w workflowView) Stands() string {
	for _, s := range []dbq.State{dbq.StatePoison, dbq.StateError, dbq.StateProcessing, dbq.StateCreated} {
		for _, row := range w.Rows {
			if row.State == s && row.WaitsFor == 0 {
				return row.Name + " " + stepWords[s] + " in " + row.Queue
			}
		}
	}
	if w.Done() == len(w.Rows) {
		return "all steps are completed"
	}
	return "no step can start"
}

// MayRetry reports whether a retry of the workflow may find a failed step.
func (w workflowView) MayRetry() bool { return w.Failed()+w.in(dbq.StateError) > 0 || w.Cut }

var stepWords = map[dbq.State]string{
	dbq.StateCreated: "waits", dbq.StateProcessing: "running", dbq.StateError: "failed", dbq.StatePoison: "poisoned",
}

// Done counts the steps that are completed.
func (w workflowView) Done() int { return w.in(dbq.StateCompleted) }

// Failed counts the steps that failed for good.
func (w workflowView) Failed() int { return w.in(dbq.StatePoison) }

// in counts the steps in a state. Those that were removed when they completed are completed.
func (w workflowView) in(s dbq.State) (n int) {
	for _, row := range w.Rows {
		if row.State == s || row.State == state.None && s == dbq.StateCompleted {
			n++
		}
	}
	return n
}
