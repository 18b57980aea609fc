package dbq

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// AttemptOutcome is how an attempt ended.
type AttemptOutcome string

// The outcomes of attempts.
const (
	AttemptCompleted AttemptOutcome = "completed"
	AttemptFailed    AttemptOutcome = "failed"
	AttemptPoisoned  AttemptOutcome = "poisoned"
	AttemptReleased  AttemptOutcome = "released"
	AttemptCrashed   AttemptOutcome = "crashed" // its lease expired, and the task was taken over
	AttemptLapsed    AttemptOutcome = "lapsed"  // its lease expired before it was marked as started; it does not count
	AttemptRevoked   AttemptOutcome = "revoked" // by an operator
)

// History selects which attempts are recorded. An existing task's last attempt is always kept in its row. History
// governs the earlier ones and, once the task is removed, the last one too. An attempt that completes and deletes its
// task is not recorded.
//
// An attempt that its worker did not end, because its lease expired or an operator revoked it, is always recorded. So
// is the last one of a task that an operator changes or purges.
type History string

// The values of History.
const (
	HistoryAll      History = "all"      // the default
	HistoryFailures History = "failures" // without those that completed their task
	HistoryNone     History = "none"
)

// Attempt is one try of a task that has ended.
type Attempt struct {
	Task    uuid.UUID      `json:"task"`
	Queue   string         `json:"queue"`
	Attempt int            `json:"attempt"` // counted from 1
	Fence   int64          `json:"fence"`   // unique among a task's attempts; a released one keeps its number
	Outcome AttemptOutcome `json:"outcome"`
	Taken   time.Time      `json:"taken"` // when the task was checked out, by the database's clock
	Ended   time.Time      `json:"ended"`
	Worker  string         `json:"worker"`
	Error   string         `json:"error,omitempty"` // cut at MaxResult bytes
}

// takenOver returns the attempt whose lease had expired when a checkout took the task over, or nil.
func takenOver(r dialect.Row) *Attempt {
	row := sqlrun.TakenOver(r)
	if row == nil {
		return nil
	}
	a := attemptOf(*row)
	return &a
}

func attemptOf(r sqlrun.AttemptRow) Attempt {
	return Attempt{Task: r.Task, Queue: r.Queue, Attempt: r.Attempt, Fence: r.Fence, Outcome: AttemptOutcome(r.Outcome),
		Taken: fromMicros(&r.Taken), Ended: fromMicros(&r.Ended), Worker: r.Worker, Error: string(r.Error)}
}
