package dialect

import (
	"context"
	"database/sql"
)

// Conn runs statements on a pool, one connection, or a transaction. It can be implemented without database/sql, as
// dialect/postgres does for pgx.Tx.
type Conn interface {
	// Exec runs a statement and returns the number of affected rows.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// Query runs a statement and calls read with its rows, which are valid until read returns.
	Query(ctx context.Context, query string, args []any, read func(Rows) error) error
}

// A Pipeline is a Conn that can send a statement together with the next one, in one round trip.
type Pipeline interface {
	Conn
	// Later runs a statement before the next one, at the latest, and then sets touched to the number of affected rows.
	// Its error may be that of the next.
	Later(ctx context.Context, touched *int64, query string, args ...any) error
}

// Native is implemented by a dialect whose driver is faster when it is called below database/sql.
type Native interface {
	// NativeConn runs statements; std runs them through database/sql.
	NativeConn(conn *sql.Conn, std Conn) Conn
}

// Rows are the rows of a query, as in *sql.Rows, which implements it. Where null and the empty text are the same,
// Scan reads null into a *string as the empty text; of *sql.Rows the core does so.
type Rows interface {
	Columns() ([]string, error)
	Next() bool
	Scan(dest ...any) error
	Err() error
}
