package console

import (
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

// stateWord returns the word for all tasks of a state.
func stateWord(s dbq.State) string {
	if s == dbq.StateError { // some of which are not retried
		return "Failed"
	}
	return looks[s].Text
}

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
	state.Finish:     {"Finish", "Finish", "finished", "done"},
	state.Quarantine: {"Stop retrying", "Stop retrying", "moved to Poisoned", "poison"},
	state.Purge:      {"Delete", "Delete", "deleted", "trash"},
}

// operatorsEvents returns the operators' events in the order in which pages offer them: what repairs comes first, and
// what cannot be undone last.
func operatorsEvents() []state.Transition {
	order := []state.Event{state.Reenqueue, state.Cancel, state.Reject, state.Revoke, state.Restore, state.Quarantine,
		state.Finish, state.Purge}
	all := state.ByOperator()
	slices.SortFunc(all, func(a, b state.Transition) int {
		return slices.Index(order, a.Event) - slices.Index(order, b.Event)
	})
	return all
}

// Small returns the label within a sentence.
func (v verb) Small() string { return strings.ToLower(v.Label) }

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
		return look{"poison", "poison", "", "It has poisoned tasks"}, 1
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
