package kit

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// ClassifyConn classifies the errors that all drivers share: connections that could not be opened or were lost. A
// dialect calls it for errors without a code of its driver.
func ClassifyConn(err error) dialect.Class {
	var op *net.OpError
	var dns *net.DNSError
	var netErr net.Error
	var password *passwordError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return dialect.Unknown
	case errors.Is(err, driver.ErrBadConn): // by its contract, nothing reached the server
		return dialect.Unavailable
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &dns), errors.As(err, &password):
		return dialect.Unavailable
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed), errors.As(err, &netErr):
		return dialect.Ambiguous
	}
	return dialect.Unknown
}

// NextPassword returns the password for a new connection. An error means that the server could not be reached; see
// ClassifyConn.
func NextPassword(ctx context.Context, password dialect.Password) (string, error) {
	text, err := password(ctx)
	if err != nil {
		return "", &passwordError{err}
	}
	return text, nil
}

type passwordError struct{ cause error }

func (e *passwordError) Error() string { return "no password for a new connection: " + e.cause.Error() }
func (e *passwordError) Unwrap() error { return e.cause }

// NoDatabase returns a dialect.ErrNoDatabase with its cure. cause is the driver's error.
func NoDatabase(name string, cause error) error { return &noDatabase{name, cause} }

type noDatabase struct {
	name  string
	cause error
}

func (e *noDatabase) Error() string {
	return fmt.Sprintf("the database %q does not exist: create it, or correct its name in the DSN", e.name)
}

func (e *noDatabase) Unwrap() []error { return []error{dialect.ErrNoDatabase, e.cause} }

// WithWriterTimeout returns the context of a wait for the writer, which ends after timeout at the latest. WriterBusy
// has its error.
func WithWriterTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, busyFor(timeout))
}

// busyFor is the error of a wait for the writer that has lasted so long.
type busyFor time.Duration

func (b busyFor) Error() string {
	return fmt.Sprintf("%v (waited for %v)", dialect.ErrWriterBusy, time.Duration(b))
}
func (b busyFor) Unwrap() error { return dialect.ErrWriterBusy }

// WriterBusy returns the error of a wait for the writer that ended with its context: dialect.ErrWriterBusy, too, if a
// deadline has passed.
func WriterBusy(ctx context.Context) error {
	ended, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case errors.Is(cause, dialect.ErrWriterBusy):
		return cause
	case errors.Is(ended, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", dialect.ErrWriterBusy, ended)
	}
	return ended
}
