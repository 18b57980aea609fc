package console

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// Bounds of an action on a selection.
const (
	// previewTo is how far a preview counts, in each state: more would take longer than a page may.
	previewTo = 5_000
	// bulkPart is the number of tasks that change in one transaction. bulkTime limits how long a request continues with
	// the next part. The page then shows the progress and continues.
	bulkPart = 2_000
	bulkTime = 5 * time.Second
)

// bulkView is the page of an action on all tasks that a selection has.
type bulkView struct {
	Selection selection
	Event     state.Transition
	Count     string // of the tasks that would change
	None      bool
	Unsure    bool      // counting stopped because it had looked at enough tasks
	Done      int       // tasks that have changed
	More      bool      // there may be more
	After     uuid.UUID // the last task that was tried
	Reason    string
}

// bulkOf reads the selection and the event of the request, and checks that the user may do it.
func (v *visit) bulkOf() (page bulkView, f admin.Filter, err error) {
	page.Selection = v.selection()
	if page.Selection.searches() {
		return page, f, formError("a filter by a text is for lists only; act on each task, or filter by kind or key")
	}
	if page.Event, err = v.event(v.form("event")); err != nil {
		return page, f, err
	}
	if err = v.need(actionOf(page.Event.Event), page.Selection.Queue); err != nil {
		return page, f, err
	}
	f, err = page.Selection.filter()
	f.NewestFirst = false // it is for lists only
	return page, f, err
}

// bulkPage counts the tasks that an action would change, and requests a confirmation.
func (c *Console) bulkPage(v *visit) error {
	page, f, err := v.bulkOf()
	if err != nil {
		return err
	}
	f.Limit = previewTo
	n, more, err := v.db.admin.CountMovable(v.ctx(), page.Event.Event, f)
	if err != nil {
		return err
	}
	page.None, page.Count = n == 0 && !more, tasks(n)
	switch {
	case n == 0:
		page.Count = "the tasks that match"
	case more:
		page.Count = "at least " + page.Count
	}
	page.Unsure = more && n < previewTo
	v.show(http.StatusOK, "bulk", string(page.Event.Event)+" tasks", page)
	return nil
}

// bulk applies an action part by part, and shows how far it came if there is more.
func (c *Console) bulk(v *visit) error {
	page, f, err := v.bulkOf()
	if err != nil {
		return err
	}
	if page.Done, err = strconv.Atoi("0" + v.form("done")); err != nil {
		return formError("the number of changed tasks is invalid")
	}
	if after := v.form("after"); after != "" {
		if f.After, err = uuid.Parse(after); err != nil {
			return formError("after is not the id of a task")
		}
	}
	page.Reason = v.form("reason")
	begin := time.Now()
	if f.Limit = bulkPart; f.Workflow != uuid.Nil {
		f.Limit = workflow.MaxSteps // as a whole: no step may start because those before it were cancelled
	}
	for page.More = true; page.More && time.Since(begin) < bulkTime; {
		part, err := v.db.admin.OperateMany(v.ctx(), page.Event.Event, f)
		page.Done, page.More = page.Done+part.Changed, part.More
		page.After, f.After = part.Last, part.Last
		if err != nil {
			return fmt.Errorf("%s%s before: %w", changed(page.Done), page.Event.Past, err)
		}
	}
	v.db.changed()
	if page.More {
		v.show(http.StatusOK, "bulk", string(page.Event.Event)+" tasks", page)
		return nil
	}
	list := page.Selection
	return v.done(v.path("tasks", list.fields()...), changed(page.Done)+page.Event.Past+".")
}
