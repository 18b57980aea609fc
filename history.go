package dbq

import (
	"time"

	"github.com/dbq-go/dbq/dialect"
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
	AttemptCrashed   AttemptOutcome = "crashed" // its lease ran out, and the task was taken over
	AttemptLapsed    AttemptOutcome = "lapsed"  // its lease ran out before it is known to have started: it does not count
	AttemptRevoked   AttemptOutcome = "revoked" // by an operator
)

// History says which attempts the history has, beside the last one of each task, which is in the task's row: of a task
// that had several attempts those before the last, and of a task that was removed the last one, too. A task that an
// attempt completes and deletes leaves none of that attempt.
//
// An attempt that its worker did not end, since its lease ran out or an operator revoked it, is recorded in any case.
// So is the last one of a task that an operator changes or purges.
type History string

// The choices.
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
	Started time.Time      `json:"started"` // when the task was checked out, by the database's clock
	Ended   time.Time      `json:"ended"`
	Worker  string         `json:"worker"`
	Error   string         `json:"error,omitempty"` // cut at MaxResult bytes
}

// takenOver is the attempt that a checkout found with its lease run out.
func takenOver(r dialect.Row) *Attempt {
	row := r.TakenOver()
	if row == nil {
		return nil
	}
	a := attemptOf(*row)
	return &a
}

func attemptOf(r dialect.AttemptRow) Attempt {
	return Attempt{Task: r.Task, Queue: r.Queue, Attempt: r.Attempt, Fence: r.Fence, Outcome: AttemptOutcome(r.Outcome),
		Started: fromMicros(&r.Started), Ended: fromMicros(&r.Ended), Worker: r.Worker, Error: string(r.Error)}
}
