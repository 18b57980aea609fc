package dbq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// Errors of opening a client.
var (
	// ErrUnknownScheme is returned by Open and Migrate for a DSN whose dialect is not imported.
	ErrUnknownScheme = errs.ErrUnknownScheme
	// ErrDSN is returned by Open and Migrate for a DSN that cannot be used as it is.
	ErrDSN = errs.ErrDSN
	// ErrNoDatabase is returned by Open and Migrate when the server has no database of the DSN's name. It is
	// ErrUnavailable too.
	ErrNoDatabase = errs.ErrNoDatabase
	// ErrNotMigrated is returned by Open and New when dbq's tables are not there.
	ErrNotMigrated = errs.ErrNotMigrated
	// ErrSchemaOld is returned by Open and New when the tables were made by an older dbq.
	ErrSchemaOld = errs.ErrSchemaOld
	// ErrSchemaNew is returned by Open, New and Migrate when the tables were made by a newer dbq with which programs of
	// this version do not work. A newer version may also be compatible: then this program opens, and works beside newer
	// ones.
	ErrSchemaNew = errs.ErrSchemaNew
)

// Errors that any call may return.
var (
	// ErrClosed is returned by every call after Close. Nothing happened.
	ErrClosed = errs.ErrClosed
	// ErrUnavailable means that the database could not be reached or would not serve, also after a few tries. Nothing
	// happened: the call can be repeated.
	ErrUnavailable = errs.ErrUnavailable
	// ErrWriterBusy means that SQLite's one writing connection was in use for as long as the DSN's busy_timeout, such
	// as by a transaction of Client.DB that the caller itself has open. Nothing happened. It is ErrUnavailable too.
	ErrWriterBusy = errs.ErrWriterBusy
	// ErrConflict means that the engine broke off each of many tries because of other transactions. Nothing happened.
	ErrConflict = errs.ErrConflict
	// ErrMayHaveHappened means that a connection was lost at a moment at which nobody can tell whether the change was
	// made, and that dbq could not find out afterwards. A settling call can be repeated. An enqueue with the same
	// NewTask.ID or Reference can be repeated as long as the task, if it was added, is there: while it is not completed,
	// and afterwards for as long as finished tasks are kept (no Deleted, and Retention). A repetition after that
	// makes a second task, which never shares a fence with the first.
	ErrMayHaveHappened = errs.ErrMayHaveHappened
	// ErrDenied means that the database refused the user, the password or a right. Nothing happened.
	ErrDenied = errs.ErrDenied
)

// Errors about tasks and leases.
var (
	// ErrDuplicate is returned by Enqueue and EnqueueTx when the reference, or the id, is taken in the queue. The id that
	// comes with it is the existing task's. Nothing happened, and a caller's transaction stays usable.
	ErrDuplicate = errs.ErrDuplicate
	// ErrLeaseLost is returned by every settling call and by Extend when the lease is no longer valid: the task was taken
	// over, revoked, settled or removed. Nothing happened.
	ErrLeaseLost = errs.ErrLeaseLost
	// ErrLocked is what Settle reports of a task whose row another transaction has locked. The call changed nothing of
	// it: settle it again a little later, while the lease lasts. It is ErrConflict too.
	ErrLocked = errs.ErrLocked
	// ErrNotFound is returned by Get, Wait and the operators' calls when no task has the id.
	ErrNotFound = errs.ErrNotFound
	// ErrWrongState is returned by the operators' calls when the task's state does not allow the event. Nothing happened.
	ErrWrongState = errs.ErrWrongState
)

// ErrInvalid is what every error below is (errors.Is): the input was refused before any SQL, and nothing happened.
var ErrInvalid = errs.ErrInvalid

// Errors about input. Each is ErrInvalid too.
var (
	// ErrQueueName wants 1 to MaxQueueName characters of valid UTF-8, none of them a control character.
	ErrQueueName = errs.ErrQueueName
	// ErrReference wants at most MaxReference such characters.
	ErrReference = errs.ErrReference
	// ErrKind wants at most MaxKind such characters.
	ErrKind = errs.ErrKind
	// ErrPriority wants 0 (first) to MaxPriority.
	ErrPriority = errs.ErrPriority
	// ErrMaxAttempts wants 1 to MaxMaxAttempts, or 0 for the client's default.
	ErrMaxAttempts = errs.ErrMaxAttempts
	// ErrDelay wants a delay of 0 to MaxDelay, a time between 1970 and 9999, and not both.
	ErrDelay = errs.ErrDelay
	// ErrHeaders wants valid UTF-8, non-empty keys without control characters, and at most MaxHeaders bytes as JSON.
	ErrHeaders = errs.ErrHeaders
	// ErrPayloadSize wants at most the bytes that Info.MaxPayload says.
	ErrPayloadSize = errs.ErrPayloadSize
	// ErrID wants a UUID of version 7.
	ErrID = errs.ErrID
	// ErrCount wants a number of tasks between 1 and the limit of the call.
	ErrCount = errs.ErrCount
	// ErrLeaseTime wants MinLease to MaxLease.
	ErrLeaseTime = errs.ErrLeaseTime
	// ErrWrongQueue is returned when a lease of one queue is settled through another.
	ErrWrongQueue = errs.ErrWrongQueue
	// ErrFilter is returned for a filter that an operator's bulk call cannot take.
	ErrFilter = errs.ErrFilter
	// ErrOption is returned by Open, New and Migrate for an option that is refused.
	ErrOption = errs.ErrOption
	// ErrTx is returned by the Tx calls for a value that is not a transaction dbq can use, or one that has ended.
	ErrTx = errs.ErrTx
)

// Error is what dbq's calls return: what was being done, to what, and why it failed. errors.Is finds the sentinels of
// this package, errors.As the driver's own error.
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

// wrap makes an Error, unless err is nil or one already. A database's error gets the sentinel of its class in front.
func (c *Client) wrap(op, queue string, task uuid.UUID, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	if errors.Is(err, sqlrun.ErrTx) {
		err = &errs.InvalidError{Text: err.Error(), Of: ErrTx, Cause: err}
	}
	class := c.store.Class(err)
	if errors.Is(err, ErrMayHaveHappened) { // an earlier try's: what the last try met must not say that nothing happened
		class = dialect.Ambiguous
	}
	if class == dialect.Unknown && c.store.Closed() && !errors.Is(err, ErrClosed) { // closed while the call was under way
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return &Error{Op: op, Queue: queue, Task: task, Class: class, Err: c.cfg.scrub(errs.WithSentinel(class, err))}
}

// IsConflict reports whether err, of a call of this client's or of a statement in a transaction of the caller's, means
// that the database broke the transaction off in favour of another: a deadlock, a serialization failure, a lock that
// was not had in time. Nothing of that transaction happened, and it is worth another try.
func (c *Client) IsConflict(err error) bool { return c.store.IsConflict(err) }
