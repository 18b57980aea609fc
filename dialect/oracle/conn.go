package oracle

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	ora "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/network"
)

const (
	dialTimeout  = 10 * time.Second
	closeTimeout = 5 * time.Second // for logging off, a rollback, or closing rows
)

// errLost is the error of a connection that was lost after something was sent. driver.ErrBadConn would mean that
// nothing was sent.
var errLost = fmt.Errorf("the connection to Oracle was lost: %w", io.ErrUnexpectedEOF)

// NewConnector returns a connector for a pool that a program shares with dbq: pass sql.OpenDB(connector) to dbq.New.
// The DSN is that of Open, without pool_max_conns.
//
// Its connections end a statement differently from go-ora's. When a context ends, go-ora sends a break, which the
// server may read so late that the next statement fails. go-ora also keeps a connection whose answer is missing, so
// the next statement may read that answer. Here, a statement that does not end in time, or whose answer cannot be
// read, closes its connection, and the server rolls back what was not committed.
func NewConnector(dsn string) (driver.Connector, error) {
	text, _, err := config(dsn, nil)
	if err != nil {
		return nil, err
	}
	return &connector{dsn: text}, nil
}

// connector is used as a pointer, so that printing a pool does not print the DSN in it.
type connector struct {
	dsn      string
	password dialect.Password // nil is the DSN's
}

// Driver returns go-ora's driver. Connections come from Connect.
func (*connector) Driver() driver.Driver { return ora.GetDefaultDriver() }

// Connect makes a connection. Each has its own go-ora connector, so that its socket is known.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	dsn := c.dsn
	if c.password != nil {
		password, err := kit.NextPassword(ctx, c.password)
		if err != nil {
			return nil, err
		}
		u, err := url.Parse(dsn)
		if err != nil {
			return nil, errors.New("oracle: the DSN cannot be read") // the error would show it
		}
		u.User = url.UserPassword(u.User.Username(), password)
		dsn = u.String()
	}
	inner, ok := ora.NewConnector(dsn).(*ora.OracleConnector)
	if !ok {
		return nil, fmt.Errorf("oracle: go-ora made a %T", inner)
	}
	out := &conn{wire: &wire{ctx: ctx}}
	inner.Dialer(out.wire)
	done, err := out.watch(ctx)
	if err != nil {
		return nil, err
	}
	made, err := inner.Connect(context.WithoutCancel(ctx))
	if err = done(err); err == nil {
		if out.Connection, ok = made.(*ora.Connection); ok {
			return out, nil
		}
		err = fmt.Errorf("oracle: go-ora made a %T", made)
	}
	out.wire.close()
	if errors.Is(err, errLost) { // nothing but a greeting was sent
		err = fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return nil, err
}

// wire dials for go-ora, and keeps the socket so that it can be closed.
type wire struct {
	ctx context.Context // of Connect

	mu     sync.Mutex
	socket net.Conn
	closed bool
}

// DialContext ignores the context that go-ora passes, which never ends.
func (w *wire) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	socket, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(w.ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket = socket; w.closed {
		socket.Close()
	}
	return socket, nil
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.socket != nil {
		w.socket.Close()
	}
}

// conn is a go-ora connection that is closed when it is no longer reliable. Like every connection of a pool, it has
// one user at a time.
type conn struct {
	*ora.Connection
	wire   *wire
	broken bool
}

// watch closes the socket when ctx ends before done is called. done translates the driver's error. It is
// called once.
func (c *conn) watch(ctx context.Context) (done func(error) error, err error) {
	if c.broken {
		return nil, driver.ErrBadConn
	}
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was sent
	}
	detach := context.AfterFunc(ctx, c.wire.close)
	return func(err error) error {
		inTime := detach()
		if inTime && err == nil {
			return nil
		}
		var refused *network.OracleError
		if inTime && errors.As(err, &refused) && !refused.Bad() && !slices.Contains(ending, refused.ErrCode) {
			return err
		}
		c.broken = true
		c.wire.close()
		switch {
		case err == nil: // it was done just in time
			return nil
		case !inTime:
			return fmt.Errorf("%w: %w", ctx.Err(), errLost)
		case refused == nil && lost(err):
			return fmt.Errorf("%w: %v", errLost, err) // the driver's ErrBadConn must not be found in it
		}
		return err
	}, nil
}

// ending are errors after which a connection is not reliable, besides those that go-ora reports as bad: the session
// ended (603), the server did not understand a message (3120, 3137, 3146), or the network failed (12592, 1260x).
var ending = []int{603, 3120, 3137, 3146, 12592, 12606, 12608, 12609}

// lost reports whether a go-ora error means that a connected socket was lost.
func lost(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, network.ErrConnReset) ||
		kit.ClassifyConn(err) == dialect.Ambiguous
}

// ExecContext runs a statement. go-ora gets a context without an end, because conn watches for that itself.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	done, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	result, err := c.Connection.ExecContext(context.WithoutCancel(ctx), query, args)
	return result, done(err)
}

// QueryContext runs a query, whose rows are read within the same context.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	done, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.Connection.QueryContext(context.WithoutCancel(ctx), query, args)
	if err = done(err); err != nil {
		return nil, err
	}
	set, ok := got.(*ora.DataSet)
	if !ok {
		return nil, fmt.Errorf("oracle: go-ora answered with a %T", got)
	}
	return &rows{DataSet: set, c: c, ctx: ctx}, nil
}

// Ping checks that the server answers.
func (c *conn) Ping(ctx context.Context) error {
	done, err := c.watch(ctx)
	if err != nil {
		return err
	}
	return done(c.Connection.Ping(context.WithoutCancel(ctx)))
}

// BeginTx stops go-ora from committing each statement; nothing is sent. READ COMMITTED is Oracle's default, and go-ora
// refuses any level that is named.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.broken {
		return nil, driver.ErrBadConn
	}
	if opts.Isolation == driver.IsolationLevel(sql.LevelReadCommitted) {
		opts.Isolation = driver.IsolationLevel(sql.LevelDefault)
	}
	inner, err := c.Connection.BeginTx(context.WithoutCancel(ctx), opts)
	if err != nil {
		return nil, err
	}
	return &transaction{inner: inner, c: c, ctx: ctx}, nil
}

// ResetSession refuses a broken connection before a pool uses it again.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	return c.Connection.ResetSession(ctx)
}

// IsValid keeps a broken connection out of the pool.
func (c *conn) IsValid() bool { return !c.broken }

// Close logs off if the server still answers.
func (c *conn) Close() error {
	if c.broken {
		c.wire.close()
	}
	timeout := time.AfterFunc(closeTimeout, c.wire.close)
	defer timeout.Stop()
	defer c.wire.close()
	return c.Connection.Close()
}

// transaction commits within the context in which it began, and rolls back even after that has ended.
type transaction struct {
	inner driver.Tx
	c     *conn
	ctx   context.Context
}

func (t *transaction) Commit() error {
	done, err := t.c.watch(t.ctx)
	if err != nil {
		t.c.broken = true // with the transaction still open
		return err
	}
	return done(t.inner.Commit())
}

func (t *transaction) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), closeTimeout)
	defer cancel()
	done, err := t.c.watch(ctx)
	if err != nil {
		return err
	}
	err = done(t.inner.Rollback())
	t.c.broken = t.c.broken || err != nil
	return err
}

// rows are fetched from the server as they are read, within the context of their query.
type rows struct {
	*ora.DataSet
	c   *conn
	ctx context.Context
}

func (r *rows) Next(dest []driver.Value) error {
	done, err := r.c.watch(r.ctx)
	if err != nil {
		return err
	}
	err = r.DataSet.Next(dest)
	if errors.Is(err, io.EOF) { // no more rows; a dead socket is another error here
		if err = done(nil); err == nil {
			err = io.EOF
		}
		return err
	}
	return done(err)
}

func (r *rows) Close() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closeTimeout)
	defer cancel()
	done, err := r.c.watch(ctx)
	if err != nil {
		return nil // nothing is open on a connection that is gone
	}
	return done(r.DataSet.Close())
}
