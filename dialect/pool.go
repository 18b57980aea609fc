package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"
)

// Pool is where statements go.
type Pool struct {
	// Write and Read are for the client's own statements. They are the same pool except on SQLite, which wants one
	// writing connection and several readers.
	Write, Read *sql.DB
	// Caller is what Client.DB returns, for transactions that the program begins; nil is Write. Where it is a pool of
	// its own, these cannot use up the connections that the client itself needs, as to renew leases.
	Caller *sql.DB
	// Caution warns the operator about how the DSN connects; the client logs it when it opens. It is empty
	// for most.
	Caution string
	// Patience is for a pool with one connection: how long the client's own statements wait for it before they fail
	// with ErrWriterBusy. Zero is as long as their contexts last.
	Patience time.Duration
	// Begin begins a transaction of Write, if its sessions need less than Statements.Begin.
	Begin []string
	// Share runs a change that is its own transaction, and may let several callers share a commit. Each must get what
	// it would have got alone, and the commit must be durable before. It says not ok to a statement that it leaves to a
	// connection of Write. Its errors are as those of Session.Autocommit. It may be nil.
	Share func(ctx context.Context, query string, args []any) (touched int64, ok bool, err error)
}

// idleTime is how long a connection waits to be used again.
const idleTime = 5 * time.Minute

// NewPool makes the pools for a server that serves many connections: at most conns of them for the client, and as many
// for the transactions that the program begins, which callers connects. Connections are made when they are needed, and
// made anew after lifetime, if that is not zero.
func NewPool(client, callers driver.Connector, conns int, lifetime time.Duration) Pool {
	open := func(c driver.Connector) *sql.DB {
		db := sql.OpenDB(c)
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns) // the default of 2 would connect again all the time
		db.SetConnMaxIdleTime(idleTime)
		db.SetConnMaxLifetime(lifetime)
		return db
	}
	own := open(client)
	return Pool{Write: own, Read: own, Caller: open(callers)}
}

// Close closes all pools.
func (p Pool) Close() error {
	err := p.Write.Close()
	for _, db := range []*sql.DB{p.Read, p.Caller} {
		if db == nil || db == p.Write {
			continue
		}
		if e := db.Close(); err == nil {
			err = e
		}
	}
	return err
}
