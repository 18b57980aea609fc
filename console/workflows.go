package console

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// workflowsListed is how many workflows a page lists, and workflowsSearched how many it reads to find those in a state.
const workflowsListed, workflowsSearched = 20, 100

// workflowsView is the content of the list of workflows.
type workflowsView struct {
	State             string // "" is all, or running, failed or completed
	Tabs              []workflowTab
	Workflows         []workflowView
	Searched          int // workflows that were read to find those in the state
	Self, First, Next string
}

// workflowTab is a link to the workflows in a state.
type workflowTab struct {
	look
	State, Link string
	Here        bool
}

// workflowsPage lists workflows, the newest first: those of which the user may see all tasks.
func (c *Console) workflowsPage(v *visit) error {
	state := v.form("state")
	page, before := workflowsView{State: state, Self: v.path("workflows", "state", state, "at", v.form("at"))}, uuid.Max
	for _, tab := range []workflowTab{
		{look: look{Class: "running", Icon: "running", Text: "Running"}, State: "running"},
		{look: look{Class: "poison", Icon: "poison", Text: "Failed"}, State: "failed"},
		{look: look{Class: "done", Icon: "done", Text: "Completed"}, State: "completed"},
	} {
		tab.Link, tab.Here = v.path("workflows", "state", tab.State), state == tab.State
		page.Tabs = append(page.Tabs, tab)
	}
	if state != "" && !slices.ContainsFunc(page.Tabs, func(tab workflowTab) bool { return tab.Here }) {
		return formError("state must be running, failed or completed")
	}
	if at := v.form("at"); at != "" {
		var err error
		if before, err = uuid.Parse(at); err != nil {
			return errNoPage
		}
		page.First = v.path("workflows", "state", state)
	}
	most := workflowsListed
	if state != "" {
		most = workflowsSearched
	}
	ids, err := workflow.List(v.ctx(), v.db.client, before, most+1)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if i == most || len(page.Workflows) == workflowsListed {
			page.Next = v.path("workflows", "state", state, "at", ids[i-1].String())
			break
		}
		page.Searched++
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
		if one := (workflowView{Info: w, Rows: stepsOf(w)}); state == "" || one.State() == state {
			page.Workflows = append(page.Workflows, one)
		}
	}
	v.show(http.StatusOK, "workflows", "Workflows", page)
	return nil
}

// State is failed if a step has failed for good, completed if all are completed, and otherwise running.
func (w workflowView) State() string {
	switch {
	case w.Failed() > 0:
		return "failed"
	case w.Done() == len(w.Rows) && !w.Cut:
		return "completed"
	}
	return "running"
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
