// Package invoke calls handlers for package worker, and declares the methods that this needs of the queues of package
// client.
package invoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/dbq-go/dbq"
)

// Handler is worker.Handler.
type Handler interface {
	HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome
}

// Call calls a handler and fails the attempt on a panic. It does not return if the handler calls runtime.Goexit.
func Call(ctx context.Context, h Handler, t dbq.Task) (o dbq.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = dbq.Failed(NewPanicError(v))
		}
	}()
	o = h.HandleTask(ctx, t)
	Read(o.Cause())
	return o
}

// Read calls the error's methods, so that a panic in them, as with a nil pointer in an interface, happens within Call.
func Read(err error) {
	if err != nil {
		_, _ = err.Error(), errors.Is(err, ErrGoexit)
	}
}

// ErrGoexit is the error of an attempt whose handler ended its goroutine.
var ErrGoexit = errors.New("worker: the handler called runtime.Goexit (as t.FailNow does) instead of returning")

// NotCalledError is the error of an attempt that does not count: code before the program's function has failed, through
// no fault of the task.
type NotCalledError struct{ Err error }

// Error returns the reason.
func (e *NotCalledError) Error() string {
	return "worker: the handler was not called: " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *NotCalledError) Unwrap() error { return e.Err }

// PanicError is the error of an attempt whose handler panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// NewPanicError returns the error for a recovered panic, with the stack. Call it in the deferred function.
func NewPanicError(value any) *PanicError { return &PanicError{value, debug.Stack()} }

// Error returns the value and the stack.
func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.Value, p.Stack) }

// Short returns the error without the stack.
func (p *PanicError) Short() string { return fmt.Sprintf("panic: %v", p.Value) }

// AsPanic returns the PanicError in an error, or nil.
func AsPanic(err error) *PanicError {
	var p *PanicError
	errors.As(err, &p)
	return p
}

// Remote has the methods of a queue of package client that a worker calls besides those of worker.Queue.
type Remote struct {
	// Checkout leases up to n tasks for a worker. If none is due, the server waits for up to wait.
	Checkout func(ctx context.Context, worker string, n int, lease, wait time.Duration) ([]dbq.Task, error)
	// IsFinal reports whether repeating a checkout that failed with err cannot help.
	IsFinal func(err error) bool
	// Attrs describes the server in the log.
	Attrs  []any
	Logger *slog.Logger
}
