package wake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commitTimes are when a caller's transaction that enqueued may have committed, after the enqueue. The first is at
// once: a short transaction has its commit on the way while a worker wakes.
var commitTimes = []time.Duration{
	0, 5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond, time.Second,
}

// Due is how many tasks a call has made due, and when. The zero value is none.
type Due struct {
	now      int       // tasks that are due already
	later    []dueTime // from now, and since the hub's start from startAt on
	atCommit bool      // tasks are there when a transaction has committed, at one of commitTimes
}

// Add adds a task that is due after a time.
func (d *Due) Add(after time.Duration) {
	if after <= 0 {
		d.now++
		return
	}
	at, last := wholeMillis(after), len(d.later)-1
	if last >= 0 && d.later[last].at == at {
		d.later[last].tasks++
		return
	}
	d.later = append(d.later, dueTime{at: at, Wakeup: Wakeup{tasks: 1}})
}

func (d *Due) none() bool { return d.now == 0 && len(d.later) == 0 && !d.atCommit }

// startAt makes times from now times since the hub's start.
func (d *Due) startAt(h *hub) {
	if len(d.later) > 0 {
		now := h.now()
		for i := range d.later {
			d.later[i].at += now
		}
	}
}

// encode writes a part of a message: after how many milliseconds how many tasks are due, or may be due.
func encode(after time.Duration, w Wakeup) string {
	mark := ""
	if w.Uncertain {
		mark = "?"
	}
	return fmt.Sprintf("%d:%d%s", wholeMillis(max(after, 0)).Milliseconds(), w.tasks, mark)
}

// decode reads the parts of a message, as times from now. A part that cannot be read, as of another version, is one
// uncertain task now.
func decode(message string) (out []dueTime) {
	for part := range strings.SplitSeq(message, ",") {
		d := dueTime{Wakeup: Wakeup{tasks: 1, Uncertain: true}}
		after, tasks, _ := strings.Cut(part, ":")
		tasks, uncertain := strings.CutSuffix(tasks, "?")
		ms, err := strconv.ParseInt(after, 10, 64)
		n, err2 := strconv.Atoi(tasks)
		if err == nil && err2 == nil && ms >= 0 && n > 0 {
			d.at = time.Duration(min(ms, farthest.Milliseconds())) * time.Millisecond
			d.tasks, d.Uncertain = n, uncertain
		}
		out = append(out, d)
	}
	return out
}

// message is the notification that is pending for a topic.
type message struct {
	Due
	possible []time.Duration // when tasks may be there, of atCommit; the earliest first
}

// add adds d, whose times are since the hub's start, as is now.
func (m *message) add(d Due, now time.Duration) {
	m.now += d.now
	if m.later = append(m.later, d.later...); len(m.later) > maxSent {
		slices.SortFunc(m.later, compareDueTimes)
		m.later = m.later[:maxSent]
	}
	if d.atCommit { // the new times do for the old ones as well: one is now, and the last is later
		m.possible = m.possible[:0]
		for _, after := range commitTimes {
			m.possible = append(m.possible, now+after)
		}
	}
}

// take takes out what is to be sent now, or all, as a text; "" is nothing.
func (m *message) take(now time.Duration, all bool) string {
	var parts []string
	if m.now > 0 {
		parts = append(parts, encode(0, Wakeup{tasks: m.now}))
	}
	for _, l := range m.later {
		parts = append(parts, encode(l.at-now, l.Wakeup))
	}
	before := len(m.possible)
	for len(m.possible) > 0 && (all || m.possible[0] <= now) {
		m.possible = m.possible[1:]
	}
	if m.now == 0 && len(m.possible) < before {
		parts = append(parts, encode(0, Wakeup{tasks: 1, Uncertain: true}))
	}
	m.Due = Due{}
	return strings.Join(parts, ",")
}
