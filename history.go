package dbq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of attempts.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeFailed    Outcome = "failed"
	OutcomePoisoned  Outcome = "poisoned"
	OutcomeReleased  Outcome = "released"
	OutcomeSettled   Outcome = "settled" // by the handler itself, otherwise than by completing it
	OutcomeCrashed   Outcome = "crashed" // its lease ran out, and the task was taken over
	OutcomeLapsed    Outcome = "lapsed"  // its lease ran out before it is known to have started: it does not count
	OutcomeRevoked   Outcome = "revoked" // by an operator
)

// History says which attempts a queue's workers record.
type History string

// The choices. Recording an attempt is one more row to write for it.
const (
	HistoryAll      History = "all"      // the default
	HistoryFailures History = "failures" // those that did not complete their task
	HistoryNone     History = "none"
)

// Records reports whether an attempt with an outcome is recorded.
func (h History) Records(o Outcome) bool {
	return h != HistoryNone && (h != HistoryFailures || o != OutcomeCompleted && o != OutcomeSettled)
}

// Attempt is one try of a task, as the history has it.
type Attempt struct {
	Task    uuid.UUID `json:"task"`
	Queue   string    `json:"queue"`
	Attempt int       `json:"attempt"` // counted from 1
	Fence   int64     `json:"fence"`   // what makes it one of a kind: attempts that were released have the same number
	Outcome Outcome   `json:"outcome"`
	Started time.Time `json:"started"` // by the worker's clock; of one that crashed, by the database's
	Ended   time.Time `json:"ended"`
	Worker  string    `json:"worker"`
	Error   string    `json:"error,omitempty"` // cut at MaxResult bytes
}

// maxAttemptsRead bounds Attempts.
const maxAttemptsRead = 1000

// Record adds attempts of the queue's tasks to the history. One that is there already, by task and fence, is left out, so that Record can be
// repeated. It is apart from settling: a worker that dies in between has settled without a record. At most MaxBulk at once.
func (q *Queue) Record(ctx context.Context, as []Attempt) error {
	err := checkQueueName(q.name)
	if err == nil && len(as) > 0 {
		err = checkCount(len(as), MaxBulk)
	}
	if err == nil {
		// By task and fence, so that two who record the same wait for each other in one direction only.
		as = slices.Clone(as)
		slices.SortFunc(as, func(a, b Attempt) int {
			return cmp.Or(slices.Compare(a.Task[:], b.Task[:]), cmp.Compare(a.Fence, b.Fence))
		})
		alike, rest := q.c.alike(as)
		if err = q.recordAlike(ctx, alike); err == nil {
			err = q.record(ctx, rest)
		}
	}
	return q.c.wrap("record", q.name, uuid.Nil, err)
}

// alike parts attempts that share the outcome, the worker, and that they have no error, when there are enough of them for a statement of
// their own and the engine has one.
func (c *Client) alike(as []Attempt) (alike, rest []Attempt) {
	if c.s.Statements.RecordAlike.SQL == "" || len(as) < alikeLeast {
		return nil, as
	}
	for _, a := range as {
		if a.Outcome == as[0].Outcome && a.Worker == as[0].Worker && a.Error == "" {
			alike = append(alike, a)
		} else {
			rest = append(rest, a)
		}
	}
	if len(alike) < alikeLeast {
		return nil, as
	}
	return alike, rest
}

// recordAlike records what is most likely new. When some of it is there already, all are recorded one by one.
func (q *Queue) recordAlike(ctx context.Context, as []Attempt) error {
	if len(as) == 0 {
		return nil
	}
	args, err := q.attemptArgs(as)
	if err != nil {
		return err
	}
	args["outcome"], args["worker"] = string(as[0].Outcome), as[0].Worker
	err = q.c.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		_, err := q.c.s.ExecBatch(ctx, conn, q.c.s.Statements.RecordAlike, args, len(as))
		return err
	})
	if q.c.s.Class(err) == dialect.Duplicate { // and nothing was added
		err = q.record(ctx, as)
	}
	return err
}

func (q *Queue) record(ctx context.Context, as []Attempt) error {
	if len(as) == 0 {
		return nil
	}
	args, err := q.attemptArgs(as)
	if err != nil {
		return err
	}
	return q.c.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		_, err := q.c.s.ExecBatch(ctx, conn, q.c.s.Statements.Record, args, len(as))
		return err
	})
}

func (q *Queue) attemptArgs(as []Attempt) (dialect.Args, error) {
	n := len(as)
	id, fence, attempt := make(dialect.Col[uuid.UUID], n), make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	outcome, worker := make(dialect.Col[string], n), make(dialect.Col[string], n)
	started, ended := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	texts := make(dialect.Col[[]byte], n)
	for i, a := range as {
		switch a.Outcome {
		case OutcomeCompleted, OutcomeFailed, OutcomePoisoned, OutcomeReleased, OutcomeSettled, OutcomeCrashed,
			OutcomeLapsed, OutcomeRevoked:
		default:
			return nil, fmt.Errorf("%w: the outcome %q of an attempt", ErrOption, a.Outcome)
		}
		if err := checkText(a.Worker, 0, MaxReference, ErrOption, "worker's name"); err != nil {
			return nil, err
		}
		id[i], fence[i], attempt[i], outcome[i], worker[i] = a.Task, a.Fence, int64(a.Attempt), string(a.Outcome), a.Worker
		started[i], ended[i] = a.Started.UnixMicro(), a.Ended.UnixMicro()
		if a.Error != "" {
			texts[i] = cutResult([]byte(a.Error))
		}
	}
	return dialect.Args{"id": id, "fence": fence, "queue": q.name, "attempt": attempt, "outcome": outcome, "started": started, "ended": ended,
		"worker": worker, "error": texts}, nil
}

// Attempts reads what the history has of a task, in order: at most the first 1000. None is no error.
func (c *Client) Attempts(ctx context.Context, task uuid.UUID) ([]Attempt, error) {
	var rows []dialect.AttemptRow
	err := c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = dialect.QueryAs[dialect.AttemptRow](ctx, c.s, conn, c.s.Statements.Attempts, dialect.Args{"id": task, "limit": maxAttemptsRead})
		return err
	})
	if err != nil {
		return nil, c.wrap("attempts", "", task, err)
	}
	out := make([]Attempt, len(rows))
	for i, r := range rows {
		out[i] = Attempt{Task: r.Task, Queue: r.Queue, Attempt: r.Attempt, Fence: r.Fence, Outcome: Outcome(r.Outcome),
			Started: fromMicros(&r.Started), Ended: fromMicros(&r.Ended), Worker: r.Worker, Error: string(r.Error)}
	}
	return out, nil
}

// takenOver is the attempt that a checkout found with its lease run out.
func takenOver(r dialect.Row) *Attempt {
	if r.WasHolder == nil {
		return nil
	}
	a := &Attempt{Task: r.ID, Queue: r.Queue, Attempt: r.WasAttempt, Fence: r.Fence - 1, Outcome: OutcomeCrashed,
		Started: fromMicros(r.WasTaken), Ended: fromMicros(r.WasUntil), Worker: workerOf(*r.WasHolder), Error: "the lease ran out"}
	if r.State == StateProcessing && r.Attempt == r.WasAttempt {
		a.Outcome, a.Error = OutcomeLapsed, "the lease ran out before the attempt was known to have started"
	}
	return a
}
