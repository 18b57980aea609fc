package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"runtime"
	"syscall"

	"github.com/dbq-go/dbq/dialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// readOnlyWarning warns about a file that is opened without permission to write.
const readOnlyWarning = "the SQLite file or its directory is not writable, so the client only reads; " +
	"set mode=ro in the DSN if that is intended"

// openReadOnly makes one pool of readers, for a monitor: every change is denied.
func openReadOnly(ctx context.Context, path string, query url.Values, warning string) (dialect.Pool, error) {
	query = maps.Clone(query)
	query["_pragma"] = append(query["_pragma"][:len(query["_pragma"]):len(query["_pragma"])], "query_only(1)")
	query.Set("mode", "ro")
	shared, err := connect(fileURI(path, query), 0)
	if err != nil {
		return dialect.Pool{}, err
	}
	query.Set("immutable", "1")
	alone, err := connect(fileURI(path, query), 0)
	if err != nil {
		return dialect.Pool{}, err
	}
	db := sql.OpenDB(reader{connector: shared, alone: alone, path: path})
	db.SetMaxOpenConns(max(4, runtime.NumCPU()))
	db.SetMaxIdleConns(-1) // each call checks again whether a process writes
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return dialect.Pool{}, openError(path, err)
	}
	return dialect.Pool{Write: db, Read: db, Warning: warning}, nil
}

// reader connects to a file that it cannot write. While another process writes, the reader shares that process's WAL
// and its index. If no process has the file open, these files do not exist and the reader may not be able to create
// them: then it reads the file itself, without locks. Such a call can fail or read a mixture if a process starts to
// write meanwhile.
type reader struct {
	connector
	alone connector
	path  string
}

func (r reader) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.connector.Connect(ctx)
	if err == nil {
		if err = touch(ctx, c); err == nil {
			return c, nil
		}
		c.Close()
	}
	if !cannotOpen(err) {
		return nil, err
	}
	if wal, statErr := os.Stat(r.path + "-wal"); statErr == nil && wal.Size() > 0 {
		return nil, fmt.Errorf("the last writer left a WAL that needs write access to be read; "+
			"open the file once as its owner, for example with dbq stats: %w", err)
	}
	if c, err = r.alone.Connect(ctx); err != nil {
		return nil, err
	}
	if err = touch(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// touch reads from the file, because connecting alone does not.
func touch(ctx context.Context, c driver.Conn) error {
	_, err := c.(*conn).ExecContext(ctx, "PRAGMA schema_version", nil)
	return err
}

// cannotOpen reports whether SQLite could not open the database or a file beside it in the required mode.
func cannotOpen(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CANTOPEN || e.Code()&0xff == sqlite3.SQLITE_READONLY)
}

// onlyReadable reports whether a file exists that this process can read but not write.
func onlyReadable(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		f.Close()
		return false
	}
	return (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) && readable(path)
}

func readable(path string) bool {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func fileURI(path string, query url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}
