package console

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

// finding is something that is wrong or unusual, and the page that helps.
type finding struct {
	findingKind
	Name string // of the queue or schedule that it is about
	What string
	Do   string
	Link string
	For  time.Duration // how long it has been so, if that is known
}

// findings returns the problems, and then the notices, in the part of the database that a user may see.
func (o overview) findings(v *visit) (out []finding) {
	name := ""
	add := func(kind findingKind, what, do, link string, since ...time.Time) {
		f := finding{findingKind: kind, Name: name, What: what, Do: do, Link: link}
		for _, t := range since {
			f.For = time.Since(t).Truncate(time.Second)
		}
		out = append(out, f)
	}
	for _, q := range o.Queues {
		if !v.may(auth.Read, q.Queue) {
			continue
		}
		name = q.Queue
		list := func(query ...string) string {
			return v.path("tasks", append([]string{"queue", q.Queue}, query...)...)
		}
		kind, late, why := q.late()
		switch {
		case o.verdict:
		case q.Info.Paused:
			do := "Resume it when the cause is gone."
			if q.Info.Reason != "" {
				do = "“" + q.Info.Reason + "” " + do
			}
			what := "Queue " + name + " is paused"
			if q.Info.By != "" {
				what += " by " + q.Info.By
			}
			add(queuePaused, what, do, v.path("queue", "queue", name), q.Info.Since)
		case q.Stats.Due > 0 && q.Alive == 0:
			add(queueIdle, "Queue "+name+" has due tasks and no worker", "Start a worker for it.", list("state", "CREATED"),
				o.Counted.Add(-q.Stats.OldestDue))
		case late != "":
			add(kind, late, why, v.path("queue", "queue", name))
		}
		if n := q.Stats.Count[dbq.StatePoison]; n > 0 {
			add(tasksPoison, "Queue "+name+" has "+strings.Replace(tasks(n), " ", " poisoned ", 1),
				"Read the errors, then retry or delete.", v.path("poison", "queue", name))
		}
		if q.failing.Failed > 0 && !o.verdict {
			add(attemptsFail, "Queue "+name+" fails more often than usual", q.failing.String(), v.path("queue", "queue", name))
		}
		if q.Stats.Parked > 0 {
			add(tasksParked, "Queue "+name+" has "+strings.Replace(tasks(q.Stats.Parked), " ", " parked ", 1),
				"Parked tasks wait until someone acts.", list("state", "ERROR", "mark", "parked"))
		}
	}
	kinds := admin.NoHandlers(o.Workers)
	for _, queue := range slices.Sorted(maps.Keys(kinds)) {
		if v.may(auth.Read, queue) {
			name = queue
			add(kindsUnknown, "Workers of queue "+queue+" have no handler for "+strings.Join(kinds[queue], ", "),
				"Deploy a worker that has it; until then the tasks come back at intervals.", v.path("workers"))
		}
	}
	dead := 0
	for _, w := range o.Workers {
		if w.Dead && v.may(auth.Read, w.Queue) {
			dead++
		}
	}
	if dead > 0 {
		what := " workers have stopped without notice"
		if dead == 1 {
			what = " worker has stopped without notice"
		}
		do := "They were killed, or cannot reach the database. Their tasks are taken over when the leases expire."
		if dead == 1 {
			do = "It was killed, or cannot reach the database. Its tasks are taken over when its leases expire."
		}
		add(workersLost, number(dead)+what, do, v.path("workers"))
	}
	for _, s := range o.Schedules {
		if s.Problem != "" && v.may(auth.Read, s.Queue) {
			name = s.Name
			add(timeSkipped, "Schedule "+s.Name+" has skipped its last time", s.Problem, v.path("schedule", "name", s.Name))
		}
	}
	out = grouped(out, v.path(""))
	slices.SortStableFunc(out, func(a, b finding) int {
		switch {
		case a.Problem == b.Problem:
			return 0
		case a.Problem:
			return -1
		}
		return 1
	})
	return out
}

// grouped makes the findings of a kind one if they are more than a person reads. root is the path of the database.
func grouped(all []finding, root string) (out []finding) {
	const readable = 4
	kinds := map[findingKind][]finding{}
	for _, f := range all {
		kinds[f.findingKind] = append(kinds[f.findingKind], f)
	}
	for _, f := range all {
		same := kinds[f.findingKind]
		switch {
		case len(same) <= readable:
			out = append(out, f)
		case f == same[0]:
			f.What = number(len(same)) + " " + f.Many
			f.Do = "Among them are " + same[0].Name + ", " + same[1].Name + " and " + same[2].Name + "."
			f.Link, f.Button = root+f.All, "See them"
			for _, s := range same {
				f.For = max(f.For, s.For)
			}
			out = append(out, f)
		}
	}
	return out
}

// late returns a finding about due tasks that have waited for long, and why they wait, or "".
func (q queueRow) late() (kind findingKind, what, why string) {
	if q.Stats.Due == 0 || q.Stats.OldestDue <= limitFine {
		return kind, "", ""
	}
	v := admin.Facts{Stats: q.Stats, Info: q.Info, Workers: q.workers}.Verdict()
	switch {
	case v.Cause == admin.CauseRate:
		return queueLimited, "Queue " + q.Queue + " has waited for its rate for " + age(q.Stats.OldestDue), v.Answer
	case q.Stats.OldestDue > oldestFine:
		return queueLate, "A task of queue " + q.Queue + " has been due for " + age(q.Stats.OldestDue), v.Answer
	}
	return kind, "", ""
}

// trouble counts the problems for a user. A notice is no trouble: someone may have paused a queue on purpose.
func (o overview) trouble(v *visit) (n int) {
	for _, f := range o.findings(v) {
		if f.Problem {
			n++
		}
	}
	return n
}

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
	tasksPoison  = findingKind{"poison", "poison", "Read the errors", true, "queues have poisoned tasks", "poison"}
	attemptsFail = findingKind{"warn", "retry", "See the queue", true, "queues fail more often than usual", "#queues"}
	tasksParked  = findingKind{"park", "park", "See its tasks", false, "queues have parked tasks",
		"tasks?mark=parked&state=ERROR"}
	kindsUnknown = findingKind{"warn", "poison", "See the workers", true, "queues have kinds without a handler",
		"workers"}
	workersLost = findingKind{"dead", "poison", "See the workers", true, "", ""}
	timeSkipped = findingKind{"schedules", "retry", "See the schedule", false,
		"schedules have skipped their last times", "schedules"}
)
