// Package acme is a complete dialect, as small as one can be, for the tutorial docs/dialect.md. It speaks to SQLite,
// which needs no server, and shares nothing with dialect/sqlite, which is faster and several times as long.
package acme

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/google/uuid"
	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"
)

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"acme"}, Dialect: Dialect{}, Open: Open, File: true})
}

// Open opens the file of "acme:FILE". There is one connection that writes, since SQLite has one writer; readers do not
// wait for it.
func Open(ctx context.Context, dsn string, _ dialect.Password) (pool dialect.Pool, err error) {
	path := strings.TrimPrefix(dsn, "acme:")
	if path == "" || strings.ContainsAny(path, "?#\x00") {
		return pool, fmt.Errorf("%w: write acme:FILE, without parameters", dialect.ErrDSN)
	}
	// What was acknowledged must survive a power failure: synchronous is FULL.
	file := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	if pool.Write, err = sql.Open("sqlite", file+"&_txlock=immediate"); err != nil {
		return pool, err
	}
	pool.Write.SetMaxOpenConns(1)
	if pool.Read, err = sql.Open("sqlite", file); err == nil {
		err = pool.Write.PingContext(ctx)
	}
	if err != nil {
		pool.Close()
	}
	return pool, err
}

// Dialect speaks to SQLite.
type Dialect struct{}

// Name is "acme".
func (Dialect) Name() string { return "acme" }

// Probe reports what the library can do. unixepoch('subsec') came with SQLite 3.42; before, it is null.
func (Dialect) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	server := dialect.Server{Product: "SQLite", Strategies: []dialect.Strategy{dialect.CAS}, MaxPayload: 100 << 20,
		Precision: time.Millisecond, NoSchemas: true, OneWriter: true}
	var clock bool
	const probe = "SELECT sqlite_version(), unixepoch('subsec') IS NOT NULL"
	err := db.QueryRowContext(ctx, probe).Scan(&server.Version, &clock)
	if err == nil && !clock {
		err = fmt.Errorf("%w: SQLite %s is too old, acme needs 3.42", dialect.ErrServer, server.Version)
	}
	return server, err
}

// BindValue gives the driver an id as bytes: SQLite has no type for it.
func (Dialect) BindValue(v any) any {
	if id, ok := v.(uuid.UUID); ok {
		return id[:]
	}
	return v
}

// Checkout finds and leases tasks in one transaction, which waits for every other writer, so nothing can change between
// the two.
func (Dialect) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	return kit.FindAndTake(ctx, s, r)
}

// Classify reads SQLite's result codes.
func (Dialect) Classify(err error) dialect.Class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return kit.ClassifyConn(err)
	}
	has := func(part string) bool { return strings.Contains(e.Error(), part) }
	switch e.Code() & 0xff { // the other bits are details
	case code.SQLITE_BUSY, code.SQLITE_LOCKED, code.SQLITE_SCHEMA:
		return dialect.Conflict
	case code.SQLITE_CONSTRAINT, code.SQLITE_TOOBIG, code.SQLITE_MISMATCH:
		if e.Code() == code.SQLITE_CONSTRAINT_UNIQUE || e.Code() == code.SQLITE_CONSTRAINT_PRIMARYKEY {
			return dialect.Duplicate
		}
		return dialect.Invalid
	case code.SQLITE_FULL, code.SQLITE_IOERR, code.SQLITE_CANTOPEN, code.SQLITE_NOTADB:
		return dialect.Unavailable
	case code.SQLITE_READONLY, code.SQLITE_PERM, code.SQLITE_AUTH:
		return dialect.Denied
	case code.SQLITE_ERROR: // one code for many errors
		switch {
		case has("no such table"), has("no such column"), has("has no column"):
			return dialect.Missing
		case has("no transaction is active"): // an interrupted statement has rolled back everything
			return dialect.Conflict
		}
	}
	return dialect.Unknown
}
