package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The last attempt of a task is in the task's row: when it began, and how it ended. An earlier attempt, or one of a
// removed task, is a row of the history. It is written in the transaction that ends the attempt or removes the task.

// History selects the attempts that the history keeps; see dbq.History.
type History string

// keepsLast reports whether the history keeps the last attempt of a task that is removed in a state.
func (h History) keepsLast(in state.State) bool {
	return h != "none" && (h != "failures" || in != state.Completed)
}

// maxAttemptsRead bounds Attempts.
const maxAttemptsRead = 1000

// Attempts reads the first 1000 attempts of a task and its last one, in order.
func (s *Store) Attempts(ctx context.Context, task uuid.UUID) (as []sqlrun.AttemptRow, err error) {
	args := dialect.Args{"id": task, "limit": maxAttemptsRead}
	as, err = read(ctx, s, func(ctx context.Context, conn dialect.Conn) ([]sqlrun.AttemptRow, error) {
		// Read the rows first: an attempt that leaves its row before the second query is then in the history.
		last, err := s.sql.Query(ctx, conn, s.sql.Texts.LastAttempt, args)
		if err != nil {
			return nil, err
		}
		as, err := sqlrun.QueryAs[sqlrun.AttemptRow](ctx, s.sql, conn, s.sql.Texts.Attempts, args)
		for _, r := range last {
			has := func(a sqlrun.AttemptRow) bool { return a.Fence == r.Fence }
			if a, ok := lastAttempt(r); ok && !slices.ContainsFunc(as, has) {
				as = append(as, a)
			}
		}
		return as, err
	})
	slices.SortFunc(as, func(a, b sqlrun.AttemptRow) int { return cmp.Compare(a.Fence, b.Fence) })
	return as, err
}

// lastOutcomes is how the last attempt of a task ended, by the task's state. The attempts of a task in CREATED are all
// in the history.
var lastOutcomes = map[state.State]string{
	state.Completed: "completed", state.Error: "failed", state.Poison: "poisoned",
}

// lastAttempt returns the attempt that is stored in a task's row, if any.
func lastAttempt(r dialect.Row) (a sqlrun.AttemptRow, ok bool) {
	outcome, ok := lastOutcomes[r.State]
	if !ok || r.Taken == nil {
		return a, false
	}
	a = attemptOf(r, outcome)
	if r.State != state.Completed {
		a.Error = r.Result
	}
	return a, true
}

func attemptOf(r dialect.Row, outcome string) sqlrun.AttemptRow {
	a := sqlrun.AttemptRow{Task: r.ID, Queue: r.Queue, Attempt: int64(r.Attempt), Fence: r.Fence, Outcome: outcome,
		Taken: *r.Taken, Ended: r.Updated}
	if r.Holder != nil {
		a.Worker = sqlrun.WorkerOf(*r.Holder)
	}
	return a
}

// Record adds up to bounds.MaxBulk attempts of a queue's tasks to the history. It skips an attempt that is already
// there, by task and fence, so it can be repeated. It sorts the attempts and ignores their Queue. Errors are cut at
// bounds.MaxResult bytes.
func (s *Store) Record(ctx context.Context, queue string, as []sqlrun.AttemptRow) error {
	return s.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		return s.record(ctx, conn, queue, as)
	})
}

func (s *Store) record(ctx context.Context, conn dialect.Conn, queue string, as []sqlrun.AttemptRow) error {
	// In the order of tasks and fences, so that two calls with the same attempts never deadlock.
	slices.SortFunc(as, func(a, b sqlrun.AttemptRow) int {
		return cmp.Or(compareIDs(a.Task, b.Task), cmp.Compare(a.Fence, b.Fence))
	})
	for i := range as {
		as[i].Error = bounds.CutResult(as[i].Error)
	}
	return s.sql.Record(ctx, conn, queue, as)
}

// recordLast copies the last attempts of tasks from their rows to the history. errors replace those in the rows.
func (s *Store) recordLast(ctx context.Context, conn dialect.Conn, ids []uuid.UUID, errors [][]byte) error {
	size := make(dialect.Col[*int64], len(ids))
	for i, e := range errors {
		size[i] = sizeOf(e)
	}
	_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.RecordLast, dialect.Args{"id": dialect.Col[uuid.UUID](ids),
		"error": dialect.Col[[]byte](errors), "error_size": size}, len(ids))
	return err
}

// recordRemoved adds the last attempts of tasks to the history, before the tasks are removed.
func (s *Store) recordRemoved(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error {
	return s.recordLast(ctx, conn, ids, make([][]byte, len(ids)))
}

// recordMoved adds the attempts that an operation has ended to the history. It ignores the History setting: the rows no
// longer have these attempts, and the worker of a revoked task cannot record its attempt.
func (s *Store) recordMoved(ctx context.Context, conn dialect.Conn, op Operation, moved []dialect.Row) error {
	byQueue := map[string][]sqlrun.AttemptRow{}
	for _, r := range moved {
		a, ok := lastAttempt(r)
		if r.State == state.Processing && r.Taken != nil { // the event ended its attempt
			a, ok = attemptOf(r, op.Transition.Past), true
			a.Ended, a.Error = r.Now, []byte(op.text())
		}
		if ok {
			byQueue[r.Queue] = append(byQueue[r.Queue], a)
		}
	}
	for queue, as := range byQueue {
		if err := s.record(ctx, conn, queue, as); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf returns the value of :payload_size or :result_size: the length, or null for none.
func sizeOf(b []byte) *int64 {
	if b == nil {
		return nil
	}
	n := int64(len(b))
	return &n
}
