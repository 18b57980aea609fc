// Package querycount counts the queries of a pool, for tests of the cost of calls.
package querycount

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
)

// Wrap returns a pool on the connections of another one, which adds each of its queries to n. Statements that change
// something are not counted. The pool's driver must implement driver.QueryerContext.
func Wrap(pool *sql.DB, n *atomic.Int64) *sql.DB { return sql.OpenDB(connector{pool, n}) }

type connector struct {
	*sql.DB
	n *atomic.Int64
}

func (c connector) Driver() driver.Driver { return c.DB.Driver() }

func (c connector) Connect(ctx context.Context) (out driver.Conn, err error) {
	held, err := c.Conn(ctx)
	if err != nil {
		return nil, err
	}
	err = held.Raw(func(inner any) error {
		out = conn{inner.(driver.Conn), inner.(driver.QueryerContext), held, c.n}
		return nil
	})
	return out, err
}

// conn is a connection that the other pool has lent.
type conn struct {
	driver.Conn
	inner driver.QueryerContext
	held  *sql.Conn
	n     *atomic.Int64
}

func (c conn) Close() error { return c.held.Close() }

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.n.Add(1)
	return c.inner.QueryContext(ctx, query, args)
}

// CheckNamedValue lets the driver convert an argument, if it does.
func (c conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
