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
	AttemptCrashed   AttemptOutcome = "crashed"   // its lease expired, and the task was taken over
	AttemptLapsed    AttemptOutcome = "lapsed"    // its lease expired before it was marked as started; it does not count
	AttemptRevoked   AttemptOutcome = "revoked"   // by an operator
	AttemptCancelled AttemptOutcome = "cancelled" // by an operator
)

// History selects which attempts are recorded. The last attempt of an existing task is always stored in its row.
// History applies to earlier attempts and, once the task is removed, to the last one too. An attempt that completes
// and deletes its task is not recorded.
//
// An attempt that its worker did not end, because its lease expired or an operator revoked or cancelled it, is always
// recorded. So is the last one of a task that an operator changes or purges.
type History string

// The values of History.
const (
	HistoryAll      History = "all"      // the default
	HistoryFailures History = "failures" // omits attempts that completed their task
	HistoryNone     History = "none"
)

// Attempt is one ended attempt of a task.
type Attempt struct {
	TaskID  uuid.UUID      `json:"task_id"`
	Queue   string         `json:"queue"`
	Number  int            `json:"number"` // counted from 1
	Fence   int64          `json:"fence"`  // unique among a task's attempts, unlike Number: a release does not count
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
	return Attempt{TaskID: r.Task, Queue: r.Queue, Number: int(r.Attempt), Fence: r.Fence,
		Outcome: AttemptOutcome(r.Outcome), Taken: fromMicros(&r.Taken), Ended: fromMicros(&r.Ended), Worker: r.Worker,
		Error: string(r.Error)}
}
