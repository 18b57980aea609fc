// Package access gives admin, worker, the suite and the sample data access to the internals of a client. It is the only
// way to them. Programs cannot import it.
package access

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
)

// root has the functions that the root package supplies; see internals.go there.
var root = core.Root().(interface {
	Core(*dbq.Client) *core.Core
	Task(dialect.Row) dbq.Task
	Attempt(sqlrun.AttemptRow) dbq.Attempt
	Bounded(dbq.Outcome) dbq.Outcome
	When(dbq.Outcome) (in time.Duration, at time.Time)
	Check(dbq.NewTask) error
	NewRow(ctx context.Context, c *dbq.Client) func(q *dbq.Queue, t dbq.NewTask) (store.InsertRow, error)
	ForWorker(q *dbq.Queue, id string) *dbq.Queue
	ForRemote(q *dbq.Queue, id string, exhausted func([]dbq.Task)) *dbq.Queue
	Checkout(ctx context.Context, q *dbq.Queue, n int, lease time.Duration) (
		tasks, exhausted []dbq.Task, more bool, err error)
	Settlement(l dbq.Lease, o dbq.Outcome, again, unrecorded, attemptsLeft bool, cause error) dbq.Settlement
	MarkStarted(ctx context.Context, q *dbq.Queue, ls []dbq.Lease) (marked, lost []dbq.Lease, err error)
})

// Of returns the internals of a client.
func Of(c *dbq.Client) *core.Core { return root.Core(c) }

// Task returns a row as a task.
func Task(r dialect.Row) dbq.Task { return root.Task(r) }

// Attempt returns a row of the history as an attempt.
func Attempt(r sqlrun.AttemptRow) dbq.Attempt { return root.Attempt(r) }

// NewRow returns a function for one call that enqueues tasks in several queues. The function checks a task, and
// returns it with its id and the client's defaults.
func NewRow(ctx context.Context, c *dbq.Client) func(q *dbq.Queue, t dbq.NewTask) (store.InsertRow, error) {
	return root.NewRow(ctx, c)
}

// Bounded returns an outcome with its delay or time within the limits.
func Bounded(o dbq.Outcome) dbq.Outcome { return root.Bounded(o) }

// When returns the delay of an outcome, or its time if it is a dbq.RetryAt.
func When(o dbq.Outcome) (in time.Duration, at time.Time) { return root.When(o) }

// Check checks a task to enqueue, except the size of its payload, which depends on the server.
func Check(t dbq.NewTask) error { return root.Check(t) }
