package console

import (
	"cmp"
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

// errorGroup are tasks of a kind with alike errors.
type errorGroup struct {
	Kind   string
	Error  string // of the newest task
	Search string // a text that all of their errors have, or "" if they have none
	Tasks  int
	Newest time.Time
	Oldest time.Time
}

// poisonPage lists the queues with tasks in POISON or, for one queue, the errors of its tasks.
func (c *Console) poisonPage(v *visit) error {
	queue := v.named("queue")
	if err := v.need(auth.Read, queue); queue != "" && err != nil {
		return err
	}
	page := struct {
		Queue      string
		Queues     []queueRow
		Groups     []errorGroup
		Read       int
		More       bool
		DeadLetter string // the queue that gets a notice of each
		Events     []state.Transition
	}{Queue: queue}
	if queue == "" {
		o, err := v.overview()
		if err != nil {
			return err
		}
		page.Queues = keep(o.Queues, func(q queueRow) bool { return q.Poisoned() > 0 })
		v.show(http.StatusOK, "poison", "Poisoned tasks", page)
		return nil
	}
	tasks, more, err := v.poisoned(queue)
	if err != nil {
		return err
	}
	settings, err := v.db.admin.QueueSettings(v.ctx(), queue)
	if err != nil {
		return err
	}
	page.Read, page.More, page.DeadLetter = len(tasks), more, settings.DeadLetter
	page.Groups, page.Events = groupsOf(tasks), v.bulkEvents(queue, []dbq.State{dbq.StatePoison})
	v.show(http.StatusOK, "poison", "Poisoned tasks of "+queue, page)
	return nil
}

// poisoned reads the newest tasks of a queue in POISON, each with the line of its error that groups compare.
func (v *visit) poisoned(queue string) (tasks []dbq.Task, more bool, err error) {
	found, err := v.db.admin.List(v.ctx(), admin.Filter{
		Queue: queue, States: []dbq.State{dbq.StatePoison}, NotCancelled: true, NewestFirst: true, Limit: poisonRead,
	})
	tasks = found.Tasks
	for i := range tasks {
		v.sees().Task(&tasks[i])
		line, _, _ := strings.Cut(strings.TrimSpace(string(tasks[i].Result)), "\n")
		tasks[i].Result = []byte(strings.ToValidUTF8(line[:min(len(line), maxError)], ""))
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

// groupsOf groups tasks by kind and error, the largest group first.
func groupsOf(tasks []dbq.Task) (out []errorGroup) {
	groups := map[[2]string]*errorGroup{}
	for _, t := range tasks {
		line := string(t.Result)
		parts := varying.Split(line, -1)
		key := [2]string{t.Kind, strings.Join(parts, "\x00")}
		g := groups[key]
		if g == nil {
			longest := slices.MaxFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			g = &errorGroup{
				Kind: t.Kind, Error: line, Search: strings.TrimSpace(longest), Newest: t.Updated, Oldest: t.Updated,
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
