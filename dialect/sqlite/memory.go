package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// openMemory makes a database that lives until its pool is closed. Plain ":memory:" would die with its connection, and
// a write that is cut off may cost its connection.
func openMemory(ctx context.Context, query url.Values, busy time.Duration) (dialect.Pool, error) {
	query.Set("vfs", "memdb")
	c, err := connect("file:/dbq-"+uuid.NewString()+"?"+query.Encode(), busy)
	if err != nil {
		return dialect.Pool{}, err
	}
	keep, err := c.Connect(ctx)
	if err != nil {
		return dialect.Pool{}, err
	}
	db := sql.OpenDB(&memory{c, keep})
	one(db)
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return dialect.Pool{}, err
	}
	return dialect.Pool{Write: db, Read: db, Patience: max(busy, leastPatience)}, nil
}

// memory connects to one database in memory, and keeps it alive by a connection of its own, which is never used.
type memory struct {
	connector
	keep driver.Conn
}

// Close is called by the pool's.
func (m *memory) Close() error { return m.keep.Close() }
