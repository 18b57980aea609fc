// Package errs declares the sentinel errors of package dbq, for the packages below the root. Package dbq documents
// them.
package errs

import (
	"errors"
	"fmt"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Errors of opening a client.
var (
	ErrUnknownScheme = dialect.ErrUnknownScheme
	ErrDSN           = dialect.ErrDSN
	ErrServer        = dialect.ErrServer
	ErrNoDatabase    = dialect.ErrNoDatabase
	ErrNotMigrated   = errors.New("dbq's tables do not exist: run `dbq migrate`, or open with dbq.WithMigrate()")
	ErrSchemaOld     = errors.New(
		"dbq's tables are of an older version: run `dbq migrate`, or open with dbq.WithMigrate()",
	)
	ErrSchemaNew = errors.New("dbq's tables have a newer version: update this program")
)

// Errors that any call can return.
var (
	ErrClosed          = errors.New("the client is closed")
	ErrUnavailable     = errors.New("the database cannot be reached")
	ErrWriterBusy      = dialect.ErrWriterBusy
	ErrConflict        = errors.New("too many conflicts with other transactions")
	ErrMayHaveHappened = errors.New("the change may have happened")
	ErrDenied          = errors.New("the database refused access")
)

// Errors about tasks and leases.
var (
	ErrDuplicate        = errors.New("the queue already has a task with this reference or unique key")
	ErrLeaseLost        = errors.New("the lease is lost")
	ErrLocked     error = lockedError{}
	ErrNotFound         = errors.New("not found")
	ErrWrongState       = errors.New("the task's state does not allow it")
)

type lockedError struct{}

func (lockedError) Error() string {
	return "another transaction has locked the task: settle it again later"
}

func (lockedError) Is(target error) bool { return target == ErrConflict }

// ErrInvalid matches every error about input. Nothing was changed.
var ErrInvalid = errors.New("invalid input")

// Errors about input. Each matches ErrInvalid too.
var (
	ErrQueueName   = invalid("invalid queue name")
	ErrReference   = invalid("invalid reference")
	ErrUnique      = invalid("invalid unique key")
	ErrKind        = invalid("invalid kind")
	ErrKey         = invalid("invalid key")
	ErrPriority    = invalid("invalid priority")
	ErrMaxAttempts = invalid("invalid max attempts")
	ErrDelay       = invalid("invalid delay or time")
	ErrHeaders     = invalid("invalid headers")
	ErrPayloadSize = invalid("payload too large")
	ErrProgress    = invalid("progress too large")
	ErrID          = invalid("invalid task id")
	ErrCount       = invalid("invalid number of tasks")
	ErrLeaseTime   = invalid("invalid lease time")
	ErrWrongQueue  = invalid("the task belongs to another queue")
	ErrFilter      = invalid("invalid filter")
	ErrEvent       = invalid("invalid event")
	ErrOption      = invalid("invalid option")
	ErrTx          = invalid(sqlrun.ErrTx.Error())
)

// InvalidError is an error about input that was refused before any SQL ran.
type InvalidError struct {
	Text  string
	Of    error // the sentinel that it matches in addition to ErrInvalid, or nil
	Cause error // or nil
}

func invalid(text string) error { return &InvalidError{Text: text} }

// Error returns the text.
func (e *InvalidError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Cause }

// Is reports whether err is ErrInvalid or the sentinel in Of.
func (e *InvalidError) Is(err error) bool { return err == ErrInvalid || e.Of != nil && err == e.Of }

// sentinels maps the class of a database error to the error that the caller sees.
var sentinels = map[dialect.Class]error{
	dialect.Duplicate:   ErrDuplicate,
	dialect.Conflict:    ErrConflict,
	dialect.Unavailable: ErrUnavailable,
	dialect.Ambiguous:   ErrMayHaveHappened,
	dialect.Missing:     ErrNotMigrated,
	dialect.Denied:      ErrDenied,
	dialect.Invalid:     ErrInvalid,
}

// WithSentinel wraps err with the sentinel of a class, unless err already matches it.
func WithSentinel(class dialect.Class, err error) error {
	if s, ok := sentinels[class]; ok && !errors.Is(err, s) {
		if errors.Is(err, ErrNoDatabase) || errors.Is(err, ErrWriterBusy) { // its text suffices
			return &alsoError{err, s}
		}
		return fmt.Errorf("%w: %w", s, err)
	}
	return err
}

// alsoError is an error that also matches another error without its text.
type alsoError struct {
	error
	also error
}

func (e *alsoError) Unwrap() []error { return []error{e.error, e.also} }
