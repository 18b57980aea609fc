package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// ErrWriterBusy is returned on an engine with one writer if another transaction had it for longer than Pool.Patience,
// or until the call's deadline. Nothing was changed.
var ErrWriterBusy = errors.New(
	"another transaction has the only writer; if this goroutine began it by Client.DB, " +
		"use EnqueueTx or CompleteTx in it, or end it first",
)

// PatientFor returns the context of a wait for the writer, which ends after patience at the latest. WriterBusy has its
// error.
func PatientFor(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, busyFor(patience))
}

// busyFor is the error of a wait for the writer that has lasted so long.
type busyFor time.Duration

func (b busyFor) Error() string {
	return fmt.Sprintf("%v (waited for %v)", ErrWriterBusy, time.Duration(b))
}
func (b busyFor) Unwrap() error { return ErrWriterBusy }

// WriterBusy returns the error of a wait for the writer that ended with its context: ErrWriterBusy, too, if a deadline
// has passed.
func WriterBusy(ctx context.Context) error {
	ended, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrWriterBusy):
		return cause
	case errors.Is(ended, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrWriterBusy, ended)
	}
	return ended
}

// Pool holds the connection pools of a client.
type Pool struct {
	// Write and Read are for the client's own statements. They are the same pool except on SQLite, which has one writing
	// connection and several readers.
	Write, Read *sql.DB
	// Caller is returned by Client.DB, for the program's own transactions. Nil means Write. A separate pool keeps these
	// transactions from using up the client's connections, which renew leases.
	Caller *sql.DB
	// Caution is a warning for the operator about the connection, which the client logs when it opens. It is empty for
	// most DSNs.
	Caution string
	// Patience limits how long the client's statements wait for the connection of a pool that has only one; then they
	// fail with ErrWriterBusy. Zero means that they wait until their contexts end.
	Patience time.Duration
	// Begin begins a transaction of Write, if its sessions need less than Statements.Begin.
	Begin []string
	// GroupCommit runs an autocommitted statement, possibly in one commit with those of other callers, on a connection
	// of Write that writer returns. It returns ok = false if the caller must run the statement on Write. Each caller
	// gets its own result, after the commit is durable. Errors are the driver's, ctx's or writer's. GroupCommit may be
	// nil.
	GroupCommit func(ctx context.Context, writer Writer, query string, args []any) (touched int64, ok bool, err error)
}

// A Writer returns a connection of Pool.Write, for which it waits no longer than Pool.Patience. The caller closes it.
type Writer func(ctx context.Context) (*sql.Conn, error)

// idleTime is how long an idle connection stays open.
const idleTime = 5 * time.Minute

// NewPool returns the pools for a server with many connections: up to conns for the client, and as many for the
// transactions that the program begins, through the connector callers. Connections are opened when needed, and replaced
// after lifetime unless it is zero.
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
