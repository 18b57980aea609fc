package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5"
)

// Transaction makes a pgx.Tx a transaction that dbq's Tx calls take.
type Transaction struct{ tx pgx.Tx }

var _ dialect.Conn = Transaction{}

// Tx wraps a transaction of pgx, for EnqueueTx, CompleteTx and the other Tx calls. The caller commits or rolls back tx itself.
func Tx(tx pgx.Tx) Transaction { return Transaction{tx} }

// ExecContext runs a statement, as *sql.Tx does.
func (t Transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	n, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(n), err
}

// Exec runs a statement and says how many rows it touched.
func (t Transaction) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

// Query runs a statement that returns rows.
func (t Transaction) Query(ctx context.Context, query string, args ...any) (dialect.Rows, error) {
	rows, err := t.tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return &pgxRows{Rows: rows}, nil
}
