package dbq

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Checkout leases up to n due tasks (1 to MaxCheckout) for a time (MinLease to MaxLease) that runs from the database's
// now: those with the lower priority number first, then those due longest. It takes over tasks whose lease has run out,
// before the others, and moves those of them whose attempts are spent to POISON. If nothing is due it returns nil, nil;
// Consumer.Checkout waits.
//
// A client whose checkouts find due tasks looks for leases that have run out once in a second, and again at once while
// a look brings n; a checkout that finds no due task looks each time, on PostgreSQL, MySQL and MariaDB once in a second
// when it begins where an earlier one found that nothing is left before (docs/design.md).
//
// It leases fewer than n when their payloads together exceed WithMaxCheckoutBytes, but at least one. So only a checkout
// without tasks means that nothing else is due.
//
// Each task must be settled, or its lease extended, before the lease runs out; a task that nobody settles is handed out
// again then. When a connection dies during the checkout, Checkout looks for some hundred milliseconds whether it got
// the tasks, or moved any to POISON. ErrMayHaveHappened means that it could not find out, and that tasks may be held by
// nobody until their leases run out.
func (q *Queue) Checkout(ctx context.Context, n int, lease time.Duration) ([]Task, error) {
	tasks, exhausted, _, err := q.checkout(ctx, n, lease)
	if len(exhausted) > 0 { // the caller does not see them
		q.c.cfg.logger.Error("dbq: tasks went to POISON as the lease of their last attempt ran out",
			"queue", q.name, "tasks", len(exhausted), "first", exhausted[0].ID.String())
	}
	return tasks, err
}

// checkout is Checkout that also returns the tasks that it moved to POISON, and whether payloads have cut it short.
func (q *Queue) checkout(ctx context.Context, n int, lease time.Duration) (
	tasks, exhausted []Task, more bool, err error) {
	c := q.c
	defer func(start time.Time) { c.observed("checkout", q.name, len(tasks), start, err) }(time.Now())
	err = limits.QueueName(q.name)
	if err == nil && q.worker != "" {
		err = limits.Text(q.worker, 1, MaxWorkerID, ErrOption, "worker's id")
	}
	if err == nil {
		err = limits.Count(n, MaxCheckout)
	}
	if err == nil {
		err = limits.Lease(lease)
	}
	if err != nil {
		return nil, nil, false, c.wrap("checkout", q.name, uuid.Nil, err)
	}
	got, err := c.store.Checkout(ctx, store.CheckoutRequest{
		Queue: q.name, Max: n, Lease: lease, Started: q.worker == "",
		Token: func() string { return c.checkoutToken(q.worker) },
	})
	if err != nil {
		return nil, nil, false, c.wrap("checkout", q.name, uuid.Nil, err)
	}
	tasks, exhausted = q.tasks(got.Rows, got.Until)
	return tasks, exhausted, got.More, nil
}

// tasks tells what was leased from what went to POISON instead.
func (q *Queue) tasks(rows []dialect.Row, until time.Time) (tasks, exhausted []Task) {
	for _, r := range rows {
		t := taskOf(r)
		if r.State == StatePoison {
			exhausted = append(exhausted, t)
			continue
		}
		t.Lease = Lease{Task: r.ID, Queue: q.name, Fence: r.Fence, Attempt: r.Attempt, Until: until}
		if r.WasDue > 0 && r.Now > r.WasDue {
			t.Waited = time.Duration(r.Now-r.WasDue) * time.Microsecond
		}
		tasks = append(tasks, t)
	}
	return tasks, exhausted
}

// checkoutToken names one checkout: its worker, or the client itself, then # and what no other checkout has, which is
// the client's random part and a number. Tasks leased under a token are returned to the caller who lost the answer, so
// a token used twice would give one task two holders.
func (c *Client) checkoutToken(worker string) string {
	number := strconv.FormatUint(c.tokens.Add(1), 36)
	if worker == "" || worker == c.id || strings.HasPrefix(worker, c.id+"/") {
		return cmp.Or(worker, c.id) + "#" + number
	}
	return worker + c.id[strings.LastIndexByte(c.id, '#'):] + "." + number
}
