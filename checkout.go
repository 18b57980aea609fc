package dbq

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// expiredEvery is how often a busy client looks for leases that ran out. A checkout that does not fill up looks every time;
// under load a look costs a visit of each task in work, so a client looks at least this often instead of always.
const expiredEvery = time.Second

// looks remembers, for each queue, when this client last looked for leases that ran out.
type looks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (l *looks) due(queue string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok := l.last[queue]; ok && now.Sub(t) < expiredEvery {
		return false
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	l.last[queue] = now
	return true
}

// Checkout leases up to n due tasks (1 to MaxCheckout) for a time (MinLease to MaxLease) that runs from the database's now:
// those with the lower priority number first, then those due longest. It takes over tasks whose lease has run out, before the
// others, and moves those of them whose attempts are spent to POISON. None due is no tasks and no error.
//
// Each task must be settled, or its lease extended, before the lease runs out; a task that nobody settles is handed out again
// then. When a connection dies during the checkout, Checkout finds out whether it got the tasks; ErrMayHaveHappened
// means that it could not, and that tasks may be held by nobody until their leases run out.
//
// Known limit: when the connection dies while the commit itself is still under way, the look for its tasks can come too early. Checkout
// then takes others, and the first ones wait for the end of their leases; no task gets two holders.
func (q *Queue) Checkout(ctx context.Context, n int, lease time.Duration) ([]Task, error) {
	tasks, _, err := q.CheckoutAndSpent(ctx, n, lease)
	return tasks, err
}

// CheckoutAndSpent is Checkout that also returns the tasks that it moved to POISON because the lease of their last attempt ran out.
// They count towards n, and there is nothing to settle about them.
func (q *Queue) CheckoutAndSpent(ctx context.Context, n int, lease time.Duration) (tasks, spent []Task, err error) {
	c := q.c
	defer func(start time.Time) { c.observed("checkout", q.name, len(tasks), start, err) }(time.Now())
	err = checkQueueName(q.name)
	if err == nil {
		err = checkCount(n, MaxCheckout)
	}
	if err == nil {
		err = checkLeaseTime(lease)
	}
	if err != nil {
		return nil, nil, c.wrap("checkout", q.name, uuid.Nil, err)
	}
	var (
		rows  []dialect.Row
		until time.Time
		early time.Time // until of the first try that may have happened
		marks []string  // of tries that may have happened
	)
	err = c.repeat(ctx, func() (bool, error) {
		if len(marks) > 0 {
			found, err := q.heldUnder(ctx, marks)
			if err != nil || len(found) > 0 {
				rows, until = found, early
				return true, err
			}
		}
		mark := c.mark()
		until = time.Now().Add(lease - c.s.Server.Precision) // read before the call: never later than the database's
		var err error
		rows, err = c.s.Dialect.Checkout(ctx, c.s, dialect.CheckoutRequest{
			Strategy: c.strategy, Queue: q.name, Limit: n, Lease: lease, Holder: mark,
			Expired: c.looks.due(q.name, time.Now()),
		})
		if c.s.Class(err) == dialect.Ambiguous {
			if len(marks) == 0 {
				early = until
			}
			marks = append(marks, mark)
		}
		return len(marks) > 0, err
	})
	if err != nil {
		return nil, nil, c.wrap("checkout", q.name, uuid.Nil, err)
	}
	tasks, spent = q.tasks(rows, until)
	return tasks, spent, nil
}

// heldUnder finds what checkouts that may have happened hold.
func (q *Queue) heldUnder(ctx context.Context, marks []string) ([]dialect.Row, error) {
	var all []dialect.Row
	for _, mark := range marks {
		rows, err := q.c.s.Ask(ctx, q.c.s.Statements.Held, dialect.Args{"queue": q.name, "holder": mark})
		if err != nil {
			return nil, fmt.Errorf("looking for what a lost checkout holds: %w", err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

// tasks tells what was leased from what went to POISON instead.
func (q *Queue) tasks(rows []dialect.Row, until time.Time) (tasks, spent []Task) {
	for _, r := range rows {
		t := taskOf(r)
		if r.State == StatePoison {
			q.c.cfg.logger.Warn("dbq: attempts are spent, the last one's lease ran out",
				"queue", q.name, "task", r.ID, "attempt", r.Attempt, "holder", text(r.Holder))
			spent = append(spent, t)
			continue
		}
		t.Lease = Lease{Task: r.ID, Queue: q.name, Fence: r.Fence, Until: until}
		if r.WasDue > 0 && r.Now > r.WasDue {
			t.Waited = time.Duration(r.Now-r.WasDue) * time.Microsecond
		}
		tasks = append(tasks, t)
	}
	return tasks, spent
}
