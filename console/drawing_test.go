package console

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// TestMachineShowsEachChangeOfState compares the drawing with the table.
func TestMachineShowsEachChangeOfState(t *testing.T) {
	t.Parallel()
	for _, here := range states {
		m := machineOf(dbq.Task{State: here})
		drawn, wanted := 0, 0
		for _, e := range m.Edges {
			for event := range strings.SplitSeq(e.Events, ", ") {
				drawn++
				if (e.from == here) != e.Here {
					t.Errorf("%s from %s is drawn as %+v in %s", event, e.from, e, here)
				}
			}
			if !onBorder(e.from, e.X1, e.Y1) || !onBorder(e.to, e.X2, e.Y2) {
				t.Errorf("the line from %s to %s does not join their boxes: %+v", e.from, e.to, e)
			}
		}
		seen := map[string]bool{}
		for _, row := range state.Transitions() {
			for _, from := range row.FromStates() {
				key := from.String() + string(row.Event) + row.To.String()
				if from != state.None && row.To != state.None && from != row.To && !seen[key] {
					seen[key] = true
					wanted++
				}
			}
		}
		if drawn != wanted {
			t.Errorf("%d changes are drawn, the table has %d", drawn, wanted)
		}
		for _, b := range m.Boxes {
			if b.Here != (b.State == here) {
				t.Errorf("a task in %s: %+v", here, b)
			}
		}
	}
}

// onBorder reports whether a point is on the border of a state's box.
func onBorder(s dbq.State, x, y float64) bool {
	dx, dy := math.Abs(x-float64(boxAt[s][0])), math.Abs(y-float64(boxAt[s][1]))
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.2 }
	return near(dx, boxWidth/2) && dy < boxHeight/2+0.2 || near(dy, boxHeight/2) && dx < boxWidth/2+0.2
}

func TestTimelineHasEachAttempt(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(1e9+int64(s), 0) }
	attempt := func(n, from, to int) attemptRow {
		a := dbq.Attempt{Number: n, Outcome: dbq.AttemptFailed, Taken: at(from), Ended: at(to)}
		return attemptRow{a, a.Ended.Sub(a.Taken)}
	}
	running := dbq.Task{State: dbq.StateProcessing, Attempt: 3, Created: at(0), Updated: at(60), LeaseUntil: at(100)}
	line := timelineOf(running, []attemptRow{attempt(1, 10, 20), attempt(2, 40, 40)}, at(70))
	want := []timelineBar{
		{100, 100, "failed", "attempt 1 failed after 10 s"}, {400, 3, "failed", "attempt 2 failed after 0 ms"},
		{600, 400, "running", "attempt 3 runs; its lease lasts until the end of this bar"},
	}
	if len(line.Bars) != 3 || line.Bars[0] != want[0] || line.Bars[1] != want[1] || line.Bars[2] != want[2] {
		t.Errorf("the bars are %+v, want %+v", line.Bars, want)
	}
	if line := timelineOf(dbq.Task{State: dbq.StateCreated, Created: at(0)}, nil, at(0)); len(line.Bars) > 0 {
		t.Errorf("a task without attempts has %+v", line)
	}
	line = timelineOf(running, nil, at(101))
	if len(line.Bars) != 1 || line.Bars[0].Outcome != "lapsed" || strings.Contains(line.Bars[0].Title, "runs") {
		t.Errorf("after the end of its lease, the attempt is drawn as %+v", line.Bars)
	}
	// A clock that was set back, and an attempt of no time at all, leave bars within the drawing.
	odd := dbq.Task{State: dbq.StateCompleted, Created: at(50)}
	for _, rows := range [][]attemptRow{
		{attempt(1, 50, 50)}, {attempt(1, 60, 40)}, {attempt(1, 10, 30), attempt(2, 5, 20)},
	} {
		for _, b := range timelineOf(odd, rows, at(100)).Bars {
			if b.X < 0 || b.Width <= 0 || b.X+b.Width > timelineWidth {
				t.Errorf("%+v is outside of the drawing", b)
			}
		}
	}
}
