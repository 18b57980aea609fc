package console

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// machine is the state machine as a drawing, with the state that a task is in.
type machine struct {
	Boxes []machineBox
	Edges []machineEdge
}

// machineBox is a state. X and Y are its middle.
type machineBox struct {
	State  dbq.State
	X, Y   int
	Middle int // of the text
	Here   bool
}

// machineEdge is a change of state, and the events that cause it.
type machineEdge struct {
	X1, Y1, X2, Y2 float64
	Events         string
	Here           bool // it begins in the task's state
	from, to       dbq.State
}

// The size of a state's box and of the drawing; see templates/task.html.
const boxWidth, boxHeight = 124, 32

// boxAt has the position of each state in the drawing: changes that are a straight line cross no third box.
var boxAt = map[dbq.State][2]int{
	dbq.StateCreated: {68, 75}, dbq.StateProcessing: {300, 24}, dbq.StateCompleted: {532, 24},
	dbq.StateError: {300, 140}, dbq.StatePoison: {532, 140},
}

// machineOf draws the table of package state.
func machineOf(t dbq.Task) (m machine) {
	for _, s := range states {
		at := boxAt[s]
		m.Boxes = append(m.Boxes, machineBox{s, at[0] - boxWidth/2, at[1] - boxHeight/2, at[0], s == t.State})
	}
	for _, row := range state.Transitions() {
		for _, from := range row.FromStates() {
			if from != row.To && from != state.None && row.To != state.None {
				m.add(from, row.To, string(row.Event), from == t.State)
			}
		}
	}
	return m
}

// add adds an event to the edge between two states.
func (m *machine) add(from, to dbq.State, event string, here bool) {
	i := slices.IndexFunc(m.Edges, func(e machineEdge) bool { return e.from == from && e.to == to })
	if i >= 0 {
		if !slices.Contains(strings.Split(m.Edges[i].Events, ", "), event) {
			m.Edges[i].Events += ", " + event
		}
		return
	}
	a, b := boxAt[from], boxAt[to]
	x, y := float64(b[0]-a[0]), float64(b[1]-a[1])
	length := math.Hypot(x, y)
	// Both directions are parallel: each is a little to its right.
	rightX, rightY := -y/length*5, x/length*5
	begin, end := leaves(x, y, rightX, rightY), leaves(-x, -y, rightX, rightY)
	m.Edges = append(m.Edges, machineEdge{
		X1: round(float64(a[0]) + rightX + x*begin), Y1: round(float64(a[1]) + rightY + y*begin),
		X2: round(float64(b[0]) + rightX - x*end), Y2: round(float64(b[1]) + rightY - y*end),
		Events: event, Here: here, from: from, to: to,
	})
}

// leaves returns the part of the line (x, y) that is within the box in which it begins, this far from the box's middle.
func leaves(x, y, fromX, fromY float64) float64 {
	part := 1.0
	if x != 0 {
		part = min(part, (boxWidth/2-fromX*math.Copysign(1, x))/math.Abs(x))
	}
	if y != 0 {
		part = min(part, (boxHeight/2-fromY*math.Copysign(1, y))/math.Abs(y))
	}
	return part
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// timeline is the life of a task as a drawing: its attempts, one after the other.
type timeline struct {
	Bars       []timelineBar
	Start, End time.Time
}

// timelineBar is an attempt, or the lease of the running one.
type timelineBar struct {
	X, Width float64
	Outcome  string
	Title    string
}

// timelineWidth is the width of the drawing.
const timelineWidth = 1000

// timelineOf draws the attempts of a task, and its lease, between its creation and the last of their ends.
func timelineOf(t dbq.Task, attempts []attemptRow, now time.Time) (line timeline) {
	running := t.State == dbq.StateProcessing && !t.LeaseUntil.IsZero()
	if len(attempts) == 0 && !running {
		return line
	}
	line.Start = t.Created
	if len(attempts) > 0 && attempts[0].Taken.Before(line.Start) {
		line.Start = attempts[0].Taken // an attempt can be older than the task if the database's clock was set back
	}
	for _, a := range attempts {
		line.End = later(line.End, a.Ended)
	}
	if running {
		line.End = later(line.End, t.LeaseUntil)
	}
	span := max(line.End.Sub(line.Start), time.Microsecond)
	add := func(from, to time.Time, outcome, title string) {
		x := float64(from.Sub(line.Start)) / float64(span) * timelineWidth
		wide := max(float64(to.Sub(from))/float64(span)*timelineWidth, 3)
		x = min(max(x, 0), timelineWidth-3)
		line.Bars = append(line.Bars, timelineBar{round(x), round(min(wide, timelineWidth-x)), outcome, title})
	}
	for _, a := range attempts {
		add(a.Taken, a.Ended, string(a.Outcome),
			"attempt "+number(a.Attempt.Number)+" "+string(a.Outcome)+" after "+age(a.Took))
	}
	switch {
	case running && t.LeaseUntil.Before(now):
		add(t.Updated, t.LeaseUntil, "lapsed", "the lease of attempt "+number(t.Attempt)+
			" has ended, and no worker has taken the task over yet")
	case running:
		add(t.Updated, t.LeaseUntil, "running",
			"attempt "+number(t.Attempt)+" runs; its lease lasts until the end of this bar")
	}
	return line
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
