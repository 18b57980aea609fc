// Package access gives admin, worker, the suite and the sample data access to the internals of a client. It is the only
// way to them. Programs cannot import it.
package access

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
)

// root has the functions that the root package supplies; see internals.go there.
var root = core.Root.(interface {
	Core(*dbq.Client) *core.Core
	Task(dialect.Row) dbq.Task
	Attempt(sqlrun.AttemptRow) dbq.Attempt
	WithClock(now func() time.Time) dbq.Option
	ForTest(session func(*sqlrun.Session), logger *slog.Logger) dbq.Option
	Bounded(dbq.Outcome) dbq.Outcome
	Delay(dbq.Outcome) (in time.Duration, at time.Time)
	Check(dbq.NewTask) error
	NewRow(ctx context.Context, q *dbq.Queue, t dbq.NewTask) (store.InsertRow, error)
	ForWorker(q *dbq.Queue, id string) *dbq.Queue
	ForRemote(q *dbq.Queue, id string, exhausted func([]dbq.Task)) *dbq.Queue
	Checkout(ctx context.Context, q *dbq.Queue, n int, lease time.Duration) (
		tasks, exhausted []dbq.Task, more bool, err error)
	Settlement(l dbq.Lease, o dbq.Outcome, again, unrecorded, attemptsLeft bool, cause error) dbq.Settlement
	MarkStarted(ctx context.Context, q *dbq.Queue, ls []dbq.Lease) (marked, lost []dbq.Lease, err error)
})

var (
	// Of returns the internals of a client.
	Of = root.Core
	// Task returns a row as a task.
	Task = root.Task
	// Attempt returns a row of the history as an attempt.
	Attempt = root.Attempt
	// NewRow checks a task, and returns it as the hooks change it, with its id and the client's defaults.
	NewRow = root.NewRow
	// WithClock sets the clock for the timestamps in new ids, for tests. Nothing else depends on a client's clock.
	WithClock = root.WithClock
	// ForTest is an option for package dbqtest, and must be the last one. session may change the statements of the
	// client. logger is the default of WithLogger.
	ForTest = root.ForTest
	// Bounded returns an outcome with its delay or time within the limits.
	Bounded = root.Bounded
	// Delay returns the delay of an outcome, or its time if it is a dbq.RetryAt.
	Delay = root.Delay
	// Check checks a task to enqueue, except the size of its payload, which depends on the server.
	Check = root.Check

	// ForWorker returns the queue for the worker with this id, 1 to dbq.MaxWorkerID characters. The worker is the
	// holder of the leases and appears in the history of crashed attempts. If the id is invalid, Checkout returns
	// ErrOption.
	//
	// Such a worker can lease more tasks than it starts immediately. So an attempt whose lease expired counts only
	// after MarkStarted; otherwise it is one of Task.Lapses.
	ForWorker = root.ForWorker
	// ForRemote is ForWorker for a worker of another process that starts the tasks that it gets immediately: every
	// attempt counts, and MarkStarted is not needed. The id may be empty. exhausted is called with the tasks that a
	// checkout moved to POISON, which are CheckoutResult.Exhausted for others.
	ForRemote = root.ForRemote
	// MarkStarted records that up to dbq.MaxBulk attempts are about to begin, in one statement where the engine allows.
	// It returns the leases that were marked and those that are lost, each in the order given. It is for tasks checked
	// out ForWorker. It is cut off when ctx ends: repeating it does no harm.
	MarkStarted = root.MarkStarted
)
