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

// State is where a task stands; see package state for what leads where.
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
	// ID is the task's id; zero makes one. Only set it, to a NewID, to repeat an enqueue whose outcome is not known (see
	// ErrMayHaveHappened), or to keep the id of a task that moves between databases. The fences of such a task begin at
	// the database's clock in microseconds, above those of an earlier task with this id; many of them are settled more
	// slowly than tasks whose ids dbq made.
	ID uuid.UUID
	// Kind says what sort of task it is, for the worker that takes it. Up to MaxKind characters.
	Kind string
	// Payload is the task's input, up to Info.MaxPayload bytes. Nil and empty are told apart.
	Payload []byte
	// Reference is unique in the queue for as long as the task's row exists; "" is none. Up to MaxReference characters,
	// compared byte by byte.
	Reference string
	// Priority is 0 (first, the default) to MaxPriority.
	Priority int
	// RunAt is when the task is due at the earliest, in the database's time; zero is now.
	RunAt time.Time
	// Delay is the same counted from the database's now. Set RunAt or Delay, not both.
	Delay time.Duration
	// MaxAttempts is how often the task may be tried before it is POISON; 0 is the client's default.
	MaxAttempts int
	// Headers carry trace context and tags, up to MaxHeaders bytes as JSON.
	Headers map[string]string
}

// Task is a task as the database has it. Times are the database's, in UTC.
type Task struct {
	ID          uuid.UUID `json:"id"`
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind,omitempty"`
	Reference   string    `json:"reference,omitempty"`
	State       State     `json:"state"`
	Priority    int       `json:"priority"`
	Attempt     int       `json:"attempt"` // attempts begun, this one included
	MaxAttempts int       `json:"max_attempts"`
	// Lapses is how many leases of workers have run out before the attempt was known to have started. Such an attempt
	// does not count, but for each hundredth, with which Lapses start over.
	Lapses  int               `json:"lapses,omitempty"`
	Fence   int64             `json:"fence"` // grows with every change of owner
	Payload []byte            `json:"payload,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Result is what the last settling call left: the result of a completion, or the text of an error.
	Result []byte `json:"result,omitempty"`
	// Due is from when somebody may take the task; zero when nobody may: in work, finished, or parked.
	Due        time.Time `json:"due,omitzero"`
	LeaseUntil time.Time `json:"lease_until,omitzero"` // in work: when the lease runs out
	Holder     string    `json:"holder,omitempty"`     // who holds the lease, or held it last
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"` // when the task came into its state

	// Lease is the right to settle the task, and Waited how long the task had been due, by the database's clock; a task
	// that was taken over did not wait. Only Checkout fills them.
	Lease  Lease         `json:"-"`
	Waited time.Duration `json:"-"`
	// TakenOver is the attempt before this one, when its lease had run out and this checkout took the task over.
	TakenOver *Attempt `json:"-"`
}

// Parked reports whether the task is in ERROR without a due time: nothing retries it until an operator acts.
func (t Task) Parked() bool { return t.State == StateError && t.Due.IsZero() }

// Ended reports whether nothing more happens to the task by itself: COMPLETED, POISON or parked.
func (t Task) Ended() bool {
	return t.State == StateCompleted || t.State == StatePoison || t.Parked()
}

// Lease is the right to settle one task until it runs out. It is plain data and survives JSON, so it can be handed to
// another process.
type Lease struct {
	Task  uuid.UUID `json:"task"`
	Queue string    `json:"queue"`
	// Fence is a number that only grows for a task id, with every checkout, also when the task is removed and its id
	// enqueued again. Pass it on to other systems that should refuse a worker whose task was taken over.
	Fence int64 `json:"fence"`
	// Attempt is the attempt's number, from which Queue.Settle computes the backoff of a Failed.
	Attempt int `json:"attempt"`
	// Until is this process's own estimate of the lease's end, never later than the database's. It carries Go's monotonic
	// clock reading, so a clock that is set does not move it.
	Until time.Time `json:"until"`

	renewed bool // there is a renewal to remove when the lease ends
}

func (l Lease) stored() store.Lease { return store.Lease{Task: l.Task, Fence: l.Fence} }

// Tx is an open transaction of the caller's. What a call does in it is there when it commits and never was when it
// rolls back. dbq neither commits nor retries it; a transaction that has ended is ErrTx.
//
// A pool or a connection outside a transaction does not have these methods. What has them:
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
		ID: r.ID, Queue: r.Queue, Kind: r.Kind, Reference: text(r.Reference), State: r.State, Priority: r.Priority,
		Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Lapses: r.Lapses, Fence: r.Fence,
		Payload: r.Payload, Result: r.Result,
		Due: fromMicros(r.Due), LeaseUntil: fromMicros(r.LeaseUntil), Holder: text(r.Holder),
		Created: fromMicros(&r.Created), Updated: fromMicros(&r.Updated), TakenOver: takenOver(r),
	}
	if len(r.Headers) > 0 {
		// Only dbq writes the column; a row edited by hand into something else is shown without headers.
		_ = json.Unmarshal(r.Headers, &t.Headers)
	}
	return t
}
