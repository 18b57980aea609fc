package cases

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/jmoiron/sqlx"
)

// A txKind begins one kind of transaction on a client's database.
type txKind = func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)

// transactions returns the kinds of transactions to test, by name, and the names in order.
func (t *test) transactions() (names []string, kinds map[string]txKind) {
	kinds = map[string]txKind{
		"*sql.Tx": wrapping(func(tx *sql.Tx) dbq.Tx { return tx }),
		"bun.Tx":  wrapping(func(tx *sql.Tx) dbq.Tx { return rewriting{tx} }),
		"gorm.Tx": wrapping(func(tx *sql.Tx) dbq.Tx { return &preparing{Tx: tx} }),
		"wrapper": wrapping(func(tx *sql.Tx) dbq.Tx { return wrapper{tx} }),
		"*sqlx.Tx": func(ctx context.Context, c *dbq.Client) (dbq.Tx, func() error, func() error, error) {
			tx, err := sqlx.NewDb(c.DB(), "any").BeginTxx(ctx, nil)
			if err != nil {
				return nil, nil, nil, err
			}
			return tx, tx.Commit, tx.Rollback, nil
		},
	}
	maps.Copy(kinds, t.Transactions)
	return slices.Sorted(maps.Keys(kinds)), kinds
}

func wrapping(wrap func(*sql.Tx) dbq.Tx) txKind {
	return func(ctx context.Context, c *dbq.Client) (dbq.Tx, func() error, func() error, error) {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return wrap(tx), tx.Commit, tx.Rollback, nil
	}
}

// errThroughWrapper is the error of a statement that should have gone to the *sql.Tx itself.
var errThroughWrapper = errors.New("the statement went through a wrapper that rewrites it")

// rewriting is like bun.Tx: what embeds *sql.Tx writes arguments into each text by rules of its own.
type rewriting struct{ *sql.Tx }

func (r rewriting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if len(args) > 0 {
		return nil, errThroughWrapper
	}
	return r.Tx.ExecContext(ctx, query)
}

func (r rewriting) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if len(args) > 0 {
		return nil, errThroughWrapper
	}
	return r.Tx.QueryContext(ctx, query)
}

// preparing is like the transaction of gorm with PrepareStmt: its *sql.Tx is in an interface, and each text becomes a
// prepared statement.
type preparing struct{ Tx dbq.Tx }

func (p preparing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if len(args) > 0 {
		return nil, errThroughWrapper
	}
	return p.Tx.ExecContext(ctx, query)
}

func (p preparing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if len(args) > 0 {
		return nil, errThroughWrapper
	}
	return p.Tx.QueryContext(ctx, query)
}

func (p preparing) Commit() error   { return p.Tx.Commit() }
func (p preparing) Rollback() error { return p.Tx.Rollback() }

// wrapper is known by its methods alone, as a transaction that logs or traces is.
type wrapper struct{ inner *sql.Tx }

func (w wrapper) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return w.inner.ExecContext(ctx, query, args...)
}

func (w wrapper) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return w.inner.QueryContext(ctx, query, args...)
}

func (w wrapper) Commit() error   { return w.inner.Commit() }
func (w wrapper) Rollback() error { return w.inner.Rollback() }
