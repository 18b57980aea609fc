package dbq

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// expiredEvery is how often a busy client looks for leases that ran out: a crashed worker's task is to be taken over as soon as its lease has
// run out. When a look brings as many as the checkout may take, the next checkout looks again. A checkout that finds nothing else looks each time; under load a look costs a visit of each task in work, and on PostgreSQL of
// each that has been since the last vacuum, or the last look.
const expiredEvery = time.Second

// looksMost bounds the queues that looks remembers.
const looksMost = 10_000

// looks remembers, for each queue, when this client last looked for leases that ran out.
type looks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// again makes the next checkout look: this one's look has brought as many as it asked for, so there may be more.
func (l *looks) again(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, queue)
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
	if len(l.last) >= looksMost { // those are forgotten that are due again, or else all: a look more costs little
		maps.DeleteFunc(l.last, func(_ string, t time.Time) bool { return now.Sub(t) >= expiredEvery })
		if len(l.last) >= looksMost {
			clear(l.last)
		}
	}
	l.last[queue] = now
	return true
}

// CheckedOut is what a checkout brought.
type CheckedOut struct {
	// Tasks are leased, in the order in which they are to be handled.
	Tasks []Task
	// Spent are tasks that the checkout moved to POISON because the lease of their last attempt ran out. They count towards n, and there
	// is nothing to settle about them.
	Spent []Task
	// More is whether due tasks may have been left because of WithMaxCheckoutBytes, so that another checkout at once is worth it.
	More bool
}

// Checkout leases up to n due tasks (1 to MaxCheckout) for a time (MinLease to MaxLease) that runs from the database's now:
// those with the lower priority number first, then those due longest. It takes over tasks whose lease has run out, before the
// others, and moves those of them whose attempts are spent to POISON. None due is no tasks and no error. A client whose checkouts find due
// tasks looks for leases that have run out once in a second, and again at once while a look brings n; a checkout that finds no due task looks each time, on PostgreSQL, MySQL and MariaDB once in a
// second when it begins where an earlier one found that nothing is left before (docs/design.md).
//
// It leases fewer than n when their payloads together exceed WithMaxCheckoutBytes, but at least one. So less than n does not mean that
// nothing else is due: no tasks do, and CheckoutAndSpent tells.
//
// Each task must be settled, or its lease extended, before the lease runs out; a task that nobody settles is handed out again
// then. When a connection dies during the checkout, Checkout looks for some hundred milliseconds whether it got the tasks,
// or moved any to POISON.
// ErrMayHaveHappened means that it could not find out, and that tasks may be held by nobody until their leases run out.
func (q *Queue) Checkout(ctx context.Context, n int, lease time.Duration) ([]Task, error) {
	out, err := q.CheckoutAndSpent(ctx, n, lease)
	if len(out.Spent) > 0 { // the caller does not see them
		q.c.cfg.logger.Error("dbq: tasks went to POISON as the lease of their last attempt ran out",
			"queue", q.name, "tasks", len(out.Spent), "first", out.Spent[0].ID.String())
	}
	return out.Tasks, err
}

// CheckoutAndSpent is Checkout that also returns the tasks that it moved to POISON, and whether payloads have cut it short.
func (q *Queue) CheckoutAndSpent(ctx context.Context, n int, lease time.Duration) (out CheckedOut, err error) {
	c := q.c
	defer func(start time.Time) { c.observed("checkout", q.name, len(out.Tasks), start, err) }(time.Now())
	err = checkQueueName(q.name)
	if err == nil && q.worker != "" {
		err = checkText(q.worker, 1, MaxWorkerID, ErrOption, "worker's id")
	}
	if err == nil {
		err = checkCount(n, MaxCheckout)
	}
	if err == nil {
		err = checkLeaseTime(lease)
	}
	if err != nil {
		return CheckedOut{}, c.wrap("checkout", q.name, uuid.Nil, err)
	}
	var (
		rows  []dialect.Row
		until time.Time
		lost  error // why nobody knows what became of the checkout
	)
	limit := c.reaches.limit(q.name, n)
	err = c.repeat(ctx, func() (bool, error) {
		r := dialect.CheckoutRequest{Strategy: c.strategy, Queue: q.name, Limit: limit, Bytes: int64(c.cfg.maxCheckoutBytes),
			Lease: lease, Holder: c.checkoutToken(q.worker), Expired: c.looks.due(q.name, time.Now()), Started: q.worker == ""}
		until = time.Now().Add(lease - c.s.Server.Precision) // read before the call: never later than the database's
		var err error
		rows, err = c.s.Dialect.Checkout(ctx, c.s, r)
		if r.Expired && allTakenOver(rows, limit) {
			c.looks.again(q.name)
		}
		if c.s.Class(err) != dialect.Ambiguous {
			return false, err
		}
		if rows = q.heldUnder(ctx, r.Holder, rows); len(rows) == 0 {
			lost = err
		}
		return true, nil // another try would take other tasks, beside those that this one may hold yet
	})
	if err == nil && lost != nil {
		err = outcome(true, lost)
	}
	if err != nil {
		return CheckedOut{}, c.wrap("checkout", q.name, uuid.Nil, err)
	}
	if slices.ContainsFunc(rows, wasTakenOver) {
		c.expireAfterTakeover(ctx, lease)
	}
	out.Tasks, out.Spent = q.tasks(rows, until)
	out.More = c.reaches.found(q.name, n, limit, len(rows), len(rows) > 0 && rows[0].Cut)
	return out, nil
}

// lookPauses are before each look for what a lost checkout holds: a commit can still be under way when its connection is gone, and what
// it does comes to light a while later.
var lookPauses = []time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 90 * time.Millisecond, 270 * time.Millisecond}

// allTakenOver reports whether a checkout of n found n leases that had run out, or as many as fitted.
func allTakenOver(rows []dialect.Row, n int) bool {
	found := 0
	for _, r := range rows {
		if wasTakenOver(r) {
			found++
		}
	}
	return found >= n || found == len(rows) && found > 0 && rows[0].Cut
}

func wasTakenOver(r dialect.Row) bool { return r.WasHolder != nil }

// heldUnder finds what a checkout that may have happened holds, and what it moved to POISON. Of a checkout of several
// commits some of it may be known: that is returned in any case, and only more shows that the lost commit happened. Nothing
// means that nobody knows.
func (q *Queue) heldUnder(ctx context.Context, token string, known []dialect.Row) []dialect.Row {
	seen := make(map[uuid.UUID]bool, len(known))
	for _, r := range known {
		seen[r.ID] = true
	}
	look := func() (more []dialect.Row) {
		for _, text := range []string{q.c.s.Statements.Held, q.c.s.Statements.Exhausted} {
			if text == "" {
				continue
			}
			rows, err := q.c.s.Ask(ctx, text, dialect.Args{"queue": q.name, "holder": token})
			if err != nil {
				q.c.cfg.logger.Debug("dbq: looking for what a lost checkout holds", "queue", q.name, "error", q.c.scrub(err))
			}
			more = append(more, rows...)
		}
		return slices.DeleteFunc(more, func(r dialect.Row) bool { return seen[r.ID] })
	}
	for _, pause := range lookPauses {
		if sleep(ctx, pause) != nil {
			break
		}
		if more := look(); len(more) > 0 {
			if all := look(); len(all) > len(more) { // it was committed between the two questions
				more = all
			}
			return append(known, more...)
		}
	}
	if len(known) > 0 {
		q.c.cfg.logger.Warn("dbq: a checkout lost an answer after it had leased some tasks, and may hold more until their leases end",
			"queue", q.name, "tasks", len(known))
	}
	return known
}

// tasks tells what was leased from what went to POISON instead.
func (q *Queue) tasks(rows []dialect.Row, until time.Time) (tasks, spent []Task) {
	for _, r := range rows {
		t := taskOf(r)
		if r.State == StatePoison {
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
