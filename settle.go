package dbq

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Retry says when a failed task is tried again. The zero value parks it: nothing tries it again until an operator acts.
type Retry struct {
	in *time.Duration
	at time.Time
}

// Park leaves a failed task in ERROR until an operator acts.
var Park = Retry{}

// RetryIn tries a failed task again after d (0 to MaxDelay) of the database's time.
func RetryIn(d time.Duration) Retry { return Retry{in: &d} }

// RetryAt tries a failed task again at t, in the database's time.
func RetryAt(t time.Time) Retry { return Retry{at: t} }

// String says when: "in 1s", "at 2026-01-02T03:04:05Z", or "parked".
func (r Retry) String() string {
	switch {
	case r.in != nil:
		return "in " + r.in.String()
	case !r.at.IsZero():
		return "at " + r.at.UTC().Format(time.RFC3339Nano)
	}
	return "parked"
}

// Settlement is how one attempt ends; make it with one of the functions below.
type Settlement struct {
	Lease  Lease
	event  state.Event
	remove bool
	retry  Retry
	result []byte
	again  bool
}

// Completed ends an attempt well. A nil result is none; a longer one than MaxResult bytes is cut and says so.
func Completed(l Lease, result []byte) Settlement {
	return Settlement{Lease: l, event: state.Complete, result: result}
}

// CompletedAndDeleted ends an attempt well and removes the task.
func CompletedAndDeleted(l Lease) Settlement {
	return Settlement{Lease: l, event: state.Complete, remove: true}
}

// Failed ends an attempt with an error whose text is kept. On the last attempt a retry becomes POISON.
func Failed(l Lease, r Retry, cause error) Settlement {
	return Settlement{Lease: l, event: state.Fail, retry: r, result: errorText(cause)}
}

// Poisoned ends an attempt with an error that no other attempt would cure.
func Poisoned(l Lease, cause error) Settlement {
	return Settlement{Lease: l, event: state.PoisonIt, result: errorText(cause)}
}

// Released hands a task back, to be due after a time (0 is now). The attempt does not count.
func Released(l Lease, after time.Duration) Settlement {
	return Settlement{Lease: l, event: state.Release, retry: RetryIn(after)}
}

// WithResult is the settlement with a result to keep, as for a release that says how far the work got. A longer one than MaxResult bytes
// is cut and says so; a task that is removed keeps none.
func (s Settlement) WithResult(result []byte) Settlement {
	s.result = result
	return s
}

// Again is the settlement for another call, after one that returned ErrMayHaveHappened: a task that is where it should be under the lease's fence was settled by that one, and is no
// ErrLeaseLost. So is one that a Completed or CompletedAndDeleted finds ended in another way, or gone while the lease lasts: the
// holder of the lease did that itself, and Settled.State says what.
func (s Settlement) Again() Settlement {
	s.again = true
	return s
}

// Retry is when the task of a failed or released attempt is due again; of any other settlement it is Park.
func (s Settlement) Retry() Retry { return s.retry }

// Event is what the settlement does, as the state table names it.
func (s Settlement) Event() state.Event { return s.event }

// Settled is what became of one Settlement.
type Settled struct {
	// State is where the task is now; state.None when it was removed.
	State State
	// Err is nil, ErrLeaseLost, ErrLocked, or ErrMayHaveHappened.
	Err error
}

// Settle ends several attempts, each its own way, in as few statements as the engine allows and in one transaction. It returns
// what became of each, in order; an error means that nothing was settled, or says ErrMayHaveHappened. At most MaxBulk at once.
//
// A task whose row another transaction has locked is passed by and reported as ErrLocked. It delays the others by a tenth
// of a second on PostgreSQL and by a second on MySQL and MariaDB, and for the next ten seconds by nothing.
func (q *Queue) Settle(ctx context.Context, ss []Settlement) (out []Settled, err error) {
	return q.settle(ctx, ss, false)
}

// settle is Settle. A patient one waits for locked rows as long as ctx allows.
func (q *Queue) settle(ctx context.Context, ss []Settlement, patient bool) (out []Settled, err error) {
	defer func(start time.Time) { q.c.observed("settle", q.name, len(ss), start, err) }(time.Now())
	b, err := q.newSettling(ss)
	if err != nil || len(ss) == 0 {
		return nil, q.c.wrap("settle", q.name, uuid.Nil, err)
	}
	b.patient = patient
	if err = b.write(ctx); err == nil {
		q.c.dropLeases(ctx, b.renewed())
		q.c.rung(q.name, b.wakeup())
	}
	return b.out, q.c.wrap("settle", q.name, uuid.Nil, err)
}

// renewed are the leases that have ended and were renewed before.
func (b *settling) renewed() (ls []Lease) {
	for i, s := range b.ss {
		if s.Lease.renewed && b.out[i].Err == nil {
			ls = append(ls, s.Lease)
		}
	}
	return ls
}

// wakeup is for what was released or failed and is due again, as far as this process's clock can tell.
func (b *settling) wakeup() (u wakeup) {
	for i, s := range b.ss {
		switch to := b.out[i].State; {
		case b.out[i].Err != nil || to != StateCreated && to != StateError:
		case s.retry.in != nil:
			u.add(*s.retry.in)
		case !s.retry.at.IsZero():
			u.add(time.Until(s.retry.at))
		}
	}
	return u
}

// Complete ends an attempt well: COMPLETED, with an optional result. A lease that is not valid any more is ErrLeaseLost, and
// changes nothing. Settling twice is ErrLeaseLost too.
func (q *Queue) Complete(ctx context.Context, l Lease, result []byte) error {
	return q.settleOne(ctx, Completed(l, result))
}

// CompleteTx is Complete in the caller's transaction: the task is completed when it commits, together with the caller's own
// changes. On ErrLeaseLost roll back, so that what a worker did whose task was taken over is undone.
func (q *Queue) CompleteTx(ctx context.Context, tx Tx, l Lease, result []byte) error {
	return q.settleOneTx(ctx, tx, Completed(l, result))
}

// SetResultTx gives a result to a task that this transaction has completed under the lease, for a result that is known only after
// CompleteTx has locked the task's row. A longer one than MaxResult bytes is cut and says so.
func (q *Queue) SetResultTx(ctx context.Context, tx Tx, l Lease, result []byte) error {
	conn, row, _, err := q.peekTx(ctx, tx, l)
	if err == nil && (row.State != StateCompleted || row.Fence != l.Fence) {
		err = ErrLeaseLost
	}
	if err == nil {
		cut := cutResult(result)
		_, err = q.c.s.ExecBatch(ctx, conn, q.c.s.Statements.SetResult, dialect.Args{"id": dialect.Col[uuid.UUID]{l.Task},
			"result": dialect.Col[[]byte]{cut}, "result_size": dialect.Col[*int64]{dialect.SizeOf(cut)}}, 1)
	}
	return q.c.wrap("complete", q.name, l.Task, err)
}

// SettledTx reports whether the task is settled, as this transaction sees it: no more in work under the lease. False after CompleteTx or
// CompleteAndDeleteTx means that the server has rolled the transaction back by itself, as MySQL and MariaDB do after a deadlock, and that
// what followed is not part of it; see Server.RollsBack.
func (q *Queue) SettledTx(ctx context.Context, tx Tx, l Lease) (bool, error) {
	_, row, exists, err := q.peekTx(ctx, tx, l)
	held := exists && row.State == StateProcessing && row.Fence == l.Fence
	return err == nil && !held, q.c.wrap("peek", q.name, l.Task, err)
}

// peekTx reads the task of a lease as the caller's transaction sees it.
func (q *Queue) peekTx(ctx context.Context, tx Tx, l Lease) (conn dialect.Conn, row dialect.Row, exists bool, err error) {
	if err = q.checkExtend([]Lease{l}, MinLease); err != nil {
		return nil, row, false, err
	}
	if conn, err = q.c.txConn(tx); err != nil {
		return nil, row, false, err
	}
	rows, err := q.c.peek(ctx, conn, []uuid.UUID{l.Task})
	row, exists = rows[l.Task]
	return conn, row, exists, err
}

// CompleteAndDelete ends an attempt well and removes the task in the same step. ErrMayHaveHappened means that the task is gone and
// that nobody can tell any more who removed it.
func (q *Queue) CompleteAndDelete(ctx context.Context, l Lease) error {
	return q.settleOne(ctx, CompletedAndDeleted(l))
}

// CompleteAndDeleteTx is CompleteAndDelete in the caller's transaction.
func (q *Queue) CompleteAndDeleteTx(ctx context.Context, tx Tx, l Lease) error {
	return q.settleOneTx(ctx, tx, CompletedAndDeleted(l))
}

// CompleteMany completes several tasks without a result and returns the leases that were lost.
func (q *Queue) CompleteMany(ctx context.Context, ls []Lease) (lost []Lease, err error) {
	ss := make([]Settlement, len(ls))
	for i, l := range ls {
		ss[i] = Completed(l, nil)
	}
	out, err := q.settle(ctx, ss, true)
	for i, o := range out {
		if o.Err != nil {
			lost = append(lost, ls[i])
		}
	}
	return lost, err
}

// Fail ends an attempt with an error: ERROR, tried again by itself when r says so, else parked. When the attempts are spent, a
// retry becomes POISON. Errors are those of Complete.
func (q *Queue) Fail(ctx context.Context, l Lease, r Retry, cause error) error {
	return q.settleOne(ctx, Failed(l, r, cause))
}

// Poison ends an attempt with an error that no other attempt would cure: POISON. Errors are those of Complete.
func (q *Queue) Poison(ctx context.Context, l Lease, cause error) error {
	return q.settleOne(ctx, Poisoned(l, cause))
}

// Release hands a task back: CREATED, due after a time (0 is now). The attempt does not count. Errors are those of Complete.
func (q *Queue) Release(ctx context.Context, l Lease, after time.Duration) error {
	return q.settleOne(ctx, Released(l, after))
}

func (q *Queue) settleOne(ctx context.Context, s Settlement) error {
	out, err := q.settle(ctx, []Settlement{s}, true)
	return q.settledOne(s, out, err)
}

func (q *Queue) settleOneTx(ctx context.Context, tx Tx, s Settlement) error {
	b, err := q.newSettling([]Settlement{s})
	if err != nil {
		return q.settledOne(s, nil, err)
	}
	b.patient = true // the caller's transaction has the caller's settings
	conn, err := q.c.txConn(tx)
	if err == nil {
		err = b.run(ctx, conn, false)
	}
	return q.settledOne(s, b.out, err)
}

func (q *Queue) settledOne(s Settlement, out []Settled, err error) error {
	if err == nil {
		err = out[0].Err
	}
	if outer, ok := err.(*Error); ok { // of Settle: say what the caller asked for instead
		outer.Op, outer.Task = string(s.event), s.Lease.Task
		return outer
	}
	return q.c.wrap(string(s.event), q.name, s.Lease.Task, err)
}

func errorText(cause error) []byte {
	if cause == nil {
		return nil
	}
	return []byte(cause.Error())
}
