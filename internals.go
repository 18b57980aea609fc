package dbq

import (
	"context"
	"math"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// internals gives package access, and through it the packages above, access to parts of a client, a queue, a task and
// an outcome that programs do not need.
type internals struct{}

func init() { core.SetRoot(internals{}) }

// Core returns the internals of a client.
func (internals) Core(c *Client) *core.Core { return &c.core }

// Task returns a row as a task.
func (internals) Task(r dialect.Row) Task { return taskOf(r) }

// Attempt returns a row of the history as an attempt.
func (internals) Attempt(r sqlrun.AttemptRow) Attempt { return attemptOf(r) }

// NewRow returns a function that checks a task to enqueue and gives it an id. The functions of WithHeaders run once.
func (internals) NewRow(ctx context.Context, c *Client) func(q *Queue, t NewTask) (store.InsertRow, error) {
	added := c.addedHeaders(ctx)
	return func(q *Queue, t NewTask) (row store.InsertRow, err error) {
		if err := q.check(1); err != nil {
			return row, err
		}
		rows, err := q.rows([]NewTask{t}, added)
		if err != nil {
			return row, err
		}
		return rows[0], nil
	}
}

// Bounded returns an outcome with its delay or time within the limits.
func (internals) Bounded(o Outcome) Outcome { return o.bounded() }

// When returns the delay of an outcome, or its time if it is a RetryAt.
func (internals) When(o Outcome) (in time.Duration, at time.Time) {
	if o.end == retryAt {
		return 0, o.at()
	}
	return o.in(), at
}

// Check checks a task to enqueue, except the size of its payload, which depends on the server.
func (internals) Check(t NewTask) error {
	_, err := t.check(math.MaxInt)
	return err
}

// ForWorker returns a queue that checks out for the worker with this id.
func (internals) ForWorker(q *Queue, id string) *Queue {
	return &Queue{c: q.c, name: q.name, worker: id}
}

// ForRemote returns a queue that checks out for a worker of another process, which starts its tasks at once.
func (internals) ForRemote(q *Queue, id string, exhausted func([]Task)) *Queue {
	return &Queue{c: q.c, name: q.name, worker: id, remote: true, exhausted: exhausted}
}

// Checkout is Queue.Checkout with its full result.
func (internals) Checkout(ctx context.Context, q *Queue, n int, lease time.Duration) (
	tasks, exhausted []Task, more bool, err error) {
	return q.checkout(ctx, n, lease)
}

// Settlement returns a settlement with what access.SettleOptions adds.
func (internals) Settlement(l Lease, o Outcome, again, unrecorded, attemptsLeft bool, cause error) Settlement {
	return Settlement{l, o, again, unrecorded, attemptsLeft, cause}
}

// MarkStarted records that attempts are about to start.
func (internals) MarkStarted(ctx context.Context, q *Queue, ls []Lease) (marked, lost []Lease, err error) {
	marked, lost, err = q.onLeases(ls, func(keys []store.LeaseKey) ([]bool, error) {
		return q.c.store.MarkStarted(ctx, keys)
	})
	return marked, lost, q.c.wrap("start", q.name, uuid.Nil, err)
}
