// Package core is what a client is made of, for the packages beside the root that build on it: admin, worker and the
// features. It is the only way from a client to its store, so that nothing of it has to be exported.
package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// Core is what a client is made of.
type Core struct {
	Store   *store.Store
	Wake    *wake.Waker
	Control *control.Control
	Logger  *slog.Logger
	// Wrap makes a dbq.Error of an error, unless it is nil or one already.
	Wrap func(op, queue string, task uuid.UUID, err error) error
	// Observe reports a call that began at start to the client's observers.
	Observe func(op, queue string, tasks int, start time.Time, err error)
	// Task makes a dbq.Task of a row.
	Task func(dialect.Row) any
	// ForWorker returns a *dbq.Queue that checks out for the worker of an id; see package leasing, as for Checkout.
	ForWorker func(queue any, id string) any
	// Checkout returns what a *dbq.Queue leased, and what went to POISON, as two []dbq.Task.
	Checkout func(ctx context.Context, queue any, n int, lease time.Duration) (tasks, exhausted any, more bool, err error)
	// Attempt makes a dbq.Attempt of a row.
	Attempt func(dialect.AttemptRow) any
	// Bounded returns a dbq.Outcome with its delay or time within the limits.
	Bounded func(outcome any) any
}

// of is set by the root, which alone knows a client's type.
var of func(client any) *Core

// SetAccessor is called by the root as it is initialized.
func SetAccessor(f func(client any) *Core) { of = f }

// Of returns what a *dbq.Client is made of. It panics for anything else.
func Of(client any) *Core { return of(client) }
