package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// TxOf returns a transaction of database/sql as a pgx.Tx, for code that expects one in a handler of worker.HandleTx:
//
//	worker.HandleTx(mux, kind, func(ctx context.Context, tx *sql.Tx, t dbq.Task, v mail) error {
//		ptx, err := postgres.TxOf(ctx, tx)
//		...
//
// The two are one transaction on one connection: do not use both at the same time, nor either after tx has ended. Only
// tx can be committed or rolled back; Commit and Rollback of the pgx.Tx fail. Its Begin makes a savepoint. TxOf fails
// if the connection of tx is not one of pgx. It costs one round trip.
func TxOf(ctx context.Context, tx *sql.Tx) (pgx.Tx, error) {
	var found connFinder
	_, err := tx.ExecContext(ctx, "", &found)
	if found.conn == nil {
		return nil, fmt.Errorf("postgres: TxOf of a transaction that is not pgx's or has ended: %w", err)
	}
	ptx, err := found.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: ";"}) // the transaction has begun
	if err != nil {
		return nil, fmt.Errorf("postgres: TxOf: %w", err)
	}
	return sharedTx{ptx}, nil
}

// connFinder finds the connection of a statement: pgx gives it to the argument that rewrites queries.
type connFinder struct{ conn *pgx.Conn }

var errFound = errors.New("the connection is found")

// RewriteQuery stops the statement before it is sent.
func (f *connFinder) RewriteQuery(_ context.Context, conn *pgx.Conn, _ string, _ []any) (string, []any, error) {
	f.conn = conn
	return "", nil, errFound
}

// sharedTx is a pgx.Tx that its owner ends by database/sql.
type sharedTx struct{ pgx.Tx }

var errShared = errors.New("postgres: this pgx.Tx is of a *sql.Tx, which commits and rolls back")

// Commit fails: the *sql.Tx commits.
func (sharedTx) Commit(context.Context) error { return errShared }

// Rollback fails: the *sql.Tx rolls back.
func (sharedTx) Rollback(context.Context) error { return errShared }
