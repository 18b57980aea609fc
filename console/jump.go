package console

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// Bounds of what the jump box lists.
const (
	hitsOfAKind = 5   // of tasks with a reference, of similar names, and so on
	hitsLooked  = 100 // tasks with a key, of which each queue is one hit
	nearNames   = 3   // names that may have been meant
)

// hit is a page that the jump box finds.
type hit struct {
	What string // such as queue
	Icon string // of the style sheet
	Name string
	Note string // what else is known about it
	Link string
}

// jumpView is the content of the jump box's page.
type jumpView struct {
	Text string
	ID   bool  // Text is an id
	Hits []hit // what has exactly this name, and then what has a similar one
	Near []hit // what may have been meant, if there is no hit
}

// jumpPage finds what has a name or an id, and opens it if it is the only one.
func (c *Console) jumpPage(v *visit) error {
	page := jumpView{Text: v.form("q")}
	if page.Text == "" {
		v.show(http.StatusOK, "jump", "Find", page)
		return nil
	}
	o, err := v.overview()
	if err != nil {
		return err
	}
	_, idErr := uuid.Parse(page.Text)
	page.ID = idErr == nil
	exact, err := v.findExactly(page.Text, o)
	if err != nil {
		return err
	}
	if len(exact) == 1 {
		http.Redirect(v.w, v.r, exact[0].Link, http.StatusSeeOther)
		return nil
	}
	names := v.names(o)
	page.Hits = append(exact, similar(names, page.Text)...)
	status := http.StatusOK
	if len(page.Hits) == 0 {
		page.Near, status = near(names, page.Text), http.StatusNotFound
	}
	v.show(status, "jump", "Find "+page.Text, page)
	return nil
}

// findExactly returns the objects with a name or an id that the user may read: to others they do not exist.
func (v *visit) findExactly(text string, o overview) (hits []hit, err error) {
	for _, h := range v.names(o) {
		if h.Name == text {
			hits = append(hits, h)
		}
	}
	for _, find := range []func(context.Context, string) ([]hit, error){v.withID, v.withReference, v.withKey} {
		found, err := find(v.ctx(), text)
		if err != nil && !errors.Is(err, dbq.ErrInvalid) { // nothing can have such a name
			return nil, err
		}
		hits = append(hits, found...)
	}
	if len(hits) > 0 || !v.may(auth.Read, text) {
		return hits, nil
	}
	// The overview is some seconds old, and counts only the tasks of some states.
	known, err := v.db.admin.Known(v.ctx(), text)
	if known {
		hits = append(hits, v.queueHit(text, ""))
	}
	if errors.Is(err, dbq.ErrInvalid) {
		err = nil
	}
	return hits, err
}

// withID returns the task and the workflow with an id.
func (v *visit) withID(ctx context.Context, text string) (hits []hit, err error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return nil, nil
	}
	t, err := v.db.client.Get(ctx, id)
	switch {
	case err == nil && v.may(auth.Read, t.Queue):
		hits = append(hits, v.taskHit(t))
	case err != nil && !errors.Is(err, dbq.ErrNotFound):
		return nil, err
	}
	w, err := workflow.Get(ctx, v.db.client, id, stepsShown)
	switch {
	case err == nil && v.sees().Workflow(w, stepsShown) == nil:
		hits = append(hits, hit{What: "workflow", Icon: "workflows", Name: id.String(),
			Note: stepCount(w), Link: v.path("workflow/" + id.String())})
	case err != nil && !errors.Is(err, dbq.ErrNotFound):
		return nil, err
	}
	return hits, nil
}

// scope returns the queues in which a search for tasks looks, one after the other; "" is all.
func (v *visit) scope() []string {
	if len(v.user.Queues) == 0 {
		return []string{""}
	}
	return v.user.Queues
}

// withReference returns the tasks with a reference, which an index has.
func (v *visit) withReference(ctx context.Context, text string) (hits []hit, err error) {
	for _, queue := range v.scope() {
		found, err := v.db.admin.List(ctx,
			admin.Filter{Queue: queue, Reference: text, NewestFirst: true, Limit: hitsOfAKind + 1})
		if err != nil {
			return hits, err
		}
		for _, t := range found.Tasks {
			hits = append(hits, v.taskHit(t))
		}
	}
	return v.cut(hits, len(hits) > hitsOfAKind, "reference", text), nil
}

// cut returns the first hits of a kind and, if there are or may be more, a link to the list of all.
func (v *visit) cut(hits []hit, more bool, kind, text string) []hit {
	hits = hits[:min(len(hits), hitsOfAKind)]
	if more && len(hits) > 0 {
		hits = append(hits, hit{What: kind, Icon: "tasks", Name: text, Note: "all tasks with this " + kind,
			Link: v.path("tasks", kind, text)})
	}
	return hits
}

// withKey returns the queues that have tasks with a key, and in which states, among as many tasks as a list looks at.
func (v *visit) withKey(ctx context.Context, text string) (hits []hit, err error) {
	queues, more := map[string]map[dbq.State]int{}, false
	for _, queue := range v.scope() {
		found, err := v.db.admin.List(ctx, admin.Filter{Queue: queue, Key: text, NewestFirst: true, Limit: hitsLooked})
		if err != nil {
			return hits, err
		}
		for _, t := range found.Tasks {
			if queues[t.Queue] == nil {
				queues[t.Queue] = map[dbq.State]int{}
			}
			queues[t.Queue][t.State]++
		}
		more = more || found.More
	}
	for _, queue := range slices.Sorted(maps.Keys(queues)) {
		var counts []string
		for _, s := range states {
			if n := queues[queue][s]; n > 0 {
				counts = append(counts, number(n)+" "+strings.ToLower(stateWord(s)))
			}
		}
		note := "in queue " + queue + ": " + strings.Join(counts, ", ")
		if more {
			note += ", or more"
		}
		hits = append(hits, hit{What: "key", Icon: "key", Name: text, Note: note,
			Link: v.path("tasks", "queue", queue, "key", text)})
	}
	return v.cut(hits, more || len(hits) > hitsOfAKind, "key", text), nil
}

func (v *visit) taskHit(t dbq.Task) hit {
	note := "in queue " + t.Queue + ", " + t.State.String()
	if t.Kind != "" {
		note = t.Kind + ", " + note
	}
	name := t.ID.String()
	if t.Reference != "" {
		name = t.Reference
	}
	return hit{What: "task", Icon: "tasks", Name: name, Note: note, Link: v.path("task/" + t.ID.String())}
}

func (v *visit) queueHit(name, note string) hit {
	return hit{What: "queue", Icon: "queue", Name: name, Note: note, Link: v.path("queue", "queue", name)}
}

// names returns the queues, workers and schedules of an overview, which has only those that the user may read.
func (v *visit) names(o overview) (out []hit) {
	for _, q := range o.Queues {
		note := ""
		if q.Stats.Due > 0 {
			note = q.Due() + " due"
		}
		out = append(out, v.queueHit(q.Queue, note))
	}
	for _, w := range o.Workers {
		note := "of queue " + w.Queue
		if w.Dead {
			note += ", stopped without notice"
		}
		out = append(out, hit{What: "worker", Icon: "workers", Name: w.ID, Note: note,
			Link: v.path("tasks", "queue", w.Queue, "state", "PROCESSING", "holder", w.ID)})
	}
	for _, s := range o.Schedules {
		out = append(out, hit{What: "schedule", Icon: "schedules", Name: s.Name, Note: "for queue " + s.Queue,
			Link: v.path("schedule", "name", s.Name)})
	}
	return out
}

// similar returns the names that contain a text, in any case of letters, but not the text itself: those that begin with
// it come first.
func similar(names []hit, text string) (out []hit) {
	lower := strings.ToLower(text)
	for _, begins := range []bool{true, false} {
		found := map[string]int{}
		for _, h := range names {
			name := strings.ToLower(h.Name)
			if strings.Contains(name, lower) && strings.HasPrefix(name, lower) == begins && h.Name != text &&
				found[h.What] < hitsOfAKind {
				out, found[h.What] = append(out, h), found[h.What]+1
			}
		}
	}
	return out
}

// maxTypo is the longest text for which names are compared letter by letter.
const maxTypo = 64

// near returns the names that a text may be a misspelling of, the nearest first.
func near(names []hit, text string) (out []hit) {
	typed := []rune(strings.ToLower(text))
	if len(typed) > maxTypo {
		return nil
	}
	most := 1 + min(len(typed)/4, 2) // letters that may be wrong
	distances := make([][]hit, most+1)
	for _, h := range names {
		name := []rune(strings.ToLower(h.Name))
		if len(name) < len(typed)-most || len(name) > len(typed)+most {
			continue
		}
		if d := typos(typed, name); d <= most && d < max(len(typed), len(name)) {
			distances[d] = append(distances[d], h)
		}
	}
	for _, some := range distances {
		out = append(out, some...)
	}
	return out[:min(len(out), nearNames)]
}

// typos returns how many letters were left out, added, changed or swapped with their neighbor between two texts: the
// distance of optimal string alignment.
func typos(a, b []rune) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}

// stepCount writes how many steps of a workflow are left: 200 or more, if a page does not show all.
func stepCount(w workflow.Info) string {
	switch {
	case w.Cut:
		return number(len(w.Steps)) + "+ steps"
	case len(w.Steps) == 1:
		return "1 step"
	}
	return number(len(w.Steps)) + " steps"
}
