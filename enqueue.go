package dbq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// Enqueued is the outcome of one task of an EnqueueMany.
type Enqueued struct {
	// ID is the task's id. For a duplicate it is the id of the existing task, or zero if that task has been removed
	// since or the transaction cannot see it.
	ID uuid.UUID `json:"id,omitzero"`
	// Duplicate reports that nothing was added or changed: the reference, the id or the unique key was taken, by an
	// existing task or by an earlier one of the call.
	Duplicate bool `json:"duplicate,omitempty"`
	// Replaced and Debounced report that nothing was added, because the unique key was taken, and that the waiting task
	// ID was changed as Unique.OnConflict says.
	Replaced  bool `json:"replaced,omitempty"`
	Debounced bool `json:"debounced,omitempty"`
}

// Enqueue adds a task and returns its id. If it returns no error, the task is committed. If the reference or the unique
// key is taken, it returns ErrDuplicate and the existing task's id. If it replaces or debounces that task, as
// Unique.OnConflict says, it returns the id without an error. Invalid input is ErrInvalid.
//
// If the answer to the insert is lost, Enqueue searches for the task for a few hundred milliseconds. If it does not
// find the task, it cannot determine whether the task was never added, or was added, completed and removed. It then
// returns ErrMayHaveHappened, with the task's id in Error.TaskID, and does not insert again. The documentation of
// ErrMayHaveHappened describes when to repeat the call.
//
// If the server is silent, Enqueue returns within half a minute even if ctx has no deadline; large payloads add a
// second for each megabyte. It can wait longer for a pool whose connections are all in use.
func (q *Queue) Enqueue(ctx context.Context, t NewTask) (uuid.UUID, error) {
	out, err := q.EnqueueMany(ctx, []NewTask{t})
	return q.enqueuedOne(out, err)
}

// EnqueueTx is Enqueue in the caller's transaction: the task exists once the transaction commits. If the connection is
// lost, it returns ErrUnavailable: no commit was sent, so nothing in the transaction happened.
func (q *Queue) EnqueueTx(ctx context.Context, tx Tx, t NewTask) (uuid.UUID, error) {
	out, err := q.EnqueueManyTx(ctx, tx, []NewTask{t})
	return q.enqueuedOne(out, err)
}

func (q *Queue) enqueuedOne(out []Enqueued, err error) (uuid.UUID, error) {
	if err != nil {
		return uuid.Nil, err
	}
	if out[0].Duplicate {
		return out[0].ID, &Error{Op: "enqueue", Queue: q.name, TaskID: out[0].ID, Class: dialect.Duplicate, Err: ErrDuplicate}
	}
	return out[0].ID, nil
}

// EnqueueMany adds up to MaxBulk tasks in one transaction: all of them or, on an error, none. It returns the outcome
// of each task, in the order given; a task that already exists is reported as a duplicate. Tasks of one priority that
// are due at the same time are handed out in the order given. With no tasks it does nothing. ErrMayHaveHappened means
// that either all or none were added; see Enqueue.
func (q *Queue) EnqueueMany(ctx context.Context, ts []NewTask) (out []Enqueued, err error) {
	defer q.end("enqueue", len(ts), time.Now(), &err)
	ts, rows, err := q.newRows(ctx, ts)
	if err != nil || len(ts) == 0 {
		return nil, err
	}
	insert := q.c.store.Insert
	if unique(ts) {
		insert = q.c.store.InsertUnique
	}
	inserted, err := insert(ctx, q.name, rows)
	if len(ts) == 1 && errors.Is(err, ErrMayHaveHappened) {
		err = q.c.wrap("enqueue", q.name, rows[0].ID, err)
	}
	if err != nil {
		return nil, err
	}
	out = enqueued(inserted)
	if late := backdated(ts); late > 0 {
		q.c.store.Backdated(q.name, late)
	}
	q.c.wake.Wake(q.name, dueOf(ts, out))
	return out, nil
}

// EnqueueManyTx is EnqueueMany in the caller's transaction. If a NewTask.ID refuses the call, nothing was changed, and
// the transaction stays usable. ErrConflict then means that the transaction cannot see the task with the id.
//
// Because dbq cannot see the commit, it wakes workers several times within the next second. After that, they find the
// tasks by polling.
func (q *Queue) EnqueueManyTx(ctx context.Context, tx Tx, ts []NewTask) (out []Enqueued, err error) {
	defer q.endTx("enqueue", len(ts), time.Now(), &err)
	ts, rows, err := q.newRows(ctx, ts)
	if err != nil || len(ts) == 0 {
		return nil, err
	}
	insert := q.c.store.InsertTx
	if unique(ts) {
		insert = q.c.store.InsertUniqueTx
	}
	inserted, err := insert(ctx, tx, q.name, rows)
	if err != nil {
		return nil, err
	}
	out = enqueued(inserted)
	q.c.wake.WakeAfterCommit(q.name, dueOf(ts, out))
	return out, nil
}

// newRows returns tasks as the hooks change them, and as rows with ids and the client's defaults. It checks them.
func (q *Queue) newRows(ctx context.Context, ts []NewTask) ([]NewTask, []store.InsertRow, error) {
	err := q.check(len(ts))
	if err == nil {
		ts, err = q.hooked(ctx, ts)
	}
	if err != nil {
		return nil, nil, err
	}
	limit := q.c.store.MaxPayload
	rows := make([]store.InsertRow, len(ts))
	for i, t := range ts {
		headers, err := t.check(limit)
		if err != nil {
			return nil, nil, ofMany(i, len(ts), err)
		}
		rows[i] = store.InsertRow{
			ID: t.ID, GivenID: t.ID != uuid.Nil, Kind: t.Kind, Payload: t.Payload, Reference: t.Reference,
			Key: t.Key, Priority: t.Priority, MaxAttempts: t.MaxAttempts, Headers: headers, RunAt: t.RunAt, Delay: t.Delay,
		}
		if t.Unique != nil {
			rows[i].Unique = t.Unique.rule(&t)
		}
		if t.ID == uuid.Nil {
			rows[i].ID = q.c.ids.next(q.c.cfg.clock())
		}
		if t.MaxAttempts == 0 {
			rows[i].MaxAttempts = q.c.cfg.maxAttempts
		}
	}
	return ts, rows, nil
}

// ofMany says in an error about one of n tasks which one it is.
func ofMany(i, n int, err error) error {
	if n > 1 {
		return fmt.Errorf("task %d of %d: %w", i+1, n, err)
	}
	return err
}

func enqueued(rows []store.Inserted) []Enqueued {
	out := make([]Enqueued, len(rows))
	for i, r := range rows {
		out[i] = Enqueued(r)
	}
	return out
}

// dueOf returns when the added tasks are due, by this process's clock.
func dueOf(ts []NewTask, out []Enqueued) (due wake.Due) {
	for i := range ts {
		t := &ts[i]
		wait := t.Delay
		if !t.RunAt.IsZero() {
			wait = time.Until(t.RunAt)
		}
		if !out[i].Duplicate {
			due.Add(wait)
		}
	}
	return due
}

// backdated returns how long the task with the earliest RunAt has been due, by this process's clock.
func backdated(ts []NewTask) (late time.Duration) {
	for i := range ts {
		if at := ts[i].RunAt; !at.IsZero() {
			late = max(late, time.Since(at))
		}
	}
	return late
}
