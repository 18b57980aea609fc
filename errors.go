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
	// ErrDSN is returned by Open and Migrate for a DSN that is malformed, has a parameter that dbq refuses, or names a
	// product other than the server's.
	ErrDSN = errs.ErrDSN
	// ErrServer is returned by Open, New and Migrate if the server cannot be used as it is configured: it is too old,
	// read-only, or has a setting that dbq cannot work with.
	ErrServer = errs.ErrServer
	// ErrNoDatabase is returned by Open and Migrate if the DSN's database does not exist. It matches ErrUnavailable too.
	ErrNoDatabase = errs.ErrNoDatabase
	// ErrNotMigrated is returned by Open and New if dbq's tables do not exist.
	ErrNotMigrated = errs.ErrNotMigrated
	// ErrSchemaOld is returned by Open and New if the tables were created by an older version of dbq.
	ErrSchemaOld = errs.ErrSchemaOld
	// ErrSchemaNew is returned by Open, New and Migrate if the tables were created by a newer version of dbq that this
	// version is not compatible with.
	ErrSchemaNew = errs.ErrSchemaNew
)

// Errors that any call can return.
var (
	// ErrClosed is returned by every call after Close. Nothing was changed.
	ErrClosed = errs.ErrClosed
	// ErrUnavailable is returned if the database could not be reached or could not serve the call, after a few retries.
	// Nothing was changed, and the call can be repeated.
	ErrUnavailable = errs.ErrUnavailable
	// ErrWriterBusy is returned if another transaction had SQLite's one writer for the DSN's busy_timeout or until the
	// call's deadline, for example a transaction of Client.DB that the caller has open. Nothing was changed. It matches
	// ErrUnavailable too.
	ErrWriterBusy = errs.ErrWriterBusy
	// ErrConflict is returned if every one of many tries conflicted with another transaction. Nothing was
	// changed.
	ErrConflict = errs.ErrConflict
	// ErrMayHaveHappened is returned if a connection was lost during a change, and dbq could not determine whether the
	// change was committed.
	//
	// A settling call can be repeated. ErrLeaseLost then means that the first call was committed, or that another worker
	// has the task. An enqueue can be repeated with the same NewTask.ID or Reference while the task's row would still
	// exist: until the task ends, and then for as long as ended tasks are kept (see Deleted and Retention). Repeated
	// later, it makes a second task, which never shares a fence with the first.
	ErrMayHaveHappened = errs.ErrMayHaveHappened
	// ErrDenied is returned if the database refused the user, the password or a privilege. Nothing was changed.
	ErrDenied = errs.ErrDenied
)

// Errors about tasks and leases.
var (
	// ErrDuplicate is returned by Enqueue and EnqueueTx if the queue already has a task with the reference, the id or the
	// unique key. The returned id is the existing task's. Nothing was changed, and a caller's transaction stays usable.
	ErrDuplicate = errs.ErrDuplicate
	// ErrLeaseLost is returned by every settling call and by Extend if the lease is no longer valid: the task was taken
	// over, revoked, settled or removed. Nothing was changed.
	ErrLeaseLost = errs.ErrLeaseLost
	// ErrLocked is reported by SettleMany for a task whose row another transaction has locked. The task was not changed;
	// settle it again shortly, before the lease expires. It matches ErrConflict too.
	ErrLocked = errs.ErrLocked
	// ErrNotFound is returned if there is no such task, worker or schedule.
	ErrNotFound = errs.ErrNotFound
	// ErrWrongState is returned by the operators' calls if the task's state does not allow the event. Nothing was changed.
	ErrWrongState = errs.ErrWrongState
)

// ErrInvalid matches every error about input. Nothing was changed.
var ErrInvalid = errs.ErrInvalid

// Errors about input. Each matches ErrInvalid too.
var (
	// ErrQueueName is returned for a queue name that is not 1 to MaxQueueName characters of valid UTF-8 without control
	// characters.
	ErrQueueName = errs.ErrQueueName
	// ErrReference is returned for a reference of more than MaxReference characters, or with control characters.
	ErrReference = errs.ErrReference
	// ErrUnique is returned for a Unique whose key has more than MaxUniqueKey characters or control characters, or whose
	// fields exclude each other.
	ErrUnique = errs.ErrUnique
	// ErrKind is returned for a kind of more than MaxKind characters, or with control characters.
	ErrKind = errs.ErrKind
	// ErrKey is returned for a key of more than MaxKey characters, or with control characters.
	ErrKey = errs.ErrKey
	// ErrPriority is returned for a priority outside 0 (first) to MaxPriority.
	ErrPriority = errs.ErrPriority
	// ErrMaxAttempts is returned for a limit of attempts outside 1 to MaxMaxAttempts. Zero selects the client's default.
	ErrMaxAttempts = errs.ErrMaxAttempts
	// ErrDelay is returned for a delay outside 0 to MaxDelay, for a time outside the years 1970 to 9999, and for both at
	// once.
	ErrDelay = errs.ErrDelay
	// ErrHeaders is returned for headers of more than MaxHeaders bytes as JSON, with invalid UTF-8, with an empty key, or
	// with a control character in a key.
	ErrHeaders = errs.ErrHeaders
	// ErrPayloadSize is returned for a payload of more than Info.MaxPayload bytes.
	ErrPayloadSize = errs.ErrPayloadSize
	// ErrProgress is returned for progress of more than MaxProgress bytes.
	ErrProgress = errs.ErrProgress
	// ErrID is returned for a task id that is not a UUID of version 7.
	ErrID = errs.ErrID
	// ErrCount is returned for a number of tasks outside 1 to the limit of the call.
	ErrCount = errs.ErrCount
	// ErrLeaseTime is returned for a lease outside MinLease to MaxLease.
	ErrLeaseTime = errs.ErrLeaseTime
	// ErrWrongQueue is returned if a lease of one queue is settled through another, and by an enqueue with a NewTask.ID
	// that a task of another queue has. None of the tasks of the call is then added.
	ErrWrongQueue = errs.ErrWrongQueue
	// ErrFilter is returned for a filter that an operator's bulk call does not support.
	ErrFilter = errs.ErrFilter
	// ErrEvent is returned for an event that is not an operator's.
	ErrEvent = errs.ErrEvent
	// ErrOption is returned by Open, New and Migrate for an option with an invalid value.
	ErrOption = errs.ErrOption
	// ErrTx is returned by the Tx calls for a value that is not a transaction dbq can use, or one that has ended.
	ErrTx = errs.ErrTx
)

// Error is returned by dbq's calls. It contains the operation, the queue and task, and the cause. errors.Is finds the
// sentinels of this package, and errors.As finds the driver's own error.
type Error struct {
	Op     string        // the event or call, such as "complete"
	Queue  string        // "" if the call is not about one queue
	TaskID uuid.UUID     // zero if the call is not about one task
	Class  dialect.Class // the class of the database's error; Unknown if there was none
	Err    error
}

// Error returns a text such as: dbq: complete task 0198c1f2-… of queue "mail": the lease is lost.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("dbq: " + e.Op)
	if e.TaskID != uuid.Nil {
		b.WriteString(" task " + e.TaskID.String())
	}
	if e.Queue != "" {
		fmt.Fprintf(&b, " of queue %q", e.Queue)
	}
	b.WriteString(": " + e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wrap makes an Error, unless err is nil or already an Error. It adds the sentinel of the class to a database's
// error.
func (c *Client) wrap(op, queue string, task uuid.UUID, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	if errors.Is(err, sqlrun.ErrTx) {
		err = &errs.InvalidError{Text: err.Error(), Of: ErrTx, Cause: err}
	}
	class := c.store.Class(err)
	if errors.Is(err, ErrMayHaveHappened) { // from an earlier try: the error of the last try must not hide it
		class = dialect.Ambiguous
	}
	if class == dialect.Unknown && c.store.Closed() && !errors.Is(err, ErrClosed) { // closed while the call was under way
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return &Error{Op: op, Queue: queue, TaskID: task, Class: class, Err: c.cfg.scrub(errs.WithSentinel(class, err))}
}

// IsConflict reports whether err means that the database rolled a transaction back because of another one: a
// deadlock, a serialization failure or a lock wait timeout. err can come from a call of this client or from a
// statement in the caller's own transaction. Nothing was committed, and the transaction can be repeated.
func (c *Client) IsConflict(err error) bool { return c.store.IsConflict(err) }
