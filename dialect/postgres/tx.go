package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5"
)

// endTimeout bounds Commit and Rollback of a Transaction.
const endTimeout = 10 * time.Second

// Transaction makes a pgx.Tx a dbq.Tx.
type Transaction struct{ tx pgx.Tx }

var _ dialect.Conn = Transaction{}

// Tx wraps a transaction of pgx, for EnqueueTx, CompleteTx and the other Tx calls. The caller commits or rolls back tx
// itself.
func Tx(tx pgx.Tx) Transaction { return Transaction{tx} }

// ExecContext runs a statement, as *sql.Tx does.
func (t Transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	n, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(n), err
}

// QueryContext always fails, since pgx cannot make *sql.Rows: use Query, as dbq does.
func (Transaction) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, fmt.Errorf("postgres: QueryContext in a pgx.Tx: %w; use Query", errors.ErrUnsupported)
}

// Commit commits within ten seconds. tx.Commit does the same.
func (t Transaction) Commit() error { return t.end(pgx.Tx.Commit) }

// Rollback rolls back within ten seconds. tx.Rollback does the same.
func (t Transaction) Rollback() error { return t.end(pgx.Tx.Rollback) }

func (t Transaction) end(how func(pgx.Tx, context.Context) error) error {
	if t.tx == nil {
		return done(pgx.ErrTxClosed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	return done(how(t.tx, ctx))
}

// Exec runs a statement and says how many rows it touched.
func (t Transaction) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if t.tx == nil {
		return 0, done(pgx.ErrTxClosed)
	}
	tag, err := t.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), done(err)
}

// Query runs a statement and calls read with its rows.
func (t Transaction) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	if t.tx == nil {
		return done(pgx.ErrTxClosed)
	}
	rows, err := t.tx.Query(ctx, query, args...)
	return readRows(rows, done(err), read)
}

// done gives pgx's error for a transaction that has ended the name that database/sql has for it.
func done(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("%w: %w", sql.ErrTxDone, err)
	}
	return err
}
