package sqlite

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Classify returns the class of SQLite's result codes.
func (Dialect) Classify(err error) dialect.Class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		if errors.Is(err, fs.ErrPermission) { // of the file, before SQLite has it
			return dialect.Denied
		}
		return kit.ClassifyConn(err)
	}
	switch code := e.Code(); code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
		sqlite3.SQLITE_SCHEMA: // another program migrates its tables in the same file
		return dialect.Conflict
	case sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_ABORT:
		return dialect.Unknown // by the caller's context, which the core sees
	case sqlite3.SQLITE_CONSTRAINT:
		if code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
			return dialect.Duplicate
		}
		return dialect.Invalid
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return dialect.Invalid
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB:
		return dialect.Unavailable
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return dialect.Denied
	case sqlite3.SQLITE_ERROR: // SQLite has no code of its own for these
		switch m := e.Error(); {
		case strings.Contains(m, "no such table"), strings.Contains(m, "no such column"),
			strings.Contains(m, "has no column named"):
			return dialect.Missing
		case strings.Contains(m, "no transaction is active"): // a cancelled statement rolled everything back
			return dialect.Conflict
		}
	}
	return dialect.Unknown
}
