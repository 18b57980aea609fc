package console

import (
	"errors"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// attemptsShown is how many attempts a task's page shows, the latest ones.
const attemptsShown = 100

// attemptRow is an attempt of a task's timeline.
type attemptRow struct {
	dbq.Attempt
	Took time.Duration
}

// taskView is the content of a task's page.
type taskView struct {
	taskRow
	Payloads bool          // the user may see payloads, headers, results and the texts of errors
	Why      admin.Verdict // without a cause if the task does not wait
	Lapsed   bool          // its lease has ended, and it waits for another worker
	Attempts []attemptRow
	Cut      int // earlier attempts that are not shown
	Actions  []state.Transition
	Machine  machine
	Line     timeline
	Graph    graph     // of the workflow
	Step     string    // the task's name in its workflow
	Workflow uuid.UUID // zero if it is in none
	Trail    []admin.AuditEntry
}

func (c *Console) taskPage(v *visit) error {
	t, err := v.task(auth.Read)
	if err != nil {
		return err
	}
	page := taskView{taskRow: taskRow{t}, Payloads: v.user.Payloads, Machine: machineOf(t),
		Actions: v.actions(t)}
	now := time.Now()
	if t.State == dbq.StateProcessing { // a lease ends by the database's clock
		if now, err = v.db.client.Now(v.ctx()); err != nil {
			return err
		}
		page.Lapsed = t.LeaseUntil.Before(now)
	}
	if page.Why, err = v.whyTask(t); err != nil {
		return err
	}
	attempts, err := v.db.admin.Attempts(v.ctx(), t.ID)
	if err != nil {
		return err
	}
	attempts = v.sees().Attempts(attempts)
	if page.Cut = max(len(attempts)-attemptsShown, 0); page.Cut > 0 {
		attempts = attempts[page.Cut:]
	}
	for _, a := range attempts {
		page.Attempts = append(page.Attempts, attemptRow{a, a.Ended.Sub(a.Taken)})
	}
	page.Line = timelineOf(t, page.Attempts, now)
	page.Workflow, page.Step, err = workflow.Of(v.ctx(), v.db.client, t.ID)
	if err != nil && !errors.Is(err, dbq.ErrNotFound) {
		return err
	}
	if page.Step != "" {
		w, err := v.stepsAround(t, page.Workflow)
		switch { // a workflow with steps in other queues is not shown to a user of one
		case err == nil:
			page.Graph = graphOf(w, t.ID)
		case !errors.Is(err, dbq.ErrNotFound) && !errors.Is(err, disclosure.ErrPart):
			return err
		}
	}
	if v.may(auth.Administer, t.Queue) {
		f := admin.AuditFilter{TaskID: t.ID, Limit: 50}
		if len(v.user.Queues) > 0 { // the entries of other queues would use the limit up
			f.Queue = t.Queue
		}
		trail, err := v.db.admin.Audit(v.ctx(), f)
		if err != nil {
			return err
		}
		page.Trail = v.sees().Audit(trail.Entries)
	}
	v.show(http.StatusOK, "task", "Task "+shorten(t.ID.String()), page)
	return nil
}

// actions returns the operators' events that the task's state and the user's role allow.
func (v *visit) actions(t dbq.Task) (out []state.Transition) {
	for _, a := range operatorsEvents() {
		if a.Allows(t.State, t.Parked()) && v.may(actionOf(a.Event), t.Queue) {
			out = append(out, a)
		}
	}
	return out
}

// event returns the operators' event of the path.
func (v *visit) event(name string) (state.Transition, error) {
	for _, t := range state.ByOperator() {
		if string(t.Event) == name {
			return t, nil
		}
	}
	return state.Transition{}, errNoPage
}

// confirmPage requests the reason of an event, and a confirmation.
func (c *Console) confirmPage(v *visit) error {
	e, err := v.event(v.r.PathValue("event"))
	if err != nil {
		return err
	}
	t, err := v.task(actionOf(e.Event))
	if err != nil {
		return err
	}
	v.show(http.StatusOK, "confirm", verbs[e.Event].Label+" task "+shorten(t.ID.String()), struct {
		taskRow
		Event state.Transition
	}{taskRow{t}, e})
	return nil
}

// operate applies an event to one task. If the task's state has changed meanwhile, it says so on the task's page.
func (c *Console) operate(v *visit) error {
	e, err := v.event(v.r.PathValue("event"))
	if err != nil {
		return err
	}
	t, err := v.task(actionOf(e.Event))
	to := v.path("task/" + t.ID.String())
	var opts []admin.Option
	if result := v.form("result"); result != "" {
		opts = append(opts, admin.Result([]byte(result)))
	}
	if err == nil {
		err = v.db.admin.Operate(v.ctx(), e.Event, t.ID, opts...)
	}
	switch {
	case errors.Is(err, dbq.ErrWrongState):
		return v.done(to, "Nothing was changed: the task's state no longer allows "+string(e.Event)+".")
	case errors.Is(err, dbq.ErrNotFound):
		return v.done(v.path("tasks", "queue", t.Queue), "Nothing was changed: the task does not exist any more.")
	}
	if err != nil {
		return err
	}
	v.db.changed()
	if e.Event == admin.Purge {
		to = v.path("tasks", "queue", t.Queue)
	}
	return v.done(to, "The task was "+verbs[e.Event].Past+".")
}

// answer is the first line of a page: the answer to its question, and the evidence.
type answer struct {
	Class string // "", good, warn or bad
	Icon  string
	Text  string
	More  string
}

// Answer returns why a task that does not wait is where it is. Of those that wait, it is the verdict: see whyTask.
func (t taskView) Answer() answer {
	now := time.Now()
	attempt := number(t.Attempt) + " of " + number(t.MaxAttempts)
	const stays = "It stays here until someone acts."
	switch {
	case t.Cancelled:
		return answer{"", "x", "An operator has cancelled it.", stays}
	case t.State == dbq.StatePoison && t.Attempt == 0:
		return answer{"bad", "poison", "It will not run.", stays}
	case t.State == dbq.StatePoison:
		return answer{"bad", "poison", "It failed for good at attempt " + attempt + ".", stays}
	case t.State == dbq.StateCompleted:
		return answer{"good", "done", "It is completed.", ""}
	case t.Lapsed:
		return answer{"bad", "dead", "Its worker " + t.Holder + " has let the lease expire.",
			"Another worker takes the task over. The lease ended " + until(t.LeaseUntil, now) + "."}
	case t.State == dbq.StateProcessing:
		return answer{"", "running", "Attempt " + attempt + " runs on worker " + t.Holder + ".",
			"The lease ends " + until(t.LeaseUntil, now) + ", unless the worker renews it."}
	}
	return answer{}
}

// More returns the events of a task's menu: those that have no button of their own.
func (t taskView) More() []state.Transition {
	return keep(t.Actions, func(a state.Transition) bool { return a.Event != state.Reenqueue })
}

// part is a text of a task in a card of its own.
type part struct {
	Name, Title string // Name is that of the file
	content
	Error bool
	Line  string // of an error, by which others with it are found
}

// Parts returns the texts of a task: its error or result and its progress, if there are any, and its payload.
func (t taskView) Parts() (out []part) {
	switch {
	case len(t.Result) == 0:
	case t.State == dbq.StateCompleted:
		out = append(out, part{Name: "result", Title: "Result", content: contentOf(t.Result)})
	default:
		out = append(out, part{Name: "result", Title: "Error", content: contentOf(t.Result), Error: true,
			Line: firstLine(t.Result)})
	}
	if len(t.Progress) > 0 {
		out = append(out, part{Name: "progress", Title: "Progress", content: contentOf(t.Progress)})
	}
	return append(out, part{Name: "payload", Title: "Payload", content: contentOf(t.Payload)})
}

// Waited returns how long a task waited between an attempt of its page and the one before it, or "".
func (t taskView) Waited(i int) string {
	if i == 0 || !t.Attempts[i].Taken.After(t.Attempts[i-1].Ended) {
		return ""
	}
	return took(t.Attempts[i].Taken.Sub(t.Attempts[i-1].Ended))
}

// Share returns how long an attempt took, in percent of the longest one on the page.
func (t taskView) Share(i int) int {
	longest := time.Duration(1)
	for _, a := range t.Attempts {
		longest = max(longest, a.Took)
	}
	return max(int(100*t.Attempts[i].Took.Seconds()/longest.Seconds()), 1)
}
