package console

import (
	"net/http"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
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

// workflow reads the workflow of the path if the user may apply an action to all of its queues.
func (v *visit) workflow(a auth.Action) (workflow.Info, error) {
	id, err := v.id()
	if err != nil {
		return workflow.Info{}, err
	}
	return v.steps(id, a)
}

// steps reads a workflow if the user may apply an action to all of its queues.
func (v *visit) steps(id uuid.UUID, a auth.Action) (workflow.Info, error) {
	w, err := workflow.Get(v.ctx(), v.db.client, id, stepsShown)
	if err != nil {
		return w, err
	}
	for _, s := range w.Steps {
		if !v.may(auth.Read, s.Queue) {
			return w, dbq.ErrNotFound
		}
		if err := v.need(a, s.Queue); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (c *Console) workflowPage(v *visit) error {
	w, err := v.workflow(auth.Read)
	if err != nil {
		return err
	}
	page := struct {
		workflow.Info
		Rows  []stepRow
		Graph graph
	}{w, stepsOf(w), graphOf(w, uuid.Nil)}
	v.show(http.StatusOK, "workflow", "Workflow "+shorten(w.ID.String()), page)
	return nil
}

// changeWorkflow cancels or retries a workflow as a whole. Only a user of all queues may do that, because a page shows
// only a part of a large one.
func (c *Console) changeWorkflow(v *visit) error {
	if err := v.need(auth.Operate, ""); err != nil {
		return err
	}
	id, err := v.id()
	if err != nil {
		return err
	}
	change, past := workflow.Cancel, "cancelled"
	switch v.r.PathValue("how") {
	case "cancel":
	case "retry":
		change, past = workflow.Retry, "reenqueued"
	default:
		return errNoPage
	}
	n, err := change(v.ctx(), v.db.client, id, v.changes()...)
	if err != nil {
		return err
	}
	v.db.overview.expire()
	return v.done(v.path("workflow/"+id.String()), changed(n)+past+".")
}
