package dbq

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// Checkout leases up to n due tasks (1 to MaxCheckout) for a time (MinLease to MaxLease) from the database's current
// time. Lower priority numbers come first, then earlier due times. If nothing is due, it returns nil, nil;
// Consumer.Checkout waits instead.
//
// Checkout also searches for tasks whose lease has expired: once a second while tasks are due, in every call if nothing
// is due, and again immediately after a search that fills n. It takes these tasks over before the due ones, and moves
// those that have exhausted their attempts to POISON. docs/design.md describes exceptions.
//
// If the payloads would exceed WithMaxCheckoutBytes, Checkout leases fewer than n tasks, but at least one. Only a
// result without tasks means that no more tasks are due.
//
// Settle each task, or extend its lease, before the lease expires. Otherwise the task is handed out again. If a
// connection is lost during the checkout, Checkout takes a few hundred milliseconds to determine which tasks it
// leased or moved to POISON. ErrMayHaveHappened means that it could not determine this: some tasks may be leased
// without a worker until their leases expire.
func (q *Queue) Checkout(ctx context.Context, n int, lease time.Duration) ([]Task, error) {
	tasks, _, err := q.checkoutMore(ctx, n, lease)
	return tasks, err
}

// checkoutMore is Checkout, but also reports whether it has left due tasks, or has not looked at all of them.
func (q *Queue) checkoutMore(ctx context.Context, n int, lease time.Duration) (tasks []Task, more bool, err error) {
	tasks, exhausted, more, err := q.checkout(ctx, n, lease)
	if len(exhausted) > 0 { // the caller does not see them
		q.c.cfg.logger.Error("dbq: tasks went to POISON: the lease of their last attempt expired",
			"queue", q.name, "tasks", len(exhausted), "first", exhausted[0].ID.String())
		if q.exhausted != nil {
			q.exhausted(exhausted)
		}
	}
	return tasks, more, err
}

// checkout is Checkout, but also returns the tasks that it moved to POISON, and whether the limit of bytes cut it
// short.
func (q *Queue) checkout(ctx context.Context, n int, lease time.Duration) (
	tasks, exhausted []Task, more bool, err error) {
	defer func(start time.Time) { q.end("checkout", len(tasks), start, &err) }(time.Now())
	err = bounds.QueueName(q.name)
	if err == nil && q.worker != "" {
		err = bounds.Text(q.worker, 1, MaxWorkerID, ErrOption, "worker's id")
	}
	if err == nil {
		err = bounds.Count(n, MaxCheckout)
	}
	if err == nil {
		err = bounds.Lease(lease)
	}
	if err != nil {
		return nil, nil, false, err
	}
	got, err := q.c.store.Checkout(ctx, store.CheckoutParams{
		Queue: q.name, Max: n, Lease: lease, StartsAtOnce: q.worker == "" || q.remote,
		Token: func() string { return q.c.checkoutToken(q.worker) },
	})
	if err != nil {
		return nil, nil, false, err
	}
	q.c.core.FollowUp(store.FollowUp{Notices: got.Added})
	if got.Wait > 0 {
		q.c.wake.Expect(q.name, got.Wait)
	}
	tasks, exhausted = q.tasks(got.Rows, got.Until)
	if slices.ContainsFunc(exhausted, func(t Task) bool { return store.InWorkflow(t.ID) }) {
		q.c.core.AdvanceWorkflows()
	}
	return tasks, exhausted, got.More, nil
}

// tasks separates the leased tasks from those that went to POISON.
func (q *Queue) tasks(rows []dialect.Row, until time.Time) (tasks, exhausted []Task) {
	for _, r := range rows {
		t := taskOf(r)
		if r.State == StatePoison {
			exhausted = append(exhausted, t)
			continue
		}
		t.Lease = Lease{TaskID: r.ID, Queue: q.name, Fence: r.Fence, Attempt: r.Attempt, Until: until}
		if r.WasDue > 0 && r.Now > r.WasDue {
			t.Waited = time.Duration(r.Now-r.WasDue) * time.Microsecond
		}
		tasks = append(tasks, t)
	}
	return tasks, exhausted
}

// checkoutToken returns the unique name of one checkout: the worker's or the client's id, then # with the client's
// random part and a number. If the answer to a checkout is lost, the client finds its tasks by the token. If a token
// were used twice, one task could get two holders.
func (c *Client) checkoutToken(worker string) string {
	number := strconv.FormatUint(c.tokens.Add(1), 36)
	if worker == "" || worker == c.id || strings.HasPrefix(worker, c.id+"/") {
		return cmp.Or(worker, c.id) + "#" + number
	}
	return worker + c.id[strings.LastIndexByte(c.id, '#'):] + "." + number
}
