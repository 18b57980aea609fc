package dialect

import (
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Row is a row of the task table. A statement can omit columns; the fields are found by the columns' names. Times are
// microseconds since 1970 in UTC by the database's clock, so no session time zone, daylight saving change or driver
// can alter them.
type Row struct {
	ID           uuid.UUID   `db:"id"`
	Queue        string      `db:"queue"`
	Reference    *string     `db:"reference"`
	Kind         string      `db:"kind"`
	TaskKey      *string     `db:"task_key"`
	State        state.State `db:"state"`
	Priority     int         `db:"priority"`
	Attempt      int         `db:"attempt"`
	MaxAttempts  int         `db:"max_attempts"`
	Lapses       int         `db:"lapses"`        // leases that ended with an attempt not known to have started
	KnownStarted int         `db:"known_started"` // a takeover: 1 when the attempt is known to have started
	Cancelled    int         `db:"cancelled"`     // 1 when the task is POISON because it was cancelled
	Fence        int64       `db:"fence"`
	Due          *int64      `db:"due"`
	LeaseUntil   *int64      `db:"lease_until"`
	Holder       *string     `db:"holder"`
	Taken        *int64      `db:"taken"` // when the last attempt began; null if the row does not have its outcome
	Created      int64       `db:"created"`
	Updated      int64       `db:"updated"`
	Headers      []byte      `db:"headers"`
	Payload      []byte      `db:"payload"`
	Result       []byte      `db:"result"`
	Progress     []byte      `db:"progress"` // null if none is stored; it is never empty
	WasDue       int64       `db:"was_due"`  // checkout: when the row became due
	Now          int64       `db:"now"`      // the database's clock when the row was read
	Cut          bool        `db:"cut"`      // of a statement that leases: it left due tasks out; see kit.Budget.Add

	// The previous lease of a task that was taken over: its holder, start and end, and the number of its attempt.
	WasHolder  *string `db:"was_holder"`
	WasTaken   *int64  `db:"was_taken"`
	WasUntil   *int64  `db:"was_until"`
	WasAttempt int     `db:"was_attempt"`

	// PayloadSize and ResultSize are the lengths of the two, for engines or drivers that read an empty value as null.
	// PayloadSize is also set if a search omits the payload.
	PayloadSize *int64 `db:"payload_size"`
	ResultSize  *int64 `db:"result_size"`
}

// PayloadBytes returns the length of the payload, even if the row was read without the payload.
func (r *Row) PayloadBytes() int64 {
	if r.PayloadSize != nil {
		return *r.PayloadSize
	}
	return int64(len(r.Payload))
}
