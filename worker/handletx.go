package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
)

// txEndTimeout bounds the commit of HandleTx, and the question what became of one that failed.
const txEndTimeout = 10 * time.Second

// A TxFunc does a task's work in the transaction that completes the task. What it does in tx is there when the task is completed, and never
// was when the attempt fails. It must neither commit nor roll back.
type TxFunc func(ctx context.Context, tx *sql.Tx, t dbq.Task) (result []byte, err error)

// TxOptions are for HandleTxWith. The zero value is the database's default level, and tasks that are kept.
type TxOptions struct {
	Isolation sql.IsolationLevel
	// Delete removes each task in the step that completes it. Its handler's result is not kept.
	Delete bool
}

// HandleTx is a Handler for work in the worker's own database, and the recommended one: it begins a transaction of Client.DB, completes the
// task, calls f, and commits. The task's row is locked from the first statement on, so that no other worker can take the task over before
// the transaction ends, and the work and the completion happen together or not at all.
//
// f must not go on after a conflict (Client.IsConflict), but return it: MySQL and MariaDB have rolled the transaction back after a deadlock,
// and what follows is outside of it. If f succeeds all the same, the task is not completed, and the attempt ends as one with a conflict.
//
// When f returns an error or panics, or when ctx ends, the transaction is rolled back, and the attempt ends as that of any Handler; so do
// those of Poison, Park, RetryIn and Snooze. Delete is refused: use HandleTxWith. When the commit fails, HandleTx finds out what became of it.
// It works only in a Worker whose Queue is in the same database.
func HandleTx(f TxFunc) Handler { return HandleTxWith(TxOptions{}, f) }

// HandleTxWith is HandleTx with options.
func HandleTxWith(opts TxOptions, f TxFunc) Handler {
	return HandlerFunc(func(ctx context.Context, t dbq.Task) ([]byte, error) {
		q, ok := ctx.Value(queueKey{}).(*dbq.Queue)
		if !ok {
			return nil, fmt.Errorf("%w: HandleTx was not called by a Worker", ErrConfig)
		}
		if err := handleTx(ctx, q, opts, f, t); err != nil {
			return nil, err
		}
		return inTransaction, nil
	})
}

// queueKey is where a handler's context has the worker's queue.
type queueKey struct{}

func handleTx(ctx context.Context, q *dbq.Queue, opts TxOptions, f TxFunc, t dbq.Task) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the end of ctx must not cut a commit off
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	tx, err := q.Client().DB().BeginTx(inner, &sql.TxOptions{Isolation: opts.Isolation})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after an error, a panic or runtime.Goexit
	if opts.Delete {
		err = q.CompleteAndDeleteTx(ctx, tx, t.Lease)
	} else {
		err = q.CompleteTx(ctx, tx, t.Lease, nil)
	}
	if err != nil {
		return err
	}
	result, err := f(ctx, tx, t)
	if err == nil {
		err = stillOpen(ctx, q, tx, t.Lease)
	}
	switch {
	case errors.Is(err, Delete):
		return fmt.Errorf("%w: a handler of HandleTx returned Delete; use HandleTxWith(TxOptions{Delete: true}, ...)", ErrConfig)
	case err != nil:
		return err
	case result != nil && !opts.Delete:
		if err = q.SetResultTx(ctx, tx, t.Lease, result); err != nil {
			return err
		}
	}
	if !detach() {
		return context.Cause(ctx)
	}
	late := time.AfterFunc(txEndTimeout, cancel)
	defer late.Stop()
	if err = tx.Commit(); err != nil {
		if err = committed(ctx, q, opts, t.Lease, err); err != nil {
			return err
		}
	}
	return nil
}

// stillOpen is an error when the server has rolled the transaction back by itself, as after a deadlock that f has not returned. What f did
// after that is not part of it.
func stillOpen(ctx context.Context, q *dbq.Queue, tx *sql.Tx, l dbq.Lease) error {
	if !q.Client().Server().RollsBack {
		return nil // its COMMIT would fail
	}
	settled, err := q.SettledTx(ctx, tx, l)
	if err == nil && !settled {
		err = fmt.Errorf("%w: the server has rolled back the transaction of HandleTx, as after a deadlock, and the handler has not returned "+
			"the error that told it", dbq.ErrConflict)
	}
	return err
}

// inTransaction is the result of a handler whose transaction has completed the task: there is nothing to settle. It is known by its place
// in memory, so that middleware sees a success without a result.
var inTransaction = make([]byte, 0, 1)

func isInTransaction(result []byte) bool {
	return result != nil && len(result) == 0 && cap(result) > 0 && &result[:1][0] == &inTransaction[:1][0]
}

// committed finds out what became of a commit that failed: nil when it happened.
func committed(ctx context.Context, q *dbq.Queue, opts TxOptions, l dbq.Lease, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txEndTimeout)
	defer cancel()
	t, err := q.Client().Get(ctx, l.Task)
	switch {
	case errors.Is(err, dbq.ErrNotFound) && opts.Delete, err == nil && t.State == dbq.StateCompleted && t.Fence == l.Fence && !opts.Delete:
		return nil
	case err == nil && t.State == dbq.StateProcessing && t.Fence == l.Fence:
		return fmt.Errorf("worker: commit: %w", failed)
	}
	return fmt.Errorf("worker: commit: %w: %w", dbq.ErrMayHaveHappened, failed)
}
