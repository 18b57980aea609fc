package console

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

// Bounds of the page of a queue's keys.
const (
	keysRead  = 1_000 // tasks of each state, the first ones of its index
	keysShown = 100
)

// keyRow is a key of a queue: the running and waiting tasks, and why these wait.
type keyRow struct {
	Key     string
	Running int
	Waiting int // due, also for a retry
	Later   int // delayed, or waiting for other steps or a retry
	Stuck   int // parked, or in POISON and not cancelled
	Oldest  time.Time
	Full    bool     // it has as many running tasks as the limit of each key allows
	First   dbq.Task // the task that must end before the next one starts, in a queue with an order
}

// keysPage shows the keys of a queue with the most running and waiting tasks, and the reason why each waits.
func (c *Console) keysPage(v *visit) error {
	queue := v.named("queue")
	if err := v.need(auth.Read, queue); err != nil {
		return err
	}
	if queue == "" {
		return errNoPage
	}
	limits, err := v.db.admin.QueueLimits(v.ctx(), queue)
	if err != nil {
		return err
	}
	now, err := v.db.client.Now(v.ctx())
	if err != nil {
		return err
	}
	page := struct {
		Queue    string
		Limits   admin.QueueLimits
		Rows     []keyRow
		Keys     int
		Leased   int  // tasks that run, with and without a key
		More     bool // not all tasks were read
		Sequence bool // the tasks of a key run one after the other
	}{Queue: queue, Limits: limits, Sequence: limits.Order != admin.OrderNone}
	store := access.Of(v.db.client).Store
	var all []dbq.Task
	for _, s := range []dbq.State{dbq.StateProcessing, dbq.StateCreated, dbq.StateError, dbq.StatePoison} {
		rows, more, err := store.ListSome(v.ctx(), queue, s, keysRead)
		if err != nil {
			return err
		}
		var tasks []dbq.Task
		for _, r := range rows {
			if t := access.Task(r); !t.Cancelled {
				tasks = append(tasks, t)
			}
		}
		if s == dbq.StateProcessing {
			page.Leased = len(tasks)
		}
		page.More = page.More || more
		all = append(all, tasks...)
	}
	page.Rows = keyRows(all, limits, now)
	page.Keys = len(page.Rows)
	page.Rows = page.Rows[:min(page.Keys, keysShown)]
	v.show(http.StatusOK, "keys", "Keys of "+queue, page)
	return nil
}

// keyRows groups tasks by their keys, those with the most waiting and running tasks first.
func keyRows(tasks []dbq.Task, l admin.QueueLimits, now time.Time) (out []keyRow) {
	rows := map[string]*keyRow{}
	for _, t := range tasks {
		if t.Key == "" {
			continue // tasks without a key have no limit and no order
		}
		r := rows[t.Key]
		if r == nil {
			r = &keyRow{Key: t.Key}
			rows[t.Key] = r
		}
		stuck := t.State == dbq.StatePoison || t.Parked()
		switch {
		case stuck:
			r.Stuck++
		case t.State == dbq.StateProcessing:
			r.Running++
		case t.Blocked || t.Due.After(now):
			r.Later++
		default:
			r.Waiting++
			if r.Oldest.IsZero() || t.Due.Before(r.Oldest) {
				r.Oldest = t.Due
			}
		}
		blocks := l.Order == admin.OrderBlock || l.Order == admin.OrderSkip && !stuck
		if blocks && (r.First.ID == uuid.Nil || bytes.Compare(t.ID[:], r.First.ID[:]) < 0) {
			r.First = t
		}
	}
	for _, r := range rows {
		most := l.KeyLeased
		if l.Order != admin.OrderNone {
			most = 1
		}
		r.Full = most > 0 && r.Running >= most
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b keyRow) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Running, a.Running), cmp.Compare(a.Key, b.Key))
	})
	return out
}
