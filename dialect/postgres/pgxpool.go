package postgres

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// FromPool returns a pgx pool as a *sql.DB, for dbq.New:
//
//	c, err := dbq.New(ctx, postgres.FromPool(pool), postgres.Dialect{})
//
// Statements run on pgx's own connections as with Open, and notifications are listened for. The client takes at most
// MaxConns connections of the pool, and gives each back when its call ends; a running worker keeps half of MaxConns,
// and at most 4, for itself. Call FromPool once for each pool, and close the *sql.DB after the client and before the
// pool; closing it leaves the pool open. Tx makes a transaction of the pool one for the Tx calls.
func FromPool(pool *pgxpool.Pool) *sql.DB {
	db := stdlib.OpenDBFromPool(pool)
	db.SetMaxOpenConns(int(pool.Config().MaxConns)) // a worker reserves connections only of a pool with a limit
	return db
}
