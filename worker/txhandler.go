package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// txEndTimeout limits the commit of a TxHandler, and the query after a failed commit.
const txEndTimeout = 10 * time.Second

// A TxHandler is the recommended Handler for work in the worker's own database. It begins a transaction of Client.DB,
// completes the task in it, calls Func, and commits, so the work and the completion happen together or not at all. The
// first statement locks the task's row, so no other worker can take the task over meanwhile. An operator's call on the
// task waits for the end of the transaction, until its deadline or, without one, for half a minute. Func must neither
// commit nor roll back.
//
// TxFunc makes a TxHandler from a function that returns an error, and HandleTx registers a typed function for a kind.
//
// After a conflict (Client.IsConflict), Func must return the error: MySQL and MariaDB have rolled the transaction
// back, and later statements would run outside of it. If Func does not return the error, the task is not completed,
// and the attempt ends in a conflict.
//
// If the transaction cannot begin, because the database does not serve it or no connection is free before ctx ends,
// Func is not called, and the attempt does not count.
//
// If Func returns any outcome but a completion, or panics, or ctx ends, the transaction is rolled back. If the commit
// fails, the handler checks whether it happened. A TxHandler works only in a Worker whose Queue is in the same
// database.
type TxHandler struct {
	// Func does the work and returns how the attempt ends. dbq.Deleted is accepted only with Delete.
	Func func(ctx context.Context, tx *sql.Tx, t dbq.Task) dbq.Outcome
	// Isolation is the transaction's isolation level. Zero means the database's default.
	Isolation sql.IsolationLevel
	// Delete removes each task instead of completing it. No result is stored.
	Delete bool
}

// TxFunc adapts a function to a TxHandler. Its error has the same meaning as for Func.
func TxFunc(f func(ctx context.Context, tx *sql.Tx, t dbq.Task) error) TxHandler {
	return TxHandler{Func: func(ctx context.Context, tx *sql.Tx, t dbq.Task) dbq.Outcome {
		return dbq.OutcomeOf(f(ctx, tx, t))
	}}
}

// HandleTask calls Func in a transaction.
func (h TxHandler) HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome {
	queue := QueueOf(ctx)
	if queue == nil {
		return dbq.Failed(fmt.Errorf("%w: a TxHandler was not called by a Worker", ErrConfig))
	}
	q, ok := queue.(*dbq.Queue)
	if !ok {
		return dbq.Parked(fmt.Errorf("%w: a TxHandler needs a Worker with access to the database", ErrConfig))
	}
	if h.Func == nil {
		return dbq.Parked(fmt.Errorf("%w: a TxHandler without Func", ErrConfig))
	}
	return h.handle(ctx, q, t)
}

func (h TxHandler) handle(ctx context.Context, q *dbq.Queue, t dbq.Task) (o dbq.Outcome) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the end of ctx must not interrupt a commit
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	patient := sqlrun.WithPatience(inner, func() time.Duration { return time.Until(t.Lease.Until) / 3 })
	tx, release, err := access.Of(q.Client()).Store.BeginTx(patient, cancel, &sql.TxOptions{Isolation: h.Isolation})
	if err != nil {
		return notCalled(ctx, q, t, err)
	}
	var ours error // of a statement of dbq in tx; an error of Func may come from any other service
	defer func() { release(ours) }()
	defer func() { _ = tx.Rollback() }() // after an error, a panic or runtime.Goexit
	end := dbq.Completed(nil)
	if h.Delete {
		end = dbq.Deleted()
	}
	if ours = q.SettleTx(ctx, tx, t.Lease, end); ours != nil {
		return notCalled(ctx, q, t, ours)
	}
	inTransactionOf(ctx, true) // a renewal that stores progress would wait for tx
	defer inTransactionOf(ctx, false)
	o = h.Func(ctx, tx, t)
	switch {
	case o.Event() != state.Complete:
		return o
	case o.Deletes() && !h.Delete:
		return dbq.Failed(fmt.Errorf("%w: a handler returned dbq.Deleted; set TxHandler.Delete", ErrConfig))
	}
	ours = stillOpen(ctx, q, tx, t.Lease)
	if ours == nil && o.Result() != nil && !h.Delete {
		ours = access.SetResultTx(ctx, q, tx, t.Lease, o.Result())
	}
	if err = ours; err == nil && !detach() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return dbq.Failed(err)
	}
	late := time.AfterFunc(txEndTimeout, cancel)
	defer late.Stop()
	if ours = tx.Commit(); ours != nil {
		if err := h.committed(ctx, q, t.Lease, ours); err != nil {
			return dbq.Failed(err)
		}
	}
	if e := envOf(ctx); e != nil && !h.Delete {
		e.logLongResult(&t, o)
	}
	return dbq.Completed(inTransaction)
}

// inTransactionOf records whether the Func of a TxHandler runs.
func inTransactionOf(ctx context.Context, inTx bool) {
	if inv, _ := ctx.Value(invocationKey{}).(*invocation); inv != nil {
		inv.in.mu.Lock()
		defer inv.in.mu.Unlock()
		inv.inTx = inTx
	}
}

// notCalled returns the outcome of an attempt whose Func was not called. It does not count if ctx has ended while the
// handler waited for a connection or the task's row, or if the database could not serve it.
func notCalled(ctx context.Context, q *dbq.Queue, t dbq.Task, err error) dbq.Outcome {
	err = access.Of(q.Client()).Wrap("begin", q.Name(), t.ID, err)
	if ctx.Err() != nil || errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) {
		err = &invoke.NotCalledError{Err: err}
	}
	return dbq.Failed(err)
}

// stillOpen returns an error if the server has rolled the transaction back, as after a deadlock that f has not
// returned. Later statements of f were not part of the transaction.
func stillOpen(ctx context.Context, q *dbq.Queue, tx *sql.Tx, l dbq.Lease) error {
	if !q.Client().Info().Server.RollsBack {
		return nil // its COMMIT would fail
	}
	settled, err := access.SettledTx(ctx, q, tx, l)
	if err == nil && !settled {
		err = fmt.Errorf("%w: the server has rolled back the transaction of the TxHandler, as after a deadlock, "+
			"and the handler has not returned the error that reported it", dbq.ErrConflict)
	}
	return err
}

// inTransaction is the result of a handler whose transaction has completed the task, so nothing is left to settle. It
// is recognized by its address, so middleware gets a success without a result.
var inTransaction = make([]byte, 0, 1)

func isInTransaction(result []byte) bool {
	return result != nil && len(result) == 0 && cap(result) > 0 && &result[:1][0] == &inTransaction[:1][0]
}

// committed checks the outcome of a failed commit: nil means that the transaction was committed.
func (h TxHandler) committed(ctx context.Context, q *dbq.Queue, l dbq.Lease, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txEndTimeout)
	defer cancel()
	t, err := q.Client().Get(ctx, l.TaskID)
	switch {
	case h.Delete && errors.Is(err, dbq.ErrNotFound),
		!h.Delete && err == nil && t.State == dbq.StateCompleted && t.Fence == l.Fence:
		return nil
	case err == nil && t.State == dbq.StateProcessing && t.Fence == l.Fence:
		return fmt.Errorf("worker: commit: %w", failed)
	}
	return fmt.Errorf("worker: commit: %w: %w", dbq.ErrMayHaveHappened, failed)
}
