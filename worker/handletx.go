package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/leasing"
	"github.com/dbq-go/dbq/state"
)

// txEndTimeout bounds the commit of HandleTx, and the query after one that failed.
const txEndTimeout = 10 * time.Second

// TxOptions are for HandleTxOutcome. The zero value is the database's default level, and tasks that are kept.
type TxOptions struct {
	Isolation sql.IsolationLevel
	// Delete removes each task in the step that completes it. No result is kept.
	Delete bool
}

// HandleTx returns a Handler for work in the worker's own database; it is the recommended one. It begins a transaction
// of Client.DB, completes the task in it, calls f, and commits: the work and the completion happen together or not at
// all. The task's row is locked from the first statement on, so no other worker can take the task over meanwhile. f
// must neither commit nor roll back.
//
// After a conflict (Client.IsConflict), f must return the error: MySQL and MariaDB have rolled the transaction back,
// and later statements would run outside of it. If f succeeds all the same, the task is not completed, and the
// attempt ends as with a conflict.
//
// If f returns an error or panics, or ctx ends, the transaction is rolled back, and the attempt ends as with Func. If
// the commit fails, HandleTx checks whether it happened. HandleTx works only in a Worker whose Queue is in the same
// database.
func HandleTx(f func(ctx context.Context, tx *sql.Tx, t dbq.Task) error) Handler {
	return HandleTxOutcome(TxOptions{}, func(ctx context.Context, tx *sql.Tx, t dbq.Task) dbq.Outcome {
		return dbq.OutcomeOf(f(ctx, tx, t))
	})
}

// HandleTxOutcome is HandleTx with options, for a function that returns an Outcome. Any but dbq.Completed rolls the
// transaction back. dbq.Deleted is accepted under TxOptions.Delete only.
func HandleTxOutcome(opts TxOptions, f func(ctx context.Context, tx *sql.Tx, t dbq.Task) dbq.Outcome) Handler {
	return HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
		q, ok := ctx.Value(queueKey{}).(*dbq.Queue)
		if !ok {
			return dbq.Failed(fmt.Errorf("%w: HandleTx was not called by a Worker", ErrConfig))
		}
		return handleTx(ctx, q, opts, f, t)
	})
}

// queueKey is where a handler's context has the worker's queue.
type queueKey struct{}

func handleTx(ctx context.Context, q *dbq.Queue, opts TxOptions,
	f func(context.Context, *sql.Tx, dbq.Task) dbq.Outcome, t dbq.Task) dbq.Outcome {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the end of ctx must not cut a commit off
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	tx, err := q.Client().DB().BeginTx(inner, &sql.TxOptions{Isolation: opts.Isolation})
	if err != nil {
		return dbq.Failed(err)
	}
	defer func() { _ = tx.Rollback() }() // after an error, a panic or runtime.Goexit
	end := dbq.Completed(nil)
	if opts.Delete {
		end = dbq.Deleted()
	}
	if err := q.SettleTx(ctx, tx, t.Lease, end); err != nil {
		return dbq.Failed(err)
	}
	o := f(ctx, tx, t)
	switch {
	case o.Event() != state.Complete:
		return o
	case o.Deletes() && !opts.Delete:
		return dbq.Failed(fmt.Errorf("%w: a handler returned dbq.Deleted; use HandleTxOutcome(TxOptions{Delete: true}, ...)",
			ErrConfig))
	}
	err = stillOpen(ctx, q, tx, t.Lease)
	if err == nil && o.Result() != nil && !opts.Delete {
		err = leasing.SetResultTx(ctx, q, tx, t.Lease, o.Result())
	}
	if err == nil && !detach() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return dbq.Failed(err)
	}
	late := time.AfterFunc(txEndTimeout, cancel)
	defer late.Stop()
	if err := tx.Commit(); err != nil {
		if err := committed(ctx, q, opts, t.Lease, err); err != nil {
			return dbq.Failed(err)
		}
	}
	return dbq.Completed(inTransaction)
}

// stillOpen is an error when the server has rolled the transaction back by itself, as after a deadlock that f has not
// returned. What f did after that is not part of it.
func stillOpen(ctx context.Context, q *dbq.Queue, tx *sql.Tx, l dbq.Lease) error {
	if !q.Client().Info().Server.RollsBack {
		return nil // its COMMIT would fail
	}
	settled, err := leasing.SettledTx(ctx, q, tx, l)
	if err == nil && !settled {
		err = fmt.Errorf("%w: the server has rolled back the transaction of HandleTx, as after a deadlock, "+
			"and the handler has not returned the error that reported it", dbq.ErrConflict)
	}
	return err
}

// inTransaction is the result of a handler whose transaction has completed the task: there is nothing to settle. It
// is known by its place in memory, so that middleware sees a success without a result.
var inTransaction = make([]byte, 0, 1)

func isInTransaction(result []byte) bool {
	return result != nil && len(result) == 0 && cap(result) > 0 && &result[:1][0] == &inTransaction[:1][0]
}

// committed checks the outcome of a commit that failed: nil means that it happened.
func committed(ctx context.Context, q *dbq.Queue, opts TxOptions, l dbq.Lease, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txEndTimeout)
	defer cancel()
	t, err := q.Client().Get(ctx, l.Task)
	switch {
	case opts.Delete && errors.Is(err, dbq.ErrNotFound),
		!opts.Delete && err == nil && t.State == dbq.StateCompleted && t.Fence == l.Fence:
		return nil
	case err == nil && t.State == dbq.StateProcessing && t.Fence == l.Fence:
		return fmt.Errorf("worker: commit: %w", failed)
	}
	return fmt.Errorf("worker: commit: %w: %w", dbq.ErrMayHaveHappened, failed)
}
