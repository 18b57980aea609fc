package worker

import (
	"errors"

	"github.com/dbq-go/dbq/internal/errs"
)

var (
	// ErrConfig is returned by Run for a Worker with an invalid field. It matches dbq.ErrInvalid too.
	ErrConfig error = &errs.InvalidError{Text: "worker: invalid configuration"}

	// ErrAbandoned is returned by Run if handlers ignored the end of their context. Their tasks are handed out again
	// when their leases have expired.
	ErrAbandoned = errors.New("worker: handlers did not return")

	// ErrTimeout is the cause of a handler's context when Timeout has passed. The attempt's error wraps it.
	ErrTimeout = errors.New("worker: the handler exceeded Timeout")

	// ErrNoHandler is the error of an attempt whose task has a kind for which a Mux has no handler. The attempt does not
	// count, and the task goes back to the queue for a while.
	ErrNoHandler = errors.New("worker: no handler for the kind")

	// ErrShutdown is the cause of a handler's context when DrainTimeout has passed.
	ErrShutdown = errors.New("worker: shutting down")

	// ErrRevoked is the cause of a handler's context when an operator has revoked its task, and ErrCancelled when one
	// has cancelled it. The cause also wraps dbq.ErrLeaseLost, and its text names the operator and the reason.
	ErrRevoked   = errors.New("worker: the task was revoked")
	ErrCancelled = errors.New("worker: the task was cancelled")

	// ErrTakenOver is the cause of a handler's context when another worker has taken its task over, and ErrUnreachable
	// when its lease could not be renewed in time. The cause also wraps dbq.ErrLeaseLost.
	ErrTakenOver   = errors.New("worker: another worker has taken the task over")
	ErrUnreachable = errors.New("worker: the lease could not be renewed in time")
)
