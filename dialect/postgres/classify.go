package postgres

import (
	"errors"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/jackc/pgx/v5/pgconn"
)

// readOnly is the SQLSTATE of a statement that would write, in a session that may not.
const readOnly = "25006"

// Classify reads SQLSTATE codes. https://www.postgresql.org/docs/current/errcodes-appendix.html
func (Dialect) Classify(err error) dialect.Class {
	if errors.Is(err, dialect.ErrNoDatabase) {
		return dialect.Unavailable
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		var connect *pgconn.ConnectError // of a pool that the caller made
		var own *connectError
		if errors.As(err, &own) || errors.As(err, &connect) || pgconn.SafeToRetry(err) { // nothing had been sent
			return dialect.Unavailable
		}
		return kit.ClassifyConn(err)
	}
	switch e.Code {
	case "23505":
		return dialect.Duplicate
	case "40001", "40P01", "55P03", "57014": // serialization, deadlock, lock timeout, statement timeout
		return dialect.Conflict
	case "40003": // CockroachDB: the result of a commit is not known
		return dialect.Ambiguous
	case "57P01", "57P02", "57P03", readOnly, "3D000", // shut down, starting, read-only, no such database
		"57P04",                   // the database was dropped
		"57P05", "25P03", "25P04": // the session was ended: idle, idle in a transaction, a long transaction
		return dialect.Unavailable
	case "42P01", "42703", "3F000": // no such table, column, schema
		return dialect.Missing
	case "42501", "28000", "28P01":
		return dialect.Denied
	}
	switch e.Code[:min(2, len(e.Code))] { // a pooler may send none
	case "08":
		return dialect.Ambiguous
	case "53", "58": // out of connections, disk, memory; errors of the system that it runs on
		return dialect.Unavailable
	case "22", "23", "54": // data, constraint, limit
		return dialect.Invalid
	}
	return dialect.Unknown
}
