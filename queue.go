package dbq

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Queue is a handle on one queue of a client. It costs nothing to make; a queue exists as soon as it has a task.
type Queue struct {
	c      *Client
	name   string
	worker string // see ForWorker
}

// Queue is the queue of this name. A name that is not allowed is ErrQueueName from every call on it.
func (c *Client) Queue(name string) *Queue { return &Queue{c: c, name: name} }

// ForWorker is the queue for the worker of an id, 1 to MaxWorkerID characters: what it checks out is held in that name, and an attempt that crashes is
// in the history under it. The default is Client.ID. An id that is not allowed is ErrOption from Checkout.
//
// Such a worker may lease more tasks than it begins at once. So an attempt whose lease ran out counts only after MarkStarted.
func (q *Queue) ForWorker(id string) *Queue { return &Queue{c: q.c, name: q.name, worker: id} }

// Name is the queue's name.
func (q *Queue) Name() string { return q.name }

// Client is the client the queue belongs to.
func (q *Queue) Client() *Client { return q.c }

// Enqueued is what became of one task of an EnqueueMany.
type Enqueued struct {
	// ID is the task's id. For a duplicate it is the existing task's, or zero when that was gone again or is out of this
	// transaction's sight.
	ID uuid.UUID
	// Duplicate is true when the reference, or the id, was taken, by an existing task or an earlier one of the same call.
	Duplicate bool
}

// enqueueBytes bounds the payloads of one statement.
const enqueueBytes = 8 << 20

// Enqueue adds a task and returns its id. When it returns without an error the task is stored as durably as the database
// stores anything. A reference that is taken is ErrDuplicate, with the existing task's id. Input errors are ErrInvalid.
//
// When the answer to the insert is lost, Enqueue looks for the task for some hundred milliseconds. When it does not find it, nobody can know: the
// task may never have been added, or have been completed and removed. Then it does not insert again, and returns ErrMayHaveHappened, with the
// task's id as Error.Task. See ErrMayHaveHappened for when to repeat.
func (q *Queue) Enqueue(ctx context.Context, t NewTask) (uuid.UUID, error) {
	out, err := q.EnqueueMany(ctx, []NewTask{t})
	return q.enqueuedOne(out, err)
}

// EnqueueTx is Enqueue in the caller's transaction: no commit, no task.
func (q *Queue) EnqueueTx(ctx context.Context, tx Tx, t NewTask) (uuid.UUID, error) {
	out, err := q.EnqueueManyTx(ctx, tx, []NewTask{t})
	return q.enqueuedOne(out, err)
}

func (q *Queue) enqueuedOne(out []Enqueued, err error) (uuid.UUID, error) {
	if err != nil {
		return uuid.Nil, err
	}
	if out[0].Duplicate {
		return out[0].ID, &Error{Op: "enqueue", Queue: q.name, Task: out[0].ID, Class: dialect.Duplicate, Err: ErrDuplicate}
	}
	return out[0].ID, nil
}

// EnqueueMany adds up to MaxBulk tasks in one transaction: all of them or, on an error, none. It returns the outcome of each task,
// in the order given; a task that exists already is reported there as a duplicate. Tasks of the same priority that are due at the
// same time leave in the order given. With no tasks it does nothing. ErrMayHaveHappened is as for Enqueue: all were added, or none.
func (q *Queue) EnqueueMany(ctx context.Context, ts []NewTask) (out []Enqueued, err error) {
	defer func(start time.Time) { q.c.observed("enqueue", q.name, len(ts), start, err) }(time.Now())
	b, err := q.newBatch(ctx, ts)
	if err != nil || len(ts) == 0 {
		return nil, q.c.wrap("enqueue", q.name, uuid.Nil, err)
	}
	by, alone := q.c.s.Tx, false
	if len(b.chunks) == 1 && (!q.c.s.Server.ExplicitTx || q.c.s.Statements.Insert.Counts) && !b.asksAfter() {
		by, alone = q.c.s.Alone, true // one statement is its own transaction
	}
	var lost error // why nobody knows what became of it
	err = q.c.repeat(ctx, func() (bool, error) {
		if !alone {
			b.undone()
		}
		err := by(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			out, err = b.insert(ctx, conn)
			return err
		})
		if q.c.s.Class(err) != dialect.Ambiguous || alone && b.inserted { // then only the questions after it failed
			return alone && b.inserted && len(b.added) > 0, err
		}
		if out = b.find(ctx); out == nil {
			lost = err
		}
		return true, nil // not once more: what it added may be done and gone
	})
	if err == nil && lost != nil {
		err = outcome(true, lost)
		if len(ts) == 1 {
			err = q.c.wrap("enqueue", q.name, b.ids[0], err)
		}
	}
	if err == nil {
		if late := b.late(); late > 0 {
			q.c.s.Front(q.name).Late(late)
		}
		q.c.rung(q.name, b.wakeup(out))
	}
	return out, q.c.wrap("enqueue", q.name, uuid.Nil, err)
}

// EnqueueManyTx is EnqueueMany in the caller's transaction. Workers are woken a few times within the next second, since dbq does not see
// the commit; after that they find the tasks by polling.
func (q *Queue) EnqueueManyTx(ctx context.Context, tx Tx, ts []NewTask) (out []Enqueued, err error) {
	defer func(start time.Time) { q.c.observed("enqueue", q.name, len(ts), start, err) }(time.Now())
	b, err := q.newBatch(ctx, ts)
	if err != nil || len(ts) == 0 {
		return nil, q.c.wrap("enqueue", q.name, uuid.Nil, err)
	}
	conn, err := q.c.txConn(tx)
	if err != nil {
		return nil, q.c.wrap("enqueue", q.name, uuid.Nil, err)
	}
	out, err = b.insert(ctx, conn)
	if err == nil {
		q.c.rungLater(q.name, b.wakeup(out))
	}
	return out, q.c.wrap("enqueue", q.name, uuid.Nil, err)
}

// wakeup is for the tasks that were added, as far as this process's clock can tell when they are due.
func (b *newTasks) wakeup(out []Enqueued) (u wakeup) {
	for i := range b.given {
		t := &b.given[i]
		wait := t.Delay
		if !t.RunAt.IsZero() {
			wait = time.Until(t.RunAt)
		}
		if !out[i].Duplicate {
			u.add(wait)
		}
	}
	return u
}

// late is for how long the task that was asked for longest ago has been due, by this process's clock.
func (b *newTasks) late() (late time.Duration) {
	for i := range b.given {
		if at := b.given[i].RunAt; !at.IsZero() {
			late = max(late, time.Since(at))
		}
	}
	return late
}

// txConn makes a caller's transaction something to run statements on.
func (c *Client) txConn(tx Tx) (dialect.Conn, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	return dialect.TxConn(tx)
}

func (q *Queue) findReference(ctx context.Context, conn dialect.Conn, reference string) (uuid.UUID, error) {
	s := q.c.s
	rows, err := s.Query(ctx, conn, s.Statements.FindReference, dialect.Args{"queue": q.name, "reference": reference})
	if err != nil {
		return uuid.Nil, err
	}
	if len(rows) == 0 {
		return uuid.Nil, ErrNotFound
	}
	return rows[0].ID, nil
}

// Find is the id of the task with a reference, or ErrNotFound.
func (q *Queue) Find(ctx context.Context, reference string) (id uuid.UUID, err error) {
	if err = checkQueueName(q.name); err == nil {
		err = checkText(reference, 1, MaxReference, ErrReference, "reference")
	}
	if err == nil {
		err = q.c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			id, err = q.findReference(ctx, conn, reference)
			return err
		})
	}
	return id, q.c.wrap("find", q.name, uuid.Nil, err)
}

// peek reads state and fence of tasks; those that do not exist are missing from the map.
func (c *Client) peek(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) (map[uuid.UUID]dialect.Row, error) {
	rows, err := c.s.QueryBatch(ctx, conn, c.s.Statements.Peek, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}, len(ids))
	out := make(map[uuid.UUID]dialect.Row, len(rows))
	for _, r := range rows {
		out[r.ID] = r
	}
	return out, err
}
