package dbq

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// State is the state of a task; see package state for the transitions.
type State = state.State

// The states of a task.
const (
	StateCreated    = state.Created
	StateProcessing = state.Processing
	StateCompleted  = state.Completed
	StateError      = state.Error
	StatePoison     = state.Poison
)

// NewTask is a task to enqueue. The zero value is a task without payload that is due now.
type NewTask struct {
	// ID is the task's id. Zero generates one. Set it to a NewID only to be able to repeat an enqueue whose outcome is
	// not known (see ErrMayHaveHappened), or to keep the id of a task that moves between databases. The fences of such
	// a task start at the database's clock in microseconds, above those of any earlier task with this id. If a task of
	// another queue has the id, the enqueue is refused with ErrWrongQueue. Large batches of such tasks are settled more
	// slowly.
	ID uuid.UUID
	// Kind is the name of the task's type, up to MaxKind characters. A worker's Mux selects the handler by kind.
	Kind string
	// Payload is the task's input, up to Info.MaxPayload bytes. Nil and empty are distinct.
	Payload []byte
	// Reference is unique in the queue for as long as the task's row exists; "" is none. Up to MaxReference characters,
	// compared byte by byte.
	Reference string
	// Unique makes the task exclude others with the same key: while it waits, until it ends, or for a period. Nil means
	// none. Unlike a Reference, a key can be used again.
	Unique *Unique
	// Key is the tenant, customer or account that the task belongs to, up to MaxKey characters, compared byte by byte;
	// "" is none. It matters in queues with limits per key (admin.Admin.ConfigureLimits).
	Key string
	// Priority is 0 (first, the default) to MaxPriority.
	Priority int
	// RunAt is the earliest time at which the task is due, by the database's clock. Zero means now.
	RunAt time.Time
	// Delay is the time from the database's now until the task is due. Set RunAt or Delay, not both.
	Delay time.Duration
	// MaxAttempts is the number of attempts after which a failed task goes to POISON. Zero means the client's default.
	MaxAttempts int
	// Headers carry trace context and tags, up to MaxHeaders bytes as JSON.
	Headers map[string]string
}

// Task is a stored task. Times are by the database's clock, in UTC.
type Task struct {
	ID          uuid.UUID `json:"id"`
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind,omitempty"`
	Reference   string    `json:"reference,omitempty"`
	Key         string    `json:"key,omitempty"`
	State       State     `json:"state"`
	Priority    int       `json:"priority"`
	Attempt     int       `json:"attempt"` // the current or last attempt, counted from 1
	MaxAttempts int       `json:"max_attempts"`
	// Lapses is how many leases expired before the attempt was marked as started. Such an attempt does not count,
	// except every hundredth, which resets Lapses.
	Lapses int `json:"lapses,omitempty"`
	// Cancelled says that an operator has cancelled the task. It is in POISON then.
	Cancelled bool              `json:"cancelled,omitempty"`
	Fence     int64             `json:"fence"` // grows with every change of owner
	Payload   []byte            `json:"payload,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	// Result is the result of a completion, or the text of the last error.
	Result []byte `json:"result,omitempty"`
	// Progress is the last progress that the task's attempts have stored; see Lease.Progress. A completion removes it.
	Progress []byte `json:"progress,omitempty"`
	// Due is when the task is due. It is zero while the task is leased, ended, parked or Blocked.
	Due time.Time `json:"due,omitzero"`
	// Blocked says that the task waits for others of its workflow. It is in CREATED then; see package workflow.
	Blocked    bool      `json:"blocked,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"` // when the lease expires; zero unless PROCESSING
	Holder     string    `json:"holder,omitempty"`     // the holder of the lease, or its last holder
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"` // when the task entered its state

	// Lease is the right to settle the task. Waited is how long the task had been due, by the database's clock; it is
	// zero for a task that was taken over. Only Checkout sets them.
	Lease  Lease         `json:"-"`
	Waited time.Duration `json:"-"`
	// TakenOver is the previous attempt, if its lease had expired and this checkout took the task over.
	TakenOver *Attempt `json:"-"`
}

// Parked reports whether the task is in ERROR without a due time. It is not retried until an operator acts.
func (t Task) Parked() bool { return t.State == StateError && t.Due.IsZero() }

// Ended reports whether the task is COMPLETED, POISON or parked. Such a task is not handed out again unless an
// operator acts.
func (t Task) Ended() bool {
	return t.State == StateCompleted || t.State == StatePoison || t.Parked()
}

// Lease is the exclusive right to settle one task until the lease expires. It is plain data and can be passed to
// another process as JSON.
type Lease struct {
	TaskID uuid.UUID `json:"task_id"`
	Queue  string    `json:"queue"`
	// Fence increases for a task id with every change of owner, even if the task is removed and its id is enqueued
	// again. Pass it to other systems that must refuse a worker whose task was taken over.
	Fence int64 `json:"fence"`
	// Attempt is the attempt's number. Queue.Settle computes the backoff of a Failed from it.
	Attempt int `json:"attempt"`
	// Until is this process's estimate of the lease's end, never later than the database's. It has a monotonic clock
	// reading, so setting the clock does not move it. JSON keeps only the wall-clock time, and the clock of another
	// process may differ: call Queue.Extend there to get an Until by that process's clock.
	Until time.Time `json:"until"`
	// Renewed is set by Queue.Extend on engines that store each renewal as a separate row. The call that settles the
	// lease then removes that row.
	Renewed bool `json:"renewed,omitempty"`
	// Token is the lease as the HTTP API knows it, for the queues of package client. Those of a database ignore it.
	Token string `json:"token,omitempty"`
	// Progress is the holder's progress so far, up to MaxProgress bytes of any form. Set it, and Queue.Extend stores
	// it, as do the outcomes after which the task is not completed. Operators see it in Task.Progress, and so does the
	// next attempt. Empty keeps what is stored.
	Progress []byte `json:"progress,omitempty"`
}

func (l Lease) key() store.LeaseKey { return store.LeaseKey{TaskID: l.TaskID, Fence: l.Fence} }

// Tx is an open transaction of the caller. The changes of a call in it are committed or rolled back with it. dbq
// neither commits nor retries the transaction; for one that has ended, the call returns ErrTx.
//
// A pool or a connection outside a transaction does not have these methods. These types do:
//
//   - *sql.Tx and *sqlx.Tx; bun.Tx, whose *sql.Tx is used;
//   - gorm's, as tx.Statement.ConnPool.(dbq.Tx) in a transaction of gorm on the database's own *sql.DB;
//   - a pgx.Tx wrapped by postgres.Tx of dialect/postgres.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

func fromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us).UTC()
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func taskOf(r dialect.Row) Task {
	t := Task{
		ID: r.ID, Queue: r.Queue, Kind: r.Kind, Reference: text(r.Reference), Key: text(r.TaskKey), State: r.State,
		Priority: r.Priority,
		Attempt:  r.Attempt, MaxAttempts: r.MaxAttempts, Lapses: r.Lapses,
		Cancelled: r.Cancelled != 0, Fence: r.Fence,
		Payload: r.Payload, Result: r.Result, Progress: r.Progress,
		Due: fromMicros(r.Due), LeaseUntil: fromMicros(r.LeaseUntil), Holder: text(r.Holder),
		Created: fromMicros(&r.Created), Updated: fromMicros(&r.Updated), TakenOver: takenOver(r),
	}
	if t.Blocked = store.Blocked(r); t.Blocked {
		t.Due = time.Time{}
	}
	if len(r.Headers) > 0 {
		// Only dbq writes the column. If a row was edited by hand and is not JSON, it is shown without headers.
		_ = json.Unmarshal(r.Headers, &t.Headers)
	}
	return t
}
