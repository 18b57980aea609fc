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

// openMemory creates a database that exists until its pool is closed. A plain ":memory:" database is lost with its
// connection, and an interrupted write can close its connection.
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
	return dialect.Pool{Write: db, Read: db, WriterTimeout: max(busy, leastTimeout)}, nil
}

// memory connects to one database in memory. An unused connection of its own keeps the database.
type memory struct {
	connector
	keep driver.Conn
}

// Close is called by the pool's Close.
func (m *memory) Close() error { return m.keep.Close() }
