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

// mostMarks is how many marks the plots have: more lines would hide theirs.
const mostMarks = 20

// marks returns what has happened to a queue since a time, the newest first: when its workers started and, for users
// who may read the audit, what operators changed in more than one task.
func (v *visit) marks(queue string, since time.Time, workers []admin.WorkerInfo) (out []mark, err error) {
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
		out = append(out, mark{at, "play", what})
	}
	if v.may(auth.Administer, queue) {
		found, err := v.db.admin.Audit(v.ctx(), admin.AuditFilter{Queue: queue, Since: since, Limit: pageSize})
		if err != nil {
			return nil, err
		}
		for _, e := range v.sees().Audit(found.Entries) {
			if e.TaskID != uuid.Nil {
				continue
			}
			what := e.By + ": " + e.Action
			if e.Reason != "" {
				what += ", “" + e.Reason + "”"
			}
			out = append(out, mark{e.At, "user", what})
		}
	}
	slices.SortFunc(out, func(a, b mark) int { return b.At.Compare(a.At) })
	return out[:min(len(out), mostMarks)], nil
}
