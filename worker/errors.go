package worker

import (
	"errors"

	"github.com/dbq-go/dbq/internal/errs"
)

var (
	// ErrConfig is returned by Run for a Worker with an invalid field. It matches dbq.ErrInvalid too.
	ErrConfig error = &errs.InvalidError{Text: "worker: invalid configuration"}

	// ErrAbandoned is returned by Run when handlers ignored the end of their context. Their tasks are handed out again
	// when their leases have ended.
	ErrAbandoned = errors.New("worker: handlers did not return")

	// ErrTimeout is the cause of a handler's context when Timeout is over. The attempt's error wraps it.
	ErrTimeout = errors.New("worker: the processing timeout is over")

	// ErrShutdown is the cause of a handler's context when DrainTimeout is over.
	ErrShutdown = errors.New("worker: shutting down")

	// ErrRevoked is the cause of a handler's context when an operator has revoked its task. The cause also wraps
	// dbq.ErrLeaseLost, and its text names the operator.
	ErrRevoked = errors.New("worker: the task was revoked")
)
