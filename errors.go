package dbq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Errors of opening a client.
var (
	// ErrUnknownScheme is returned by Open and Migrate for a DSN whose dialect is not imported.
	ErrUnknownScheme = dialect.ErrUnknownScheme
	// ErrDSN is returned by Open and Migrate for a DSN that cannot be used as it is.
	ErrDSN = dialect.ErrDSN
	// ErrNoDatabase is returned by Open and Migrate when the server has no database of the DSN's name. It is ErrUnavailable too.
	ErrNoDatabase = dialect.ErrNoDatabase
	// ErrNotMigrated is returned by Open and New when dbq's tables are not there.
	ErrNotMigrated = errors.New("dbq's tables are not there: run `dbq migrate`, or open with dbq.WithMigrate()")
	// ErrSchemaOld is returned by Open and New when the tables were made by an older dbq.
	ErrSchemaOld = errors.New("dbq's tables are of an older version: run `dbq migrate`, or open with dbq.WithMigrate()")
	// ErrSchemaNew is returned by Open, New and Migrate when the tables were made by a newer dbq with which programs of this version do
	// not work. A newer version may also be compatible: then this program opens, and works beside newer ones.
	ErrSchemaNew = errors.New("dbq's tables are of a newer version: update this program")
)

// Errors that any call may return.
var (
	// ErrClosed is returned by every call after Close. Nothing happened.
	ErrClosed = errors.New("the client is closed")
	// ErrUnavailable means that the database could not be reached or would not serve, also after a few tries. Nothing
	// happened: the call can be repeated.
	ErrUnavailable = errors.New("the database cannot be reached")
	// ErrWriterBusy means that SQLite's one writing connection was in use for as long as the DSN's busy_timeout, such
	// as by a transaction of Client.DB that the caller itself has open. Nothing happened. It is ErrUnavailable too.
	ErrWriterBusy = dialect.ErrWriterBusy
	// ErrConflict means that the engine broke off each of many tries because of other transactions. Nothing happened.
	ErrConflict = errors.New("too many conflicts with other transactions")
	// ErrMayHaveHappened means that a connection was lost at a moment at which nobody can tell whether the change was made,
	// and that dbq could not find out afterwards. A settling call can be repeated. An enqueue with the same NewTask.ID or
	// Reference can be repeated as long as the task, if it was added, is there: while it is not completed, and afterwards for as long
	// as finished tasks are kept (no CompleteAndDelete, and Retention). A repetition after that makes a second task, which
	// never shares a fence with the first.
	ErrMayHaveHappened = errors.New("the change may have happened")
	// ErrDenied means that the database refused the user, the password or a right. Nothing happened.
	ErrDenied = errors.New("the database refused access")
)

// Errors about tasks and leases.
var (
	// ErrDuplicate is returned by Enqueue and EnqueueTx when the reference, or the id, is taken in the queue. The id that
	// comes with it is the existing task's. Nothing happened, and a caller's transaction stays usable.
	ErrDuplicate = errors.New("a task with this reference is in the queue already")
	// ErrLeaseLost is returned by every settling call and by Extend when the lease is no longer valid: the task was taken
	// over, revoked, settled or removed. Nothing happened.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrLocked is what Settle reports of a task whose row another transaction has locked. The call changed nothing of
	// it: settle it again a little later, while the lease lasts. It is ErrConflict too.
	ErrLocked error = lockedError{}
	// ErrNotFound is returned by Get, Wait and the operators' calls when no task has the id.
	ErrNotFound = errors.New("no such task")
	// ErrWrongState is returned by the operators' calls when the task's state does not allow the event. Nothing happened.
	ErrWrongState = errors.New("the task's state does not allow it")
)

type lockedError struct{}

func (lockedError) Error() string {
	return "another transaction has locked the task: settle it again later"
}

func (lockedError) Is(target error) bool { return target == ErrConflict }

// ErrInvalid is what every error below is (errors.Is): the input was refused before any SQL, and nothing happened.
var ErrInvalid = errors.New("invalid input")

// Errors about input. Each is ErrInvalid too.
var (
	// ErrQueueName wants 1 to MaxQueueName characters of valid UTF-8, none of them a control character.
	ErrQueueName = invalid("invalid queue name")
	// ErrReference wants at most MaxReference such characters.
	ErrReference = invalid("invalid reference")
	// ErrKind wants at most MaxKind such characters.
	ErrKind = invalid("invalid kind")
	// ErrPriority wants 0 (first) to MaxPriority.
	ErrPriority = invalid("invalid priority")
	// ErrMaxAttempts wants 1 to MaxMaxAttempts, or 0 for the client's default.
	ErrMaxAttempts = invalid("invalid max attempts")
	// ErrDelay wants a delay of 0 to MaxDelay, a time between 1970 and 9999, and not both.
	ErrDelay = invalid("invalid delay or time")
	// ErrHeaders wants valid UTF-8, non-empty keys without control characters, and at most MaxHeaders bytes as JSON.
	ErrHeaders = invalid("invalid headers")
	// ErrPayloadSize wants at most the bytes that Client.MaxPayload says.
	ErrPayloadSize = invalid("payload too large")
	// ErrID wants a UUID of version 7.
	ErrID = invalid("invalid task id")
	// ErrCount wants a number of tasks between 1 and the limit of the call.
	ErrCount = invalid("invalid number of tasks")
	// ErrLeaseTime wants MinLease to MaxLease.
	ErrLeaseTime = invalid("invalid lease time")
	// ErrWrongQueue is returned when a lease of one queue is settled through another.
	ErrWrongQueue = invalid("the lease is of another queue")
	// ErrFilter is returned for a filter that an operator's bulk call cannot take.
	ErrFilter = invalid("invalid filter")
	// ErrOption is returned by Open, New and Migrate for an option that is refused.
	ErrOption = invalid("invalid option")
	// ErrTx is returned by the Tx calls for a value that is not a transaction dbq can use, or one that has ended.
	ErrTx = invalid(dialect.ErrTx.Error())
)

type invalidError struct {
	text  string
	is    error // a sentinel that it says more about, or nil
	cause error // or nil
}

func invalid(text string) error           { return &invalidError{text: text} }
func (e *invalidError) Error() string     { return e.text }
func (e *invalidError) Unwrap() error     { return e.cause }
func (e *invalidError) Is(err error) bool { return err == ErrInvalid || e.is != nil && err == e.is }

// Error is what dbq's calls return: what was being done, to what, and why it failed. errors.Is finds the sentinels of this
// package, errors.As the driver's own error.
type Error struct {
	Op    string        // the event or call, such as "complete"
	Queue string        // "" where the call is not about one queue
	Task  uuid.UUID     // zero where the call is not about one task
	Class dialect.Class // what the database's error meant; Unknown where there was none
	Err   error
}

// Error reads like: dbq: complete task 0198c1f2-… of queue "mail": the lease is lost.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("dbq: " + e.Op)
	if e.Task != uuid.Nil {
		b.WriteString(" task " + e.Task.String())
	}
	if e.Queue != "" {
		fmt.Fprintf(&b, " of queue %q", e.Queue)
	}
	b.WriteString(": " + e.Err.Error())
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// sentinels are what a class of database error becomes for the caller.
var sentinels = map[dialect.Class]error{
	dialect.Duplicate:   ErrDuplicate,
	dialect.Conflict:    ErrConflict,
	dialect.Unavailable: ErrUnavailable,
	dialect.Ambiguous:   ErrMayHaveHappened,
	dialect.Missing:     ErrNotMigrated,
	dialect.Denied:      ErrDenied,
	dialect.Invalid:     ErrInvalid,
}

// wrap makes an Error, unless err is nil or one already. A database's error gets the sentinel of its class in front.
func (c *Client) wrap(op, queue string, task uuid.UUID, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	if errors.Is(err, dialect.ErrTx) {
		err = &invalidError{text: err.Error(), is: ErrTx, cause: err}
	}
	class := c.s.Class(err)
	if errors.Is(err, ErrMayHaveHappened) { // an earlier try's: what the last try met must not say that nothing happened
		class = dialect.Ambiguous
	}
	if class == dialect.Unknown && c.closed.Load() && !errors.Is(err, ErrClosed) { // closed while the call was under way
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return &Error{Op: op, Queue: queue, Task: task, Class: class, Err: c.scrub(withSentinel(class, err))}
}

func withSentinel(class dialect.Class, err error) error {
	if s, ok := sentinels[class]; ok && !errors.Is(err, s) {
		if errors.Is(err, ErrNoDatabase) || errors.Is(err, ErrWriterBusy) { // it says enough
			return &alsoError{err, s}
		}
		return fmt.Errorf("%w: %w", s, err)
	}
	return err
}

// alsoError is an error that is another one too, without its text.
type alsoError struct {
	error
	also error
}

func (e *alsoError) Unwrap() []error { return []error{e.error, e.also} }
