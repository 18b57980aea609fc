package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// Bounds of an action on a selection.
const (
	// previewTo is how far a preview counts, in each state: more would take longer than a page may. previewTime is how
	// long it compares texts.
	previewTo   = 5_000
	previewTime = 2 * time.Second
	// bulkPart is the number of tasks that change in one transaction. bulkTime limits how long a request continues with
	// the next part. The page then shows the progress and continues.
	bulkPart = 2_000
	bulkTime = 5 * time.Second
)

// bulkView is the page of an action on all tasks that a selection has, or on those that were chosen in its list.
type bulkView struct {
	Selection selection
	Chosen    []uuid.UUID
	Event     state.Transition
	Count     string // of the tasks that would change
	None      bool
	Unsure    bool      // counting stopped because it had looked at enough tasks
	Searched  int       // tasks whose texts were compared
	Done      int       // tasks that have changed
	More      bool      // there may be more
	After     uuid.UUID // the last task that was tried
	Reason    string
	Sample    []dbq.Task // some of the tasks that would change
	Type      int        // the number that confirms that many tasks are deleted, or 0
}

// sampleSize is how many tasks a preview shows, and typeFrom the number from which a person types how many are deleted.
const sampleSize, typeFrom = 5, 101

// show adds tasks that the event may change to those that the preview shows.
func (page *bulkView) show(tasks []dbq.Task) {
	for _, t := range tasks {
		if len(page.Sample) < sampleSize && page.Event.Allows(t.State, t.Parked()) {
			page.Sample = append(page.Sample, t)
		}
	}
}

// bulkOf reads the selection and the event of the request, and checks that the user may do it. The selection gets its
// time as it is now: a preview and the parts of the action, which come later, have the same.
func (v *visit) bulkOf() (page bulkView, f admin.Filter, err error) {
	page.Selection = v.selection()
	if page.Event, err = v.event(v.form("event")); err != nil {
		return page, f, err
	}
	if err = v.need(actionOf(page.Event.Event), page.Selection.Queue); err != nil {
		return page, f, err
	}
	if err = v.maySearch(page.Selection); err != nil {
		return page, f, err
	}
	f, err = page.Selection.filter()
	since, sinceErr := v.since("since", page.Selection.Since)
	if err = invalid(err, sinceErr); err != nil {
		return page, f, err
	}
	f.EnteredSince = since
	page.Selection.Since = typedTime(f.EnteredSince)
	f.NewestFirst = false // it is for lists only
	if page.Chosen, err = v.chosenTasks(); err != nil || len(page.Chosen) > 0 {
		return page, f, err
	}
	// A cancelled task is no failure: Admin.OperateMany changes it only if the filter selects cancelled tasks.
	spares := page.Event.Event == admin.Reenqueue || page.Event.Event == admin.Finish
	f.NotCancelled = f.NotCancelled || spares && !f.CancelledOnly
	return page, f, nil
}

// chosenTasks returns the tasks of a list that the form names.
func (v *visit) chosenTasks() (ids []uuid.UUID, err error) {
	for _, text := range v.r.Form["task"] {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, formError("a chosen task has no id")
		}
		ids = append(ids, id)
	}
	if len(ids) > pageSize {
		return nil, formError("choose at most " + tasks(pageSize))
	}
	return ids, nil
}

// movable returns the chosen tasks whose state allows the event. The user must be allowed to apply it to their queues:
// anyone can write the ids of other tasks.
func (v *visit) movable(page *bulkView) (ids []uuid.UUID, err error) {
	rows, err := access.Of(v.db.client).Store.RowsOf(v.ctx(), page.Chosen)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if !v.may(auth.Read, r.Queue) { // it does not exist for this user
			continue
		}
		if err := v.need(actionOf(page.Event.Event), r.Queue); err != nil {
			return nil, err
		}
		if page.Event.Allows(r.State, r.Due == nil) {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// bulkPage counts the tasks that an action would change, and requests a confirmation.
func (c *Console) bulkPage(v *visit) error {
	page, f, err := v.bulkOf()
	if err != nil {
		return err
	}
	n, more := 0, false
	if len(page.Chosen) > 0 {
		var ids []uuid.UUID
		ids, err = v.movable(&page)
		n = len(ids)
	} else if page.Selection.searches() {
		n, more, err = v.countFound(&page, f)
		page.Unsure = more
	} else {
		f.Limit = previewTo
		n, more, err = v.db.admin.CountMovable(v.ctx(), page.Event.Event, f)
		page.Unsure = more && n < previewTo
		if n > 0 && err == nil {
			err = v.sample(&page, f)
		}
	}
	if err != nil {
		return err
	}
	page.None, page.Count = n == 0 && !more, tasks(n)
	if page.Event.To == state.None && n >= typeFrom {
		page.Type = n
	}
	switch {
	case n == 0:
		page.Count = "the tasks that match"
	case more:
		page.Count = "at least " + page.Count
	}
	v.show(http.StatusOK, "bulk", verbs[page.Event.Event].Label+" tasks", page)
	return nil
}

// sample reads some of the tasks of a selection that an action would change.
func (v *visit) sample(page *bulkView, f admin.Filter) error {
	f.States = keep(page.Event.FromStates(), func(s state.State) bool {
		return len(f.States) == 0 || slices.Contains(f.States, s)
	})
	f.Limit = sampleSize
	found, err := v.db.admin.List(v.ctx(), f)
	page.show(found.Tasks)
	return err
}

// findMovable searches the next tasks of a selection by a text for those that the event may change. The next call
// continues after the last of them.
func (v *visit) findMovable(page *bulkView, f *admin.Filter) (ids []uuid.UUID, more bool, err error) {
	found, err := page.Selection.search(v.ctx(), v.db, *f, v.db.admin.List, searchRows)
	if err != nil {
		return nil, false, err
	}
	for _, t := range found.tasks {
		if page.Event.Allows(t.State, t.Parked()) {
			ids = append(ids, t.ID)
		}
	}
	page.show(found.tasks)
	page.Searched += found.looked
	if found.more {
		page.After, f.After = found.last, found.last
	}
	return ids, found.more, nil
}

// countFound counts the tasks that an action on a search would change, until it has searched enough.
func (v *visit) countFound(page *bulkView, f admin.Filter) (n int, more bool, err error) {
	begin := time.Now()
	for more = true; more && page.Searched < previewTo && time.Since(begin) < previewTime; {
		var ids []uuid.UUID
		if ids, more, err = v.findMovable(page, &f); err != nil {
			return n, more, err
		}
		n += len(ids)
	}
	return n, more, nil
}

// bulk applies an action part by part, and shows how far it came if there is more.
func (c *Console) bulk(v *visit) error {
	page, f, err := v.bulkOf()
	if err != nil {
		return err
	}
	for field, to := range map[string]*int{"done": &page.Done, "searched": &page.Searched} {
		if *to, err = strconv.Atoi("0" + v.form(field)); err != nil {
			return formError("the number of changed tasks is invalid")
		}
	}
	if after := v.form("after"); after != "" {
		if f.After, err = uuid.Parse(after); err != nil {
			return formError("after is not the id of a task")
		}
	}
	if strings.ReplaceAll(v.form("typed"), ",", "") != v.form("count") {
		return formError("Type the number of tasks, which confirms that they are deleted")
	}
	page.Reason = v.form("reason")
	part := v.changePart
	if len(page.Chosen) > 0 {
		part = v.changeChosen
	} else if page.Selection.searches() {
		part = v.changeFound
	} else if f.Limit = bulkPart; f.Workflow != uuid.Nil {
		f.Limit = workflow.MaxSteps // as a whole: no step may start because those before it were cancelled
	}
	begin := time.Now()
	for page.More = true; page.More && time.Since(begin) < bulkTime; {
		if err := part(&page, &f); err != nil {
			return fmt.Errorf("%s%s before: %w", changed(page.Done), verbs[page.Event.Event].Past, err)
		}
	}
	v.db.changed()
	if page.More {
		v.show(http.StatusOK, "bulk", verbs[page.Event.Event].Label+" tasks", page)
		return nil
	}
	to := v.path("tasks", page.Selection.fields()...)
	if s := page.Selection; s.Alike != "" && len(page.Chosen) == 0 { // of which nothing is left
		to = v.path("poison", "queue", s.Queue, "since", s.Since)
	}
	return v.done(to, changed(page.Done)+verbs[page.Event.Event].Past+".")
}

// changePart applies an action to the next part of a selection.
func (v *visit) changePart(page *bulkView, f *admin.Filter) error {
	part, err := v.db.admin.OperateMany(v.ctx(), page.Event.Event, *f)
	page.Done, page.More = page.Done+part.Changed, part.More
	page.After, f.After = part.Last, part.Last
	return err
}

// changeChosen applies an action to the chosen tasks.
func (v *visit) changeChosen(page *bulkView, f *admin.Filter) error {
	page.More = false
	ids, err := v.movable(page)
	if err != nil || len(ids) == 0 {
		return err
	}
	n, err := v.db.admin.OperateChosen(v.ctx(), page.Event.Event, ids, *f)
	page.Done += n
	return err
}

// changeFound applies an action to what a search finds among the next tasks.
func (v *visit) changeFound(page *bulkView, f *admin.Filter) error {
	selected := *f
	ids, more, err := v.findMovable(page, f)
	if err != nil {
		return err
	}
	if page.More = more; len(ids) == 0 {
		return nil
	}
	n, err := v.db.admin.OperateChosen(v.ctx(), page.Event.Event, ids, selected)
	page.Done += n
	return err
}
