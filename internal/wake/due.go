package wake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commitTimes are the times after an enqueue at which the caller's transaction may have committed. The first is
// immediate: a short transaction commits while a worker wakes up.
var commitTimes = []time.Duration{
	0, 5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond, time.Second,
}

// Due is the number of tasks that a call has made due, and when. The zero value means none.
type Due struct {
	now      int       // tasks that are already due
	later    []dueTime // from now; after startAt, since the hub's start
	atCommit bool      // tasks exist when a transaction has committed, at one of commitTimes
}

// Now is one task that is due.
func Now() Due { return Due{now: 1} }

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

// startAt converts times from now to times since the hub's start.
func (d *Due) startAt(h *hub) {
	if len(d.later) > 0 {
		now := h.now()
		for i := range d.later {
			d.later[i].at += now
		}
	}
}

// encode writes a part of a message: the number of tasks that are, or may be, due, and after how many milliseconds.
func encode(after time.Duration, w Wakeup) string {
	mark := ""
	if w.Uncertain {
		mark = "?"
	}
	return fmt.Sprintf("%d:%d%s", wholeMillis(max(after, 0)).Milliseconds(), w.tasks, mark)
}

// maxAnnounced limits the tasks of a part of a message, so that sums do not overflow: any session can notify.
const maxAnnounced = 1 << 20

// decode reads the parts of a message, as times from now. A part that cannot be read, for example from another
// version, counts as one uncertain task now.
func decode(message string) (out []dueTime) {
	for part := range strings.SplitSeq(message, ",") {
		d := dueTime{Wakeup: Wakeup{tasks: 1, Uncertain: true}}
		after, tasks, _ := strings.Cut(part, ":")
		tasks, uncertain := strings.CutSuffix(tasks, "?")
		ms, err := strconv.ParseInt(after, 10, 64)
		n, err2 := strconv.Atoi(tasks)
		if err == nil && err2 == nil && ms >= 0 && n > 0 {
			d.at = time.Duration(min(ms, farthest.Milliseconds())) * time.Millisecond
			d.tasks, d.Uncertain = min(n, maxAnnounced), uncertain
		}
		out = append(out, d)
	}
	return out
}

// message is the pending notification of a topic.
type message struct {
	Due
	possible []time.Duration // when tasks may exist, from atCommit; earliest first
}

// add adds d. Its times, and now, are since the hub's start.
func (m *message) add(d Due, now time.Duration) {
	m.now += d.now
	if m.later = append(m.later, d.later...); len(m.later) > maxSent {
		slices.SortFunc(m.later, compareDueTimes)
		m.later = m.later[:maxSent]
	}
	if d.atCommit { // the new times also cover the old ones: the first is now, and the last is later
		m.possible = m.possible[:0]
		for _, after := range commitTimes {
			m.possible = append(m.possible, now+after)
		}
	}
}

// take removes and returns the parts to send now, or all parts, as a text; "" means none.
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
