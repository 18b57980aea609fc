package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"modernc.org/sqlite"
)

// preparedText limits the text of the prepared statements that a connection keeps. A prepared statement needs about
// thirty times the memory of its text, so the limit is a few MB. All statements of a worker with full batches fit.
const preparedText = 128 << 10

// connector opens connections that prepare each statement once. SQLite needs longer to prepare an insert than to run
// it, and database/sql would prepare it for each call.
type connector struct {
	driver.Connector
	patience time.Duration // see conn; 0 leaves it to SQLite to wait
}

func connect(uri string, patience time.Duration) (connector, error) {
	c, err := sqlite.NewConnector(uri)
	return connector{c, patience}, err
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	all, ok := inner.(driverConn)
	if !ok {
		inner.Close()
		return nil, fmt.Errorf("sqlite: the driver's connection is a %T, which cannot do all that is needed", inner)
	}
	if c.patience > 0 { // so far SQLite itself waits, because it may have to create a file
		if _, err := all.ExecContext(ctx, "PRAGMA busy_timeout = 0", nil); err != nil {
			inner.Close()
			return nil, err
		}
	}
	return &conn{driverConn: all, patience: c.patience, idle: map[string]*prepared{}}, nil
}

// driverConn has the methods of the driver's connection that database/sql uses.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// driverStmt and driverRows are the driver's statements and rows.
type (
	driverStmt interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	}
	driverRows interface {
		driver.Rows
		driver.RowsColumnTypeDatabaseTypeName
		driver.RowsColumnTypeLength
		driver.RowsColumnTypeNullable
		driver.RowsColumnTypePrecisionScale
		driver.RowsColumnTypeScanType
	}
)

// conn is a driver's connection with the statements that it has prepared. Like any driver's, it serves one goroutine at
// a time.
type conn struct {
	driverConn
	patience time.Duration        // how long a statement waits for another process's lock, or 0 if SQLite itself waits
	idle     map[string]*prepared // those that do not run, by their text
	bytes    int                  // the length of their texts
	uses     uint64
}

type prepared struct {
	driverStmt
	text  string
	short bool   // see watched
	used  uint64 // when, in uses
}

// take returns the prepared statement of a text for exclusive use. The caller returns it with give.
func (c *conn) take(ctx context.Context, text string) (*prepared, error) {
	if p := c.idle[text]; p != nil {
		c.forget(p)
		return p, nil
	}
	stmt, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &prepared{driverStmt: stmt.(driverStmt), text: text, short: isShort(text)}, nil
}

// give keeps a statement for the next caller, and closes the least recently used ones.
func (c *conn) give(p *prepared) {
	if c.idle[p.text] != nil { // two ran at once
		p.Close()
		return
	}
	c.uses++
	p.used = c.uses
	c.idle[p.text] = p
	for c.bytes += len(p.text); c.bytes > preparedText; {
		oldest := p
		for _, other := range c.idle {
			if other.used < oldest.used {
				oldest = other
			}
		}
		c.forget(oldest)
		oldest.Close()
	}
}

func (c *conn) forget(p *prepared) {
	delete(c.idle, p.text)
	c.bytes -= len(p.text)
}

// Close closes the statements and the connection.
func (c *conn) Close() error {
	for _, p := range c.idle {
		p.Close()
	}
	clear(c.idle)
	return c.driverConn.Close()
}

// repeated reports whether a text is likely to be run again and can be prepared at any time. A PRAGMA can take effect
// when it is prepared.
func repeated(text string) bool {
	switch verb(text) {
	case "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT":
		return len(text) <= preparedText
	}
	return false
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (r driver.Result, err error) {
	err = c.waiting(ctx, func() (err error) {
		r, err = c.exec(ctx, text, args)
		return err
	})
	return r, err
}

func (c *conn) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if !repeated(text) {
		return c.driverConn.ExecContext(ctx, text, args)
	}
	p, err := c.take(ctx, text)
	if err != nil {
		return nil, err
	}
	defer c.give(p)
	if ctx, err = watched(ctx, p); err != nil {
		return nil, err
	}
	return p.ExecContext(ctx, args)
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (r driver.Rows, err error) {
	err = c.waiting(ctx, func() (err error) {
		r, err = c.query(ctx, text, args)
		return err
	})
	return r, err
}

func (c *conn) query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if !repeated(text) {
		return c.driverConn.QueryContext(ctx, text, args)
	}
	p, err := c.take(ctx, text)
	if err != nil {
		return nil, err
	}
	r, err := p.QueryContext(ctx, args)
	if err != nil {
		c.give(p)
		return nil, err
	}
	return &rows{driverRows: r.(driverRows), give: func() { c.give(p) }}, nil
}

// rows return their statement when they are closed. database/sql closes them once.
type rows struct {
	driverRows
	give func()
}

func (r *rows) Close() error {
	defer r.give()
	return r.driverRows.Close()
}
