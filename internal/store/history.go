package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The last attempt of a task is in its row: when it began, and how it ended. An attempt that another one follows, and
// that of a task which is removed, is a row of the history, written in the transaction that ends it or removes the
// task.

// History says which attempts the history has, as dbq.History.
type History string

// keepsLast reports whether the history is to have the last attempt of a task that is removed in a state.
func (h History) keepsLast(in state.State) bool {
	return h != "none" && (h != "failures" || in != state.Completed)
}

// maxAttemptsRead bounds Attempts.
const maxAttemptsRead = 1000

// Attempts reads the first 1000 attempts of a task and its last one, in order.
func (s *Store) Attempts(ctx context.Context, task uuid.UUID) (as []sqlrun.AttemptRow, err error) {
	args := dialect.Args{"id": task, "limit": maxAttemptsRead}
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) error {
		// Read the rows first: an attempt that leaves its row before the second query is then in the history.
		last, err := s.sql.Query(ctx, conn, s.sql.Texts.LastAttempt, args)
		if err != nil {
			return err
		}
		as, err = sqlrun.QueryAs[sqlrun.AttemptRow](ctx, s.sql, conn, s.sql.Texts.Attempts, args)
		for _, r := range last {
			has := func(a sqlrun.AttemptRow) bool { return a.Fence == r.Fence }
			if a, ok := lastAttempt(r); ok && !slices.ContainsFunc(as, has) {
				as = append(as, a)
			}
		}
		return err
	})
	slices.SortFunc(as, func(a, b sqlrun.AttemptRow) int { return cmp.Compare(a.Fence, b.Fence) })
	return as, err
}

// lastOutcomes are how the last attempt of a task ended, by its state. What is CREATED has its attempts in the history.
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
	a := sqlrun.AttemptRow{Task: r.ID, Queue: r.Queue, Attempt: r.Attempt, Fence: r.Fence, Outcome: outcome,
		Taken: *r.Taken, Ended: r.Updated}
	if r.Holder != nil {
		a.Worker = sqlrun.WorkerOf(*r.Holder)
	}
	return a
}

// Record adds attempts of a queue's tasks to the history, up to limits.MaxBulk. One that is there already, by task and
// fence, is left out, so that Record can be repeated. It sorts the attempts; their Queue is not used. Errors are cut at
// limits.MaxResult bytes.
func (s *Store) Record(ctx context.Context, queue string, as []sqlrun.AttemptRow) error {
	return s.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		return s.record(ctx, conn, queue, as)
	})
}

func (s *Store) record(ctx context.Context, conn dialect.Conn, queue string, as []sqlrun.AttemptRow) error {
	if len(as) == 0 {
		return nil
	}
	// By task and fence, so that two callers who record the same attempts wait for each other in one direction only.
	slices.SortFunc(as, func(a, b sqlrun.AttemptRow) int {
		return cmp.Or(slices.Compare(a.Task[:], b.Task[:]), cmp.Compare(a.Fence, b.Fence))
	})
	for i := range as {
		as[i].Error = limits.CutResult(as[i].Error)
	}
	_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.Record, sqlrun.RecordArgs(queue, as), len(as))
	return err
}

// recordLast adds the last attempts of tasks to the history, from their rows, with the errors given instead of the
// rows'.
func (s *Store) recordLast(ctx context.Context, conn dialect.Conn, ids []uuid.UUID, errors [][]byte) error {
	if len(ids) == 0 {
		return nil
	}
	size := make(dialect.Col[*int64], len(ids))
	for i, e := range errors {
		size[i] = sizeOf(e)
	}
	_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.RecordLast, dialect.Args{"id": dialect.Col[uuid.UUID](ids),
		"error": dialect.Col[[]byte](errors), "error_size": size}, len(ids))
	return err
}

// recordRemoved adds the last attempts of tasks that are to be removed to the history.
func (s *Store) recordRemoved(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error {
	return s.recordLast(ctx, conn, ids, make([][]byte, len(ids)))
}

// recordMoved adds to the history the last attempts of tasks that an operation has changed, whatever the settings:
// the rows no longer have them, and the worker of a revoked attempt cannot record them.
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

// sizeOf is the length of a payload or a result as :payload_size and :result_size have it: null for none.
func sizeOf(b []byte) *int64 {
	if b == nil {
		return nil
	}
	n := int64(len(b))
	return &n
}
