package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// durability is PRAGMA synchronous. FULL syncs at each commit; NORMAL can lose the last commits, and so acknowledged
// tasks, when the power fails, but not when a process dies.
var durability = []string{"full", "normal", "extra"}

const (
	defaultBusyTimeout = 10 * time.Second
	// leastTimeout is the minimum time that a write waits for the one writing connection of its process.
	leastTimeout = time.Second
)

// The values of the parameter mode.
const (
	readOnly  = "ro"
	readWrite = "rw"
)

// checkpointPages is the size of the WAL, 16 MB, from which a commit copies it into the database, which syncs both
// files. A queue writes the same pages repeatedly, and only their last versions are copied.
const checkpointPages = 4000

// Open makes the pools for "sqlite:PATH" or "sqlite:///PATH": one writing connection and several readers, in WAL mode.
// The directory must exist and be on a local disk. A file that Open makes has the mode 0600. Parameters:
//
//	synchronous=full|normal|extra   full is the default: what was acknowledged survives a power failure
//	busy_timeout=10s                how long a write waits for another process's, and for a transaction of Client.DB,
//	                                at least a second
//	mode=ro                         only read: every change is denied. The default is rw
//
// It refuses anything else, so a misspelled name is not ignored. A database in memory ("sqlite::memory:") has one
// connection for everything and lives as long as its client.
//
// If this process can read a file but not write to it, Open opens it as with mode=ro, and sets the pool's Warning. A
// reader only needs permission to read the file and the files beside it. It sees everything that is committed. If no
// process has the file open, it reads without locks, so a call can fail or read a mixture if a writer starts
// meanwhile.
func Open(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
	path, query, busy, err := split(dsn)
	if err != nil {
		return dialect.Pool{}, err
	}
	asked := query.Get("mode") == readOnly
	query.Del("mode")
	if path == ":memory:" {
		return openMemory(ctx, query, busy)
	}
	if asked {
		return openReadOnly(ctx, path, query, "")
	}
	if onlyReadable(path) {
		return openReadOnly(ctx, path, query, readOnlyWarning)
	}
	if err := private(path); err != nil {
		return dialect.Pool{}, err
	}
	plain := maps.Clone(query)
	query.Add("_pragma", "journal_mode(WAL)")
	query.Add("_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages))
	query.Set("_txlock", "immediate")
	query.Add("_pragma", "temp_store(MEMORY)")
	writing, err := connect(fileURI(path, query), busy)
	if err != nil {
		return dialect.Pool{}, err
	}
	write := sql.OpenDB(writing)
	one(write)
	// The writer creates the file and sets its WAL mode; readers cannot.
	if err := write.PingContext(ctx); err != nil {
		write.Close()
		if cannotOpen(err) && readable(path) { // the files beside it cannot be created or written
			if pool, err := openReadOnly(ctx, path, plain, readOnlyWarning); err == nil {
				return pool, nil
			}
		}
		return dialect.Pool{}, openError(path, err)
	}
	query.Del("_txlock")
	query.Add("_pragma", "query_only(1)")
	reading, err := connect(fileURI(path, query), 0)
	if err != nil {
		write.Close()
		return dialect.Pool{}, err
	}
	read := sql.OpenDB(reading)
	read.SetMaxOpenConns(max(4, runtime.NumCPU()))
	read.SetMaxIdleConns(2)
	group := &groupCommit{timeout: max(busy, leastTimeout)}
	return dialect.Pool{Write: write, Read: read, WriterTimeout: group.timeout, GroupCommit: group.exec}, nil
}

// openError explains why a file cannot be opened, if SQLite's message does not.
func openError(path string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return fmt.Errorf("%w: %q is not a SQLite database (or it is encrypted)", dialect.ErrDSN, path)
	}
	if f, denied := os.OpenFile(path, os.O_RDWR, 0); errors.Is(denied, fs.ErrPermission) {
		return fmt.Errorf("cannot open the SQLite file: %w", denied)
	} else if denied == nil {
		f.Close()
	}
	return fmt.Errorf("cannot open %q: %w", path, err)
}

// private creates a missing database file that only its owner can read, because payloads may be secret and SQLite would
// use the umask. SQLite gives the files beside it the same mode. An existing file keeps its mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil // it exists, or SQLite will report why it cannot be created
	}
	return f.Close()
}

// one limits a pool to one connection, which is never closed.
func one(db *sql.DB) {
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	db.SetConnMaxLifetime(0)
}

// split parses a DSN into the file's path, the driver's parameters, and how long a write waits for one of another
// process.
func split(dsn string) (path string, query url.Values, busy time.Duration, err error) {
	rest := strings.TrimPrefix(dsn, "sqlite:")
	if strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///") && strings.Contains(rest, "@") {
		return "", nil, 0, fmt.Errorf("%w: SQLite has no users and hosts: write sqlite:FILE, without slashes before it",
			dialect.ErrDSN)
	}
	rest = strings.TrimPrefix(rest, "//") // sqlite:///absolute or sqlite://relative
	path, raw, _ := strings.Cut(rest, "?")
	if path == "" {
		return "", nil, 0, fmt.Errorf("%w: no file named; write sqlite:queue.db", dialect.ErrDSN)
	}
	if strings.ContainsRune(path, 0) {
		return "", nil, 0, fmt.Errorf("%w: a file's path cannot hold a NUL", dialect.ErrDSN)
	}
	params, err := url.ParseQuery(raw)
	if err != nil {
		return "", nil, 0, fmt.Errorf("%w: its parameters cannot be read: %w", dialect.ErrDSN, err)
	}
	sync := durability[0]
	busy = defaultBusyTimeout
	for name := range params {
		value := params.Get(name)
		switch name {
		case "synchronous":
			sync = strings.ToLower(value)
			if !slices.Contains(durability, sync) {
				return "", nil, 0, fmt.Errorf("%w: synchronous must be one of %s",
					dialect.ErrDSN, strings.Join(durability, ", "))
			}
		case "busy_timeout":
			busy, err = time.ParseDuration(value)
			if err != nil || busy < 0 || busy > time.Hour {
				return "", nil, 0, fmt.Errorf("%w: busy_timeout must be a duration such as 10s", dialect.ErrDSN)
			}
		case "mode":
			if value != readOnly && value != readWrite {
				return "", nil, 0, fmt.Errorf("%w: mode must be %s or %s", dialect.ErrDSN, readOnly, readWrite)
			}
		default:
			return "", nil, 0, fmt.Errorf("%w: unknown parameter %q, known are busy_timeout, mode and synchronous",
				dialect.ErrDSN, name)
		}
	}
	return path, url.Values{"mode": {params.Get("mode")}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		fmt.Sprintf("synchronous(%s)", strings.ToUpper(sync)),
	}}, busy, nil
}
