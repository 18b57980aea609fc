package console

import (
	"slices"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/google/uuid"
)

// mark is something that may be the reason of a change in the plots of a queue.
type mark struct {
	At         time.Time
	Icon, What string
}

// marks are those of a time, the newest first.
type marks struct {
	List []mark
	More bool // there may be earlier ones
}

// mostMarks is how many marks the plots have: more lines would hide theirs.
const mostMarks = 20

// Title returns how many marks there are.
func (m marks) Title() string {
	switch {
	case m.More:
		return "The latest " + number(len(m.List)) + " changes in this time"
	case len(m.List) == 1:
		return "One change in this time"
	}
	return number(len(m.List)) + " changes in this time"
}

// marks returns the changes of a queue since a time: the starts of its workers and, for users who may read the audit,
// the changes by operators, but for those of single tasks. It returns nil if there is none.
func (v *visit) marks(queue string, since time.Time, workers []admin.WorkerInfo) (*marks, error) {
	var out marks
	starts := map[time.Time]int{}
	for _, w := range workers {
		if w.Started.After(since) {
			starts[w.Started.Truncate(time.Minute)]++
		}
	}
	for at, n := range starts {
		what := "A worker started"
		if n > 1 {
			what = number(n) + " workers started"
		}
		out.List = append(out.List, mark{at, "play", what})
	}
	if v.may(auth.Administer, queue) {
		found, err := v.db.admin.Audit(v.ctx(), admin.AuditFilter{Queue: queue, Since: since, Limit: 5 * mostMarks})
		if err != nil {
			return nil, err
		}
		out.More = found.More
		for _, e := range v.sees().Audit(found.Entries) {
			if e.TaskID != uuid.Nil {
				continue
			}
			what := e.By + ": " + e.Action
			if e.Reason != "" {
				what += ", “" + e.Reason + "”"
			}
			out.List = append(out.List, mark{e.At, "user", what})
		}
	}
	if len(out.List) == 0 {
		return nil, nil
	}
	slices.SortFunc(out.List, func(a, b mark) int { return b.At.Compare(a.At) })
	out.More = out.More || len(out.List) > mostMarks
	out.List = out.List[:min(len(out.List), mostMarks)]
	return &out, nil
}
