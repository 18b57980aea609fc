package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// FromPool returns a pgx pool as a *sql.DB, for dbq.New:
//
//	c, err := dbq.New(ctx, postgres.FromPool(pool), postgres.Dialect{})
//
// Statements run on pgx's own connections as with Open, and notifications are listened for. The client takes at most
// MaxConns connections of the pool, and gives each back when its call ends. Close the *sql.DB after the client and
// before the pool; closing it leaves the pool open. Tx makes a transaction of the pool one for the Tx calls.
func FromPool(pool *pgxpool.Pool) *sql.DB {
	db := sql.OpenDB(outerPool{stdlib.GetPoolConnector(pool), pool})
	db.SetMaxIdleConns(0)                           // the pool keeps them
	db.SetMaxOpenConns(int(pool.Config().MaxConns)) // a worker compares it with its Concurrency
	return db
}

// outerPool connects by taking connections of a pgx pool. It is its own driver, so that the pool can be reached from
// its *sql.DB.
type outerPool struct {
	driver.Connector
	pool *pgxpool.Pool
}

var _ dialect.OuterPool = outerPool{}

// Driver returns the connector itself.
func (o outerPool) Driver() driver.Driver { return o }

// Open is pgx's.
func (o outerPool) Open(dsn string) (driver.Conn, error) { return o.Connector.Driver().Open(dsn) }

// Busy reports whether all connections of the pool are in use.
func (o outerPool) Busy() bool {
	s := o.pool.Stat()
	return s.AcquiredConns() >= s.MaxConns()
}

// Recheck discards the idle connections of the pool that do not answer until ctx ends.
func (o outerPool) Recheck(ctx context.Context) {
	var all sync.WaitGroup
	for _, conn := range o.pool.AcquireAllIdle(ctx) {
		all.Go(func() {
			defer conn.Release()
			if conn.Ping(ctx) != nil { // otherwise pgx waits for the server to close it, and the pool counts it until then
				_ = conn.Conn().PgConn().Conn().Close()
			}
		})
	}
	all.Wait()
}

// connect makes a connection as the pool does.
func (o outerPool) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := o.pool.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return nil, err
		}
	}
	cfg.ConnConfig.OnNotification = nil // of the pool's own
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err == nil && cfg.AfterConnect != nil {
		err = cfg.AfterConnect(ctx, conn)
	}
	return conn, err
}

// Discard closes a connection of pgx, which a pgx pool would otherwise use again.
func (Dialect) Discard(conn any) {
	if c, ok := conn.(interface{ Conn() *pgx.Conn }); ok {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = c.Conn().Close(ctx)
	}
}
