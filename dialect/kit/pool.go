package kit

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strconv"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// idleTime is how long an idle connection stays open.
const idleTime = 5 * time.Minute

// NewPool returns the pools for a server with many connections: up to conns for the client, and as many for the
// transactions that the program begins, through the connector callers. Connections are opened when needed, and replaced
// after lifetime unless it is zero.
func NewPool(client, callers driver.Connector, conns int, lifetime time.Duration) dialect.Pool {
	open := func(c driver.Connector) *sql.DB {
		db := sql.OpenDB(c)
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns) // the default of 2 would connect again all the time
		db.SetConnMaxIdleTime(idleTime)
		db.SetConnMaxLifetime(lifetime)
		return db
	}
	own := open(client)
	return dialect.Pool{Write: own, Read: own, Caller: open(callers)}
}

const (
	defaultConns = 16
	maxConns     = 10_000
)

// TakeConns removes from a DSN the parameter pool_max_conns, which no driver knows, and returns its value for NewPool,
// or 16.
func TakeConns(d dialect.DSN) (int, error) {
	text := d.Params.Get("pool_max_conns")
	d.Params.Del("pool_max_conns")
	if text == "" {
		return defaultConns, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxConns {
		return 0, fmt.Errorf("%w: pool_max_conns must be a number from 1 to %d", dialect.ErrDSN, maxConns)
	}
	return n, nil
}
