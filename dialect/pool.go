package dialect

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// ErrWriterBusy is returned on an engine with one writer if another transaction had it for longer than
// Pool.WriterTimeout, or until the call's deadline. Nothing was changed.
var ErrWriterBusy = errors.New(
	"another transaction has the only writer; if this goroutine began it by Client.DB, " +
		"use EnqueueTx or CompleteTx in it, or end it first",
)

// Pool holds the connection pools of a client.
type Pool struct {
	// Write and Read are for the client's own statements. They are the same pool except on SQLite, which has one writing
	// connection and several readers.
	Write, Read *sql.DB
	// Caller is returned by Client.DB, for the program's own transactions. Nil means Write. A separate pool keeps these
	// transactions from using up the client's connections, which renew leases.
	Caller *sql.DB
	// Warning is for the operator, about the connection. The client logs it when it opens. It is empty for most DSNs.
	Warning string
	// WriterTimeout limits how long the client's statements wait for the connection of a pool that has only one; then they
	// fail with ErrWriterBusy. Zero means that they wait until their contexts end.
	WriterTimeout time.Duration
	// Begin begins a transaction of Write, if its sessions need less than Statements.Begin.
	Begin []string
	// GroupCommit runs an autocommitted statement, possibly in one commit with those of other callers, on a connection
	// of Write that writer returns. It returns ok = false if the caller must run the statement on Write. Each caller
	// gets its own result, after the commit is durable. Errors are the driver's, ctx's or writer's. GroupCommit may be
	// nil.
	GroupCommit func(ctx context.Context, writer Writer, query string, args []any) (touched int64, ok bool, err error)
}

// A Writer returns a connection of Pool.Write, for which it waits no longer than Pool.WriterTimeout. The caller closes
// it.
type Writer func(ctx context.Context) (*sql.Conn, error)

// An OuterPool is the driver of a *sql.DB that takes its connections from another pool.
type OuterPool interface {
	// Busy reports whether a call must wait for a connection of the pool.
	Busy() bool
	// Recheck discards the idle connections that do not answer until ctx ends.
	Recheck(ctx context.Context)
}

// A Discarder is a dialect whose driver's connections may go back to another pool when they are closed. Discard closes
// a driver.Conn so that it does not.
type Discarder interface {
	Discard(conn any)
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
