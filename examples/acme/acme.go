// Package acme is a complete dialect of dbq as somebody else would write one, for the page docs/dialect.md: the smallest that keeps every
// promise. It speaks to SQLite, since that needs no server, and takes nothing from dbq's own dialect for it, which does the same
// faster: acme has one connection that writes, takes the writer's lock to find that there is nothing to do, and finds due tasks by
// one search, which walks the future tasks of better priorities. See docs/design.md for what that costs.
package acme

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"
)

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"acme"}, Dialect: Dialect{}, Open: Open})
}

// Open opens the file of "acme:FILE".
func Open(ctx context.Context, dsn string) (dialect.Pool, error) {
	path := strings.TrimPrefix(dsn, "acme:")
	if path == "" || strings.ContainsAny(path, "?#\x00") {
		return dialect.Pool{}, fmt.Errorf("%w: write acme:FILE, without parameters", dialect.ErrDSN)
	}
	// What was acknowledged must survive a power failure: synchronous is FULL.
	file := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	write, err := sql.Open("sqlite", file+"&_txlock=immediate")
	if err != nil {
		return dialect.Pool{}, err
	}
	write.SetMaxOpenConns(1) // there is one writer
	// Readers do not wait for it: a worker whose renewal does can see that its tasks are still its own.
	read, err := sql.Open("sqlite", file)
	if err != nil {
		write.Close()
		return dialect.Pool{}, err
	}
	pool := dialect.Pool{Write: write, Read: read}
	if err := write.PingContext(ctx); err != nil {
		pool.Close()
		return dialect.Pool{}, err
	}
	return pool, nil
}

// Dialect speaks to SQLite.
type Dialect struct{}

// Name is "acme".
func (Dialect) Name() string { return "acme" }

// Probe finds out whether the server is new enough, and what it can do.
func (Dialect) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	var version string
	var clock bool
	// Ask for what is needed rather than for a number, where that is possible: unixepoch('subsec') came with 3.42.
	err := db.QueryRowContext(ctx, "SELECT sqlite_version(), unixepoch('subsec') IS NOT NULL").Scan(&version, &clock)
	if err != nil {
		return dialect.Server{}, err
	}
	if !clock {
		return dialect.Server{}, fmt.Errorf("%w: SQLite %s is too old, acme needs 3.42", dialect.ErrDSN, version)
	}
	return dialect.Server{
		Product: "SQLite", Version: version, Strategies: []dialect.Strategy{dialect.CAS},
		MaxPayload: 100 << 20, Precision: time.Millisecond, NoSchemas: true, OneWriter: true,
	}, nil
}

// BindValue gives the driver an id as bytes: SQLite has no type for it.
func (Dialect) BindValue(v any) any {
	if id, ok := v.(uuid.UUID); ok {
		return id[:]
	}
	return v
}

// Checkout takes tasks in one transaction, which waits for every other writer. So nobody can come between the search and the change.
func (Dialect) Checkout(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) ([]dialect.Row, error) {
	if r.Strategy != dialect.CAS {
		return nil, fmt.Errorf("acme: no strategy %q", r.Strategy)
	}
	order := []string{"ready", "expired"}
	if r.Expired { // else a backlog that fills every checkout would keep them waiting
		order = []string{"expired", "ready"}
	}
	var out []dialect.Row
	err := s.Tx(ctx, func(ctx context.Context, c dialect.Conn) error {
		budget := r.Budget()
		for _, which := range order {
			if budget.Spent() {
				break
			}
			args := dialect.Args{"queue": r.Queue, "holder": r.Holder, "lease": r.Lease.Microseconds(), "limit": budget.Rows,
				"begun": r.Begun()}
			rows, err := take(ctx, s, c, which, args, &budget)
			if err != nil {
				return err
			}
			budget.Spend(rows)
			out = budget.Mark(append(out, rows...))
		}
		return nil
	})
	if err != nil {
		return nil, err // when it is not known whether the transaction was committed, no row is leased for sure
	}
	return out, nil
}

// take finds tasks, leases the first of them whose payloads fit, and puts them in order again: what a statement returns has none.
func take(ctx context.Context, s *dialect.Session, c dialect.Conn, which string, args dialect.Args, b *dialect.Budget) ([]dialect.Row, error) {
	found, err := s.Query(ctx, c, s.Statements.Checkout["find "+which], args)
	if found = b.Fit(found); err != nil || len(found) == 0 {
		return nil, err
	}
	var ids dialect.Col[uuid.UUID]
	was := map[uuid.UUID]dialect.Row{}
	for _, row := range found {
		ids, was[row.ID] = append(ids, row.ID), row
	}
	args["id"] = ids
	taken, err := s.QueryBatch(ctx, c, s.Statements.CheckoutBatch["take "+which], args, len(ids))
	for i := range taken {
		row := was[taken[i].ID]
		taken[i].WasDue, taken[i].WasHolder, taken[i].WasTaken = row.WasDue, row.WasHolder, row.WasTaken
		taken[i].WasUntil, taken[i].WasAttempt = row.WasUntil, row.WasAttempt
	}
	slices.SortFunc(taken, dialect.HandOutOrder)
	return taken, err
}

// Classify reads SQLite's result codes.
func (Dialect) Classify(err error) dialect.Class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return dialect.ClassifyConn(err)
	}
	switch e.Code() & 0xff { // the rest are details
	case code.SQLITE_BUSY, code.SQLITE_LOCKED, code.SQLITE_SCHEMA:
		return dialect.Conflict
	case code.SQLITE_CONSTRAINT:
		if e.Code() == code.SQLITE_CONSTRAINT_UNIQUE || e.Code() == code.SQLITE_CONSTRAINT_PRIMARYKEY {
			return dialect.Duplicate
		}
		return dialect.Invalid
	case code.SQLITE_TOOBIG, code.SQLITE_MISMATCH:
		return dialect.Invalid
	case code.SQLITE_FULL, code.SQLITE_IOERR, code.SQLITE_CANTOPEN, code.SQLITE_NOTADB:
		return dialect.Unavailable
	case code.SQLITE_READONLY, code.SQLITE_PERM, code.SQLITE_AUTH:
		return dialect.Denied
	case code.SQLITE_ERROR: // one code for much: its text tells
		switch text := e.Error(); {
		case strings.Contains(text, "no such table"), strings.Contains(text, "no such column"), strings.Contains(text, "has no column"):
			return dialect.Missing
		case strings.Contains(text, "no transaction is active"): // a statement that was cut off rolled everything back
			return dialect.Conflict
		}
	}
	return dialect.Unknown
}
