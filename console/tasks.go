package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// pageSize is the number of tasks on a page of a list.
const pageSize = 50

// selection has the values of the form above a list of tasks. The URL of the page has it.
type selection struct {
	Queue, State, Kind, Key, Reference, Workflow, Holder string

	Mark  string // "", "parked", "cancelled" or "not-cancelled"
	Older string // in their state for at least this long, such as 1h
	Newer string // came into their state within this time
	Since string // came into their state then or later, such as 14:00
	Error string // the text of the last error, or the result, contains this
	Alike string // the error is alike, and the kind is exactly Kind: a group of the page of poisoned tasks
	Text  string // the payload contains this
	Order string // "" is newest first, "oldest", or "archive" for the archive, oldest first
}

// fields are the fields of the form with their values, as links and hidden fields carry them.
func (s selection) fields() []string {
	return []string{
		"queue", s.Queue, "state", s.State, "kind", s.Kind, "key", s.Key, "reference", s.Reference,
		"workflow", s.Workflow, "holder", s.Holder,
		"mark", s.Mark, "older", s.Older, "newer", s.Newer, "since", s.Since,
		"error", s.Error, "alike", s.Alike, "payload", s.Text,
	}
}

// filterField is a field of a selection, with its value in the words of the pages.
type filterField struct{ Name, Value, Word string }

// Hidden are the fields that a form repeats for a selection.
func (s selection) Hidden() (out []filterField) {
	fields := s.fields()
	for i := 0; i < len(fields); i += 2 {
		f := filterField{fields[i], fields[i+1], fields[i+1]}
		if st, err := state.Parse(f.Value); f.Name == "state" && err == nil {
			f.Word = stateWord(st)
		}
		if f.Value != "" {
			out = append(out, f)
		}
	}
	return out
}

// Words describes a selection, such as "queue mail, state Poisoned".
func (s selection) Words() string {
	var parts []string
	for _, f := range s.Hidden() {
		parts = append(parts, f.Name+" "+f.Word)
	}
	if len(parts) == 0 {
		return "all tasks"
	}
	return strings.Join(parts, ", ")
}

// selection reads the form of the request.
func (v *visit) selection() selection {
	return selection{
		Queue: v.named("queue"), State: v.form("state"), Kind: v.named("kind"), Key: v.named("key"),
		Reference: v.named("reference"), Workflow: v.form("workflow"), Holder: v.named("holder"),
		Mark: v.form("mark"), Older: v.form("older"), Newer: v.form("newer"), Since: v.form("since"),
		Error: v.form("error"), Alike: v.named("alike"), Text: v.form("payload"), Order: v.form("order"),
	}
}

// filter returns the filter of a selection.
func (s selection) filter() (f admin.Filter, err error) {
	f = admin.Filter{
		Queue: s.Queue, Kind: s.Kind, Key: s.Key, Reference: s.Reference, Holder: s.Holder,
		ParkedOnly: s.Mark == "parked", CancelledOnly: s.Mark == "cancelled",
		NotCancelled: s.Mark == "not-cancelled", NewestFirst: s.Order == "",
	}
	if !slices.Contains([]string{"", "parked", "cancelled", "not-cancelled"}, s.Mark) {
		return f, formError(fmt.Sprintf("%q is no mark; use parked, cancelled or not-cancelled", s.Mark))
	}
	if s.State != "" {
		st, err := state.Parse(s.State)
		if err != nil {
			return f, formError(fmt.Sprintf("%q is not a state", s.State))
		}
		f.States = []dbq.State{st}
	}
	var workflowErr, olderErr, newerErr error
	if s.Workflow != "" {
		f.Workflow, err = uuid.Parse(s.Workflow)
		if err != nil || f.Workflow == uuid.Nil { // which selects all tasks
			workflowErr = fieldError{"workflow", "the workflow is not the id of a workflow"}
		}
	}
	f.InStateFor, olderErr = length("older", s.Older)
	if f.EnteredWithin, newerErr = length("newer", s.Newer); newerErr == nil && s.Newer != "" && f.EnteredWithin == 0 {
		// 0 would select all, as without the field.
		newerErr = fieldError{"newer", formError(label("newer") + ": write a time of more than 0")}
	}
	return f, invalid(workflowErr, olderErr, newerErr)
}

const durationHelp = ": write a time with its unit, such as 90s, 15m, 36h or 7d"

// length reads a field such as 90s, 15m or 36h; empty is 0.
func length(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := duration.Parse(text)
	if err != nil {
		err = fieldError{field, formError(label(field) + durationHelp)}
	}
	return d, err
}

// taskRow is a task of a list.
type taskRow struct{ dbq.Task }

// tasksView is the content of a list of tasks.
type tasksView struct {
	selection
	refusal
	Selection selection
	States    []dbq.State
	Rows      []taskRow
	Looked    int       // tasks that were searched for a text
	Upto      time.Time // of the last task that was looked at, if the page is not full
	Next      string
	First     string
	Events    []state.Transition
	Queues    []queueRow

	Typed      string // filters that cannot be added
	TypedWrong string // why they cannot
}

// tasksPage lists tasks, or shows the filter again if it is invalid.
func (c *Console) tasksPage(v *visit) error {
	s := v.selection()
	page := tasksView{selection: s, Selection: s, States: states}
	status := http.StatusOK
	if text := v.form("q"); text != "" {
		more, err := s.add(text)
		if err == nil { // the address has each filter by its name
			http.Redirect(v.w, v.r, v.path("tasks", append(more.fields(), "order", more.Order)...), http.StatusSeeOther)
			return nil
		}
		page.Typed, page.TypedWrong, status = text, sentence(err.Error())+".", http.StatusUnprocessableEntity
	}
	err := page.fill(v, s)
	again, ok := v.refusal("filter", err)
	if err != nil && !ok {
		return err
	}
	page.refusal = again
	page.Queues = v.lastOverview().Queues
	v.show(max(status, again.status()), "tasks", page.Headline(), page)
	return nil
}

// References reports whether one of the tasks has a reference.
func (page tasksView) References() bool {
	return slices.ContainsFunc(page.Rows, func(r taskRow) bool { return r.Reference != "" })
}

// fill reads the tasks of a selection.
func (page *tasksView) fill(v *visit, s selection) error {
	if err := v.need(auth.Read, s.Queue); err != nil {
		return err
	}
	f, err := s.filter()
	since, sinceErr := v.since("since", s.Since)
	if err = invalid(err, sinceErr); err != nil {
		return err
	}
	f.EnteredSince = since
	if at := v.form("at"); at != "" {
		id, err := uuid.Parse(at)
		if err != nil {
			return errNoPage
		}
		if f.NewestFirst {
			f.Before = id
		} else {
			f.After = id
		}
	}
	read := v.db.admin.List
	if s.Order == "archive" {
		read = v.db.admin.Archived
	}
	if err := v.maySearch(s); err != nil {
		return err
	}
	found, err := s.search(v.ctx(), v.db, f, read, pageSize)
	if err != nil {
		return err
	}
	page.Looked, page.Upto = found.looked, found.upto
	fields := append(s.fields(), "order", s.Order)
	if v.form("at") != "" {
		page.First = v.path("tasks", fields...)
	}
	if found.more {
		page.Next = v.path("tasks", append(fields, "at", found.last.String())...)
	}
	for _, t := range found.tasks {
		page.Rows = append(page.Rows, taskRow{t})
	}
	if s.Order != "archive" {
		page.Events = v.bulkEvents(s.Queue, f.States)
	}
	return nil
}

// bulkEvents returns the operators' events that the user may apply to tasks of a queue in one of some states.
func (v *visit) bulkEvents(queue string, in []dbq.State) (out []state.Transition) {
	for _, t := range operatorsEvents() {
		possible := len(in) == 0 || slices.ContainsFunc(t.FromStates(), func(s state.State) bool {
			return slices.Contains(in, s)
		})
		if possible && v.may(actionOf(t.Event), queue) {
			out = append(out, t)
		}
	}
	return out
}

// Can returns the events of the page that a task of it allows.
func (page tasksView) Can(r taskRow) string {
	var names []string
	for _, e := range page.Events {
		if e.Allows(r.State, r.Parked()) {
			names = append(names, string(e.Event))
		}
	}
	return strings.Join(names, " ")
}

// actionOf returns the action that an event requires of a user.
func actionOf(e state.Event) auth.Action {
	if e == admin.Purge || e == admin.Finish {
		return auth.Delete
	}
	return auth.Operate
}
