package dbq

import (
	"context"
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

// NewRows checks tasks to enqueue, and gives them ids.
func (internals) NewRows(ctx context.Context, q *Queue, ts []NewTask) ([]store.InsertRow, error) {
	return q.newRows(ctx, ts)
}

// Bounded returns an outcome with its delay or time within the limits.
func (internals) Bounded(o Outcome) Outcome { return o.bounded() }

// ForWorker returns a queue that checks out for the worker with this id.
func (internals) ForWorker(q *Queue, id string) *Queue {
	return &Queue{c: q.c, name: q.name, worker: id}
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
