package sqlrun

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/dbq-go/dbq/dialect"
)

// ErrTx is returned for a transaction that is nil, or that has ended.
var ErrTx = errors.New("not an open transaction that dbq can use: pass a *sql.Tx, a *sqlx.Tx, a bun.Tx, " +
	"tx.Statement.ConnPool.(dbq.Tx) of gorm, or a pgx.Tx wrapped by postgres.Tx")

// sqlConn is the common interface of *sql.DB, *sql.Conn, *sql.Tx and sqlx's wrappers.
type sqlConn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type stdConn struct{ sqlConn }

func (c stdConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := c.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c stdConn) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	rows, err := c.QueryContext(ctx, query, args...) // read checks them
	if err != nil {
		return err
	}
	defer rows.Close()
	return read(rows)
}

// ConnOf returns a Conn of a *sql.DB, *sql.Conn or *sql.Tx.
func ConnOf(c sqlConn) dialect.Conn { return stdConn{c} }

// Tx is a transaction of the caller: the interface of dbq.Tx, which no pool and no single connection implements.
type Tx interface {
	sqlConn
	Commit() error
	Rollback() error
}

// TxConn returns a Conn of a transaction. If tx implements Conn, TxConn returns tx itself. It returns ErrTx if tx is
// nil. Statements in an ended transaction return ErrTx and sql.ErrTxDone.
func TxConn(tx Tx) (dialect.Conn, error) {
	if v := reflect.ValueOf(tx); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w (it is nil)", ErrTx)
	}
	if own, ok := tx.(dialect.Conn); ok {
		return txConn{own}, nil
	}
	if inner, ok := innerTx(tx); ok {
		return TxConn(inner)
	}
	return txConn{stdConn{tx}}, nil
}

// innerTx returns the *sql.Tx in the field Tx of a struct. Wrappers can change statements: bun.Tx replaces question
// marks and drops the arguments, and gorm's keeps each text as a prepared statement.
func innerTx(tx Tx) (inner *sql.Tx, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(tx))
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	field := v.FieldByName("Tx")
	if !field.IsValid() || !field.CanInterface() {
		return nil, false
	}
	inner, ok = field.Interface().(*sql.Tx)
	return inner, ok
}

// txConn is a caller's transaction. Its errors are TxErrors: the caller has not sent COMMIT.
type txConn struct{ conn dialect.Conn }

func (c txConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	n, err := c.conn.Exec(ctx, query, args...)
	return n, ofTx(err)
}

func (c txConn) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	return ofTx(c.conn.Query(ctx, query, args, read))
}

// ofTx makes an error a TxError, and adds ErrTx if the transaction has ended.
func ofTx(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		err = fmt.Errorf("%w: %w", ErrTx, err)
	}
	if err != nil {
		err = &TxError{Err: err}
	}
	return err
}
