package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
	"modernc.org/sqlite"
)

// openMemory makes a database that lives until its pool is closed. Plain ":memory:" would die with its connection, and a write that is
// cut off may cost its connection.
func openMemory(ctx context.Context, query url.Values) (dialect.Pool, error) {
	query.Set("vfs", "memdb")
	m := &memory{uri: "file:/dbq-" + uuid.NewString() + "?" + query.Encode()}
	keep, err := m.Driver().Open(m.uri)
	if err != nil {
		return dialect.Pool{}, err
	}
	m.keep = keep
	db := sql.OpenDB(m)
	one(db)
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return dialect.Pool{}, err
	}
	return dialect.Pool{Write: db, Read: db}, nil
}

// memory connects to one database in memory, and keeps it alive by a connection of its own, which is never used.
type memory struct {
	uri  string
	keep driver.Conn
}

func (m *memory) Connect(context.Context) (driver.Conn, error) { return m.Driver().Open(m.uri) }
func (m *memory) Driver() driver.Driver                        { return &sqlite.Driver{} }

// Close is called by the pool's.
func (m *memory) Close() error { return m.keep.Close() }
