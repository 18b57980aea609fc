package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// look is how pages show a state: a word, an icon and a color, never a color alone.
type look struct {
	Class string // of the style sheet
	Icon  string
	Text  string
	Title string // the state's own name
}

// looks has the look of each state. Tasks in it may have another one; see lookOf.
var looks = map[dbq.State]look{
	dbq.StateCreated:    {"waiting", "waiting", "Waiting", "State CREATED"},
	dbq.StateProcessing: {"running", "running", "Running", "State PROCESSING"},
	dbq.StateCompleted:  {"done", "done", "Completed", "State COMPLETED"},
	dbq.StateError:      {"retry", "retry", "Retrying", "State ERROR"},
	dbq.StatePoison:     {"poison", "poison", "Poisoned", "State POISON"},
}

var (
	parkedLook    = look{"park", "park", "Parked", "State ERROR, parked: it waits until someone acts"}
	cancelledLook = look{"waiting", "x", "Cancelled", "State POISON, cancelled"}
	blockedLook   = look{"waiting", "todo", "Blocked", "State CREATED, blocked: it waits for other steps"}
)

// lookOf returns the look of a task.
func lookOf(t dbq.Task) look {
	switch {
	case t.Cancelled:
		return cancelledLook
	case t.Parked():
		return parkedLook
	case t.Blocked:
		return blockedLook
	}
	return looks[t.State]
}

// Look returns the look of a step. Whether a failed step is parked is not known.
func (s stepRow) Look() look {
	l := looks[s.State]
	switch {
	case s.State == state.None:
		l = looks[dbq.StateCompleted]
		l.Title += ", and removed"
	case s.Cancelled:
		l = cancelledLook
	case s.WaitsFor > 0:
		l = blockedLook
		l.Text = "Waits for " + number(s.WaitsFor)
	case s.State == dbq.StateError:
		l.Text = "Failed"
	}
	return l
}

// outcomeLook returns the look of an attempt that has ended.
func outcomeLook(o dbq.AttemptOutcome) look {
	l := look{Class: "waiting", Icon: "info", Text: sentence(string(o)), Title: "Outcome " + string(o)}
	switch o {
	case dbq.AttemptCompleted:
		l.Class, l.Icon = "done", "done"
	case dbq.AttemptFailed:
		l.Class, l.Icon = "retry", "retry"
	case dbq.AttemptPoisoned:
		l.Class, l.Icon = "poison", "poison"
	case dbq.AttemptCrashed:
		l.Class, l.Icon = "poison", "dead"
	case dbq.AttemptRevoked:
		l.Class, l.Icon = "park", "park"
	case dbq.AttemptCancelled:
		l.Icon = "x"
	}
	return l
}

// verb is the word of the pages for an operator's event, whose own name is a hint beside it.
type verb struct {
	Label string // of a button for tasks of one state
	Many  string // of a button for tasks of all states
	Past  string // the participle of a message
	Icon  string
}

var verbs = map[state.Event]verb{
	state.Reenqueue:  {"Retry", "Retry", "made due again", "retry"},
	state.Cancel:     {"Cancel", "Cancel", "cancelled", "x"},
	state.Reject:     {"Park", "Park the waiting", "parked", "park"},
	state.Revoke:     {"Park", "Park the running", "parked", "park"},
	state.Restore:    {"Park", "Park the poisoned", "parked", "park"},
	state.Quarantine: {"Stop retrying", "Stop retrying", "moved to Poisoned", "poison"},
	state.Purge:      {"Delete", "Delete", "deleted", "trash"},
}

// Small returns the label within a sentence.
func (v verb) Small() string { return strings.ToLower(v.Label) }

// answer is the first line of a page: the answer to its question, and the evidence.
type answer struct {
	Class string // "", good, warn or bad
	Icon  string
	Text  string
	More  string
}

// Answer returns why a task is where it is.
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
	case t.Parked():
		return answer{"warn", "park", "It is parked, and is not retried.", stays}
	case t.State == dbq.StateError:
		return answer{"warn", "retry", "Attempt " + attempt + " failed.", "The next one is due " + until(t.Due, now) + "."}
	case t.State == dbq.StateCompleted:
		return answer{"good", "done", "It is completed.", ""}
	case t.Lapsed:
		return answer{"bad", "dead", "Its worker " + t.Holder + " has let the lease expire.",
			"Another worker takes the task over. The lease ended " + until(t.LeaseUntil, now) + "."}
	case t.State == dbq.StateProcessing:
		return answer{"", "running", "Attempt " + attempt + " runs on worker " + t.Holder + ".",
			"The lease ends " + until(t.LeaseUntil, now) + ", unless the worker renews it."}
	case t.Blocked:
		return answer{"", "todo", "It waits for other steps of its workflow.", ""}
	case t.Due.After(now):
		return answer{"", "clock", "It is not due yet.", "It is due " + until(t.Due, now) + "."}
	}
	return answer{"", "waiting", "It is due, and waits for a worker.", ""}
}

// More returns the events of a task's menu: those that have no button of their own.
func (t taskView) More() []state.Transition {
	return slices.DeleteFunc(slices.Clone(t.Actions), func(a state.Transition) bool {
		return a.Event == state.Reenqueue || a.Event == state.Purge
	})
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

// until writes how far away a time is.
func until(t, now time.Time) string { return clock{now: now}.relative(t) }

// findingKind is how a finding looks, and the button that leads to its remedy.
type findingKind struct {
	Icon, Class, Button string

	Problem bool // otherwise it is a notice

	Many string // how a finding of several says the same
	All  string // the page that lists them, below that of the database
}

var (
	queuePaused = findingKind{"pause", "park", "See the queue", false, "queues are paused", "#queues"}
	queueIdle   = findingKind{"dead", "poison", "See its tasks", true, "queues have due tasks and no worker",
		"#queues"}
	queueLimited = findingKind{"gauge", "retry", "See the queue", false, "queues wait for their rates", "#queues"}
	queueLate    = findingKind{"clock", "retry", "See the queue", true, "queues have tasks that are due for long",
		"#queues"}
	tasksPoison = findingKind{"poison", "poison", "Read the errors", true, "queues have poisoned tasks", "poison"}
	tasksParked = findingKind{"park", "park", "See its tasks", false, "queues have parked tasks",
		"tasks?mark=parked&state=ERROR"}
	kindsUnknown = findingKind{"warn", "poison", "See the workers", true, "queues have kinds without a handler",
		"workers"}
	workersLost = findingKind{"dead", "poison", "See the workers", true, "", ""}
	timeSkipped = findingKind{"schedules", "retry", "See the schedule", false,
		"schedules have skipped their last times", "schedules"}
)

// trouble returns the look of the worst problem of a queue, and its rank: that of a queue without one is 0.
func (q queueRow) trouble() (look, int) {
	switch {
	case q.Stats.Due > 0 && q.Alive == 0 && !q.Info.Paused:
		return look{"poison", "dead", "No worker", "Tasks are due, and the queue has no worker"}, 4
	case q.Stats.OldestDue > oldestFine && !q.Info.Paused:
		return look{"retry", "clock", "Late", "A task has been due for " + age(q.Stats.OldestDue)}, 3
	case q.Info.Paused:
		return look{"park", "pause", "Paused", "Paused by " + q.Info.By}, 2
	case q.Poisoned() > 0:
		return look{"poison", "poison", "", ""}, 1
	}
	return look{"done", "done", "", ""}, 0
}

// Trouble returns the look of the worst problem of a queue. It has no text if the figures show the problem.
func (q queueRow) Trouble() look {
	l, _ := q.trouble()
	return l
}

// Row returns the queue itself, for templates of pages that embed it.
func (q queueRow) Row() queueRow { return q }

// tile is a number of tasks of a queue, and the page that lists them.
type tile struct {
	look
	Count string
	Hint  string
	Link  string
}

// Tiles returns the numbers of a queue's tasks.
func (l layout) Tiles(q queueRow) []tile {
	list := func(of look, count string, query ...string) tile {
		return tile{look: of, Count: count, Link: l.visit.path("tasks", append([]string{"queue", q.Queue}, query...)...)}
	}
	in := func(s dbq.State) tile { return list(looks[s], q.Count(s), "state", s.String()) }
	waiting, poisoned := in(dbq.StateCreated), in(dbq.StatePoison)
	if q.Stats.Due > 0 {
		waiting.Hint = q.Due() + " due, the oldest for " + age(q.Stats.OldestDue)
	}
	poisoned.Link = l.visit.path("poison", "queue", q.Queue)
	retrying := list(looks[dbq.StateError], q.Retrying(), "state", "ERROR")
	return []tile{
		waiting, in(dbq.StateProcessing), retrying,
		list(parkedLook, q.least(q.Stats.Parked, dbq.StateError), "state", "ERROR", "mark", "parked"), poisoned,
		list(cancelledLook, q.least(q.Stats.Cancelled, dbq.StatePoison), "state", "POISON", "mark", "cancelled"),
		in(dbq.StateCompleted),
	}
}

// least writes a number of tasks of a state: with a plus sign if there may be more of them, and not at all if none was
// counted and there may be some.
func (q queueRow) least(n int64, s dbq.State) string {
	switch {
	case !q.atLeast[s]:
		return number(n)
	case n == 0:
		return "–"
	}
	return number(n) + "+"
}

// Due returns the number of due tasks, such as "1,234", or "10,000+" if counting stopped there.
func (q queueRow) Due() string { return q.least(q.Stats.Due, dbq.StateCreated) }

// Retrying returns the number of failed tasks that are not parked.
func (q queueRow) Retrying() string {
	return q.least(max(q.Stats.Count[dbq.StateError]-q.Stats.Parked, 0), dbq.StateError)
}

// slots are the tasks that workers can run at once, and how many of them they run.
type slots struct {
	Busy, All int

	Cells []bool // true for the busy ones; nil if there are too many to draw each
}

// cellsDrawn is how many slots are drawn one by one; more become a bar.
const cellsDrawn = 16

func slotsOf(busy, all int) slots {
	s := slots{Busy: busy, All: all}
	for i := 0; i < all && all <= cellsDrawn; i++ {
		s.Cells = append(s.Cells, i < busy)
	}
	return s
}

// Percent returns how many of the slots are busy.
func (s slots) Percent() int { return percent(s.Busy, s.All) }

// percent returns a part of a whole in percent.
func percent(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return min(max(100*part/whole, 0), 100)
}

// took writes how long something took: 2.1 ms, 412 ms, 1.8 s, 12 min.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < 2*time.Minute:
		return measure(d)
	}
	return age(d)
}

// initial returns the letter that is shown for a user: of token:ann it is A.
func initial(name string) string {
	r, _ := utf8.DecodeRuneInString(name[strings.LastIndexByte(name, ':')+1:])
	return strings.ToUpper(string(r))
}

// monogram returns the two letters that are shown for a product.
func monogram(product string) string {
	switch product {
	case "PostgreSQL":
		return "Pg"
	case "SQLite":
		return "Li"
	}
	return product[:min(2, len(product))]
}

// difference is a value that a change has set, removed or replaced.
type difference struct{ Name, Before, After string }

// differences compares two JSON values by their fields.
func differences(before, after json.RawMessage) (out []difference) {
	was, is := flat(before), flat(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] != is[name] {
			out = append(out, difference{name, was[name], is[name]})
		}
	}
	return out
}

// flat returns the values of a JSON text by their names. Those of an object within another one are outer.inner.
func flat(text json.RawMessage) map[string]string {
	out := map[string]string{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if d.Decode(&value) == nil {
		flatten("", value, out)
	}
	return out
}

func flatten(name string, value any, out map[string]string) {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for inner, v := range value {
			flatten(strings.TrimPrefix(name+"."+inner, "."), v, out)
		}
	case string:
		out[name] = value
	default:
		b, _ := json.Marshal(value) // it was JSON
		out[name] = string(b)
	}
}

// Headline returns how much needs attention.
func (o overviewView) Headline() string {
	problems := 0
	for _, f := range o.Findings {
		if f.Problem {
			problems++
		}
	}
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return number(n) + " " + many
	}
	notices := len(o.Findings) - problems
	switch {
	case problems == 0 && notices == 0:
		return "Nothing needs attention"
	case problems == 0:
		return count(notices, "notice", "notices")
	case notices == 0:
		return count(problems, "problem", "problems")
	}
	return count(problems, "problem", "problems") + " and " + count(notices, "notice", "notices")
}

// Problems reports whether one of the findings is a problem.
func (o overviewView) Problems() bool {
	return slices.ContainsFunc(o.Findings, func(f finding) bool { return f.Problem })
}

// Headline returns which tasks a list has.
func (page tasksView) Headline() string {
	text, s := "Tasks", page.Selection
	switch in, err := state.Parse(s.State); {
	case s.Order == "archive":
		text = "Tasks of the archive"
	case s.Mark == "parked":
		text = "Parked tasks"
	case s.Mark == "cancelled":
		text = "Cancelled tasks"
	case err == nil && in == dbq.StateError:
		text = "Failed tasks"
	case err == nil:
		text = looks[in].Text + " tasks"
	}
	if s.Queue != "" {
		text += " of " + s.Queue
	}
	return text
}

// In reports whether a list has tasks of one state only.
func (page tasksView) In(s string) bool { return strings.EqualFold(page.Selection.State, s) }

// Headline returns how the steps of a workflow stand.
func (w workflowView) Headline() string {
	text := fmt.Sprintf("%s of %s steps are completed", number(w.Done()), number(len(w.Rows)))
	for _, s := range []dbq.State{dbq.StateProcessing, dbq.StateError, dbq.StatePoison} {
		if n := w.in(s); n > 0 {
			text += ", " + number(n) + " " + stepWords[s]
		}
	}
	return text + "."
}

var stepWords = map[dbq.State]string{
	dbq.StateProcessing: "running", dbq.StateError: "failed", dbq.StatePoison: "poisoned",
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
