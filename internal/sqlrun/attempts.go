package sqlrun

import (
	"context"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// AttemptRow is an attempt of the history. Times are as in dialect.Row.
type AttemptRow struct {
	Task    uuid.UUID `db:"task" arg:"id"`
	Fence   int64     `db:"fence"`
	Queue   string    `db:"queue"`
	Attempt int64     `db:"attempt"`
	Outcome string    `db:"outcome"`
	Taken   int64     `db:"taken"`
	Ended   int64     `db:"ended"`
	Worker  string    `db:"worker"`
	Error   []byte    `db:"error"`
}

// The error of an attempt whose lease expired, in the history. A dialect that records takeovers in SQL writes the same.
const (
	crashed, crashedError = "crashed", "the lease expired"
	lapsed, lapsedError   = "lapsed", "the lease expired before the attempt was known to have started"
)

// TakenOver returns the attempt whose lease had expired when checkout took the row over, or nil.
func TakenOver(r dialect.Row) *AttemptRow {
	if r.WasHolder == nil || r.WasTaken == nil || r.WasUntil == nil {
		return nil
	}
	a := &AttemptRow{
		Task: r.ID, Queue: r.Queue, Attempt: int64(r.WasAttempt), Fence: r.Fence - 1, Worker: WorkerOf(*r.WasHolder),
		Taken: *r.WasTaken, Ended: *r.WasUntil, Outcome: crashed, Error: []byte(crashedError),
	}
	if r.State == state.Processing && r.Attempt == r.WasAttempt {
		a.Outcome, a.Error = lapsed, []byte(lapsedError)
	}
	return a
}

// WorkerOf returns the worker that made a checkout, by the checkout's token.
func WorkerOf(token string) string {
	if at := strings.LastIndexByte(token, '#'); at >= 0 {
		return token[:at]
	}
	return token
}

// Record adds attempts of one queue to the history, on c.
func (s *Session) Record(ctx context.Context, c dialect.Conn, queue string, as []AttemptRow) error {
	args := ColumnsOf(as)
	args["queue"] = queue
	_, err := s.ExecBatch(ctx, c, s.Texts.Record, args, len(as))
	return err
}

// RecordTakenOver adds to the history the attempts that a takeover of rows ended, and calls EnqueueNotices. rows are
// of one queue.
func (s *Session) RecordTakenOver(ctx context.Context, c dialect.Conn, rows []dialect.Row) error {
	var as []AttemptRow
	for _, r := range rows {
		if a := TakenOver(r); a != nil {
			as = append(as, *a)
		}
	}
	if len(as) == 0 {
		return nil
	}
	if err := s.Record(ctx, c, as[0].Queue, as); err != nil {
		return err
	}
	return s.EnqueueNotices(ctx, c, rows)
}

// EnqueueNotices calls OnPoison for the rows in POISON. rows are of one queue.
func (s *Session) EnqueueNotices(ctx context.Context, c dialect.Conn, rows []dialect.Row) error {
	var ids []uuid.UUID
	for i := range rows {
		if rows[i].State == state.Poison {
			ids = append(ids, rows[i].ID)
		}
	}
	if len(ids) == 0 || s.OnPoison == nil {
		return nil
	}
	return s.OnPoison(ctx, c, rows[0].Queue, ids)
}
