package console

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/state"
)

// poisonRead is how many tasks of a queue in POISON the page groups, the newest ones.
const poisonRead = 1_000

// The page of all queues shows the newest error of up to newestQueues, those with the most poisoned tasks: the last one
// of the newestRead newest tasks.
const newestQueues, newestRead = 50, 20

// poisonedFor is how long the page of all queues shows the newest errors as they were read.
const poisonedFor = 10 * time.Second

// poisonedQueue is a queue with tasks in POISON, and the last one of them if it was read.
type poisonedQueue struct {
	queueRow
	Newest dbq.Task
}

// errorGroup are tasks of a kind with alike errors.
type errorGroup struct {
	Kind   string
	Error  string // of the newest task
	Alike  string // selects the group in a list, together with the kind; "" if the user does not see errors
	Tasks  int
	Newest time.Time
	Oldest time.Time
}

// Words names the tasks of a group in a button. more means that not all tasks were read.
func (g errorGroup) Words(more bool) string {
	switch {
	case more:
		return "these " + number(g.Tasks) + "+"
	case g.Tasks == 1:
		return "this one"
	}
	return "these " + number(g.Tasks)
}

// poisonPage lists the queues with tasks in POISON or, for one queue, the errors of its tasks.
func (c *Console) poisonPage(v *visit) error {
	queue := v.named("queue")
	if err := v.need(auth.Read, queue); queue != "" && err != nil {
		return err
	}
	at, err := v.since("since", v.form("since"))
	again, refused := v.refusal("since", err)
	if err != nil && !refused {
		return err
	}
	page := struct {
		refusal
		Queue      string
		Queues     []poisonedQueue
		Unread     int // queues of which no task was read
		Groups     []errorGroup
		Read       int
		More       bool
		DeadLetter string // the queue that gets a notice of each
		Events     []state.Transition
		Since      string // the time as it was typed
		At         string // the same for links, which may be followed later
	}{refusal: again, Queue: queue, Since: v.form("since"), At: typedTime(at)}
	if queue == "" {
		if page.Queues, page.Unread, err = v.poisonedQueues(at); err != nil {
			return err
		}
		v.show(again.status(), "poison", "Poisoned tasks", page)
		return nil
	}
	if refused {
		v.show(again.status(), "poison", "Poisoned tasks of "+queue, page)
		return nil
	}
	tasks, more, err := v.poisoned(queue, at)
	if err != nil {
		return err
	}
	settings, err := v.db.admin.QueueSettings(v.ctx(), queue)
	if err != nil {
		return err
	}
	page.Read, page.More, page.DeadLetter = len(tasks), more, settings.DeadLetter
	page.Groups, page.Events = groupsOf(tasks, v.user.Payloads), v.bulkEvents(queue, []dbq.State{dbq.StatePoison})
	v.show(http.StatusOK, "poison", "Poisoned tasks of "+queue, page)
	return nil
}

// poisonedQueues returns the queues with tasks in POISON, those with the most first, and of how many no task was read.
// With a time, it leaves out those whose last task was poisoned before.
func (v *visit) poisonedQueues(since time.Time) (out []poisonedQueue, unread int, err error) {
	o, err := v.overview()
	if err != nil {
		return nil, 0, err
	}
	all := keep(o.Queues, func(q queueRow) bool { return q.Poisoned() > 0 })
	slices.SortStableFunc(all, func(a, b queueRow) int { return cmp.Compare(b.Poisoned(), a.Poisoned()) })
	for i, q := range all {
		row := poisonedQueue{queueRow: q}
		if i < newestQueues {
			if row.Newest, err = v.lastPoisoned(q.Queue); err != nil {
				return nil, 0, err
			}
			if row.Newest.Updated.Before(since) {
				continue
			}
		} else {
			unread++
		}
		out = append(out, row)
	}
	return out, unread, nil
}

// lastPoisoned returns the task of a queue that came to POISON last, which visitors share.
func (v *visit) lastPoisoned(queue string) (dbq.Task, error) {
	last, err := v.db.poisoned.get(v.ctx(), queue, func(ctx context.Context) (last dbq.Task, err error) {
		found, err := v.db.admin.List(ctx, admin.Filter{
			Queue: queue, States: []dbq.State{dbq.StatePoison}, NotCancelled: true, NewestFirst: true, Limit: newestRead,
		})
		for _, t := range found.Tasks {
			if t.Updated.After(last.Updated) {
				last = t
			}
		}
		last.Headers, last.Progress = nil, nil
		if last.Kind != dbq.KindPoison { // whose payload selects what is hidden
			last.Payload = nil
		}
		return last, err
	})
	v.sees().Task(&last)
	last.Result = []byte(firstLine(last.Result))
	return last, err
}

// poisoned reads the newest tasks of a queue that have come to POISON since a time, each with the line of its error
// that groups compare.
func (v *visit) poisoned(queue string, since time.Time) (tasks []dbq.Task, more bool, err error) {
	found, err := v.db.admin.List(v.ctx(), admin.Filter{
		Queue: queue, States: []dbq.State{dbq.StatePoison}, NotCancelled: true, NewestFirst: true, Limit: poisonRead,
		EnteredSince: since,
	})
	tasks = found.Tasks
	for i := range tasks {
		v.sees().Task(&tasks[i])
		tasks[i].Result = []byte(firstLine(tasks[i].Result))
	}
	return tasks, found.More, err
}

// Poisoned returns the number of tasks in POISON that were not cancelled.
func (q queueRow) Poisoned() int64 {
	return q.Stats.Count[dbq.StatePoison]
}

// PoisonedMore reports whether there may be more of them: counting stopped.
func (q queueRow) PoisonedMore() bool { return q.atLeast[dbq.StatePoison] }

// varying matches the parts that differ between similar errors: ids, addresses, numbers and quoted values.
var varying = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0x[0-9a-fA-F]+|\d+|"[^"]*"`)

// maxError is how much of an error's first line is compared and shown, in bytes.
const maxError = 300

// firstLine returns the line of an error that lists show.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return visible(strings.ToValidUTF8(line[:min(len(line), maxError)], ""))
}

// patternOf returns the common part of alike errors. A browser changes ends of lines when it sends them.
func patternOf(line string) string {
	line = strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ").Replace(line)
	return strings.Join(varying.Split(strings.TrimSpace(line), -1), "\x00")
}

// groupsOf groups tasks by kind and error, the largest group first.
func groupsOf(tasks []dbq.Task, errors bool) (out []errorGroup) {
	groups := map[[2]string]*errorGroup{}
	for _, t := range tasks {
		line := string(t.Result)
		key := [2]string{t.Kind, patternOf(line)}
		g := groups[key]
		if g == nil {
			g = &errorGroup{Kind: t.Kind, Error: line, Newest: t.Updated, Oldest: t.Updated}
			if errors {
				g.Alike = cmp.Or(line, " ") // "" would select all errors
			}
			groups[key] = g
		}
		g.Tasks++
		g.Newest = later(g.Newest, t.Updated)
		if t.Updated.Before(g.Oldest) {
			g.Oldest = t.Updated
		}
	}
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b errorGroup) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Error, b.Error))
	})
	return out
}
