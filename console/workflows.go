package console

import (
	"errors"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// workflowsListed is how many workflows a page lists.
const workflowsListed = 20

// workflowsView is the content of the list of workflows.
type workflowsView struct {
	Workflows         []workflowView
	Self, First, Next string
}

// workflowsPage lists workflows, the newest first: those of which the user may see all tasks.
func (c *Console) workflowsPage(v *visit) error {
	page, before := workflowsView{Self: v.path("workflows", "at", v.form("at"))}, uuid.Max
	if at := v.form("at"); at != "" {
		var err error
		if before, err = uuid.Parse(at); err != nil {
			return errNoPage
		}
		page.First = v.path("workflows")
	}
	ids, err := workflow.List(v.ctx(), v.db.client, before, workflowsListed+1)
	if err != nil {
		return err
	}
	if len(ids) > workflowsListed {
		ids = ids[:workflowsListed]
		page.Next = v.path("workflows", "at", ids[workflowsListed-1].String())
	}
	for _, id := range ids {
		w, err := v.db.sharedWorkflow(v.ctx(), id)
		if err == nil {
			err = v.sees().Workflow(w, stepsShown)
		}
		if errors.Is(err, dbq.ErrNotFound) || errors.Is(err, disclosure.ErrPart) { // or it was removed meanwhile
			continue
		}
		if err != nil {
			return err
		}
		page.Workflows = append(page.Workflows, workflowView{Info: w, Rows: stepsOf(w)})
	}
	v.show(http.StatusOK, "workflows", "Workflows", page)
	return nil
}

// Name is that of its first step, with the number of the others.
func (w workflowView) Name() string {
	switch name, n := w.Rows[0].Name, len(w.Rows)-1; {
	case w.Cut:
		return name + " and more than " + number(n) + " other steps"
	case n == 0:
		return name
	case n == 1:
		return name + " and 1 other step"
	default:
		return name + " and " + number(n) + " other steps"
	}
}

// Enqueued returns the time of a workflow, which its id has.
func (w workflowView) Enqueued() time.Time { return store.TimeOf(w.ID) }
