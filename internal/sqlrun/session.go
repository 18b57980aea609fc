// Package sqlrun binds values to the statements of a dialect, runs them on connections and transactions, and reports
// what an error means. It knows nothing of tasks beyond their rows.
package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// commitTimeout bounds a COMMIT or ROLLBACK. The end of the caller's context must not interrupt it, because the outcome
// of an interrupted commit is unknown; see GracefulWrite.
const commitTimeout = 10 * time.Second

// A Session is an opened database: the pools, what Probe found, and the statements. It implements dialect.Runner. It is
// safe for concurrent use.
type Session struct {
	dialect.Session
	Dialect dialect.Dialect
	Pool    dialect.Pool
	Texts   Texts
	Limited dialect.Statements // the dialect's statements for queues with limits
	// OnPoison adds what is to be added in the transaction that moved tasks of a queue to POISON.
	OnPoison func(ctx context.Context, c dialect.Conn, queue string, tasks []uuid.UUID) error

	// dialectState has the values that dialects keep between calls, by key; see LoadOrStore.
	dialectState sync.Map
	stateSize    atomic.Int64 // entries of dialectState, or a few more

	rechecks rechecks

	binder  binder
	native  dialect.Native      // nil for most
	batches dialect.BatchRunner // nil for some
}

// NewSession prepares a dialect's statements for a server.
func NewSession(d dialect.Dialect, pool dialect.Pool, server dialect.Server, names dialect.Names) *Session {
	s := &Session{Dialect: d, Pool: pool, Texts: NewTexts(d, names)}
	s.Limited = s.Texts.Statements
	s.Limited.Private = private(d.Statements(names).Private, names, unpaused)
	s.Session = dialect.Session{Server: server, Names: names, Statements: s.Texts.Statements, Runner: s}
	s.binder.style = s.Texts.Style
	if v, ok := d.(dialect.ValueBinder); ok {
		s.binder.value = v.BindValue
	}
	if v, ok := d.(dialect.Inliner); ok {
		s.binder.inline = v.Inline
	}
	s.native, _ = d.(dialect.Native)
	s.batches, _ = d.(dialect.BatchRunner)
	return s
}

// maxStateSize bounds what dialects keep: a few things for each queue.
const maxStateSize = 20_000

// LoadOrStore returns the value of key, or sets it to fresh. Only speed may depend on it: all values are dropped when
// there are more than a client of ten thousand queues needs.
func (s *Session) LoadOrStore(key string, fresh any) any {
	v, there := s.dialectState.LoadOrStore(key, fresh)
	if !there && s.stateSize.Add(1) > maxStateSize {
		s.dialectState.Clear()
		s.stateSize.Store(0)
	}
	return v
}

// Exec runs a statement on c and returns the number of affected rows.
func (s *Session) Exec(ctx context.Context, c dialect.Conn, text string, args dialect.Args) (int64, error) {
	q, values, err := s.binder.bind(text, args)
	if err != nil {
		return 0, err
	}
	n, err := c.Exec(ctx, q, values...)
	if ctx.Err() == nil { // a refusal is an answer, too
		tryOf(ctx).answered()
	}
	return n, err
}

// Literal writes the values of a statement into its text, for a person to read and run. It knows numbers and plain
// text.
func (s *Session) Literal(text string, args dialect.Args) (string, error) {
	c := s.binder.compile(text)
	if c.err != nil {
		return "", c.err
	}
	out := c.parts[0]
	for i, name := range c.names {
		literal := fmt.Sprint(args[name])
		if v, ok := args[name].(string); ok {
			literal = "'" + strings.ReplaceAll(v, "'", "''") + "'"
		}
		out += literal + c.parts[i+1]
	}
	return out, nil
}

// Query runs a statement on c that returns rows of tasks.
func (s *Session) Query(ctx context.Context, c dialect.Conn, text string, args dialect.Args) ([]dialect.Row, error) {
	return QueryAs[dialect.Row](ctx, s, c, text, args)
}

// Read runs a query on the reading pool.
func (s *Session) Read(ctx context.Context, text string, args dialect.Args) ([]dialect.Row, error) {
	var rows []dialect.Row
	err := s.Reading(ctx, func(ctx context.Context, c dialect.Conn) (err error) {
		rows, err = s.Query(ctx, c, text, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Now reads the database's clock, in microseconds, as a statement on c sees it.
func (s *Session) Now(ctx context.Context, c dialect.Conn) (int64, error) {
	rows, err := s.Query(ctx, c, s.Texts.ReadNow(), nil)
	if err != nil || len(rows) != 1 {
		return 0, err
	}
	return rows[0].Now, nil
}

// QueryAs is Query for rows of another kind.
func QueryAs[T any](ctx context.Context, s *Session, c dialect.Conn, text string, args dialect.Args) ([]T, error) {
	q, values, err := s.binder.bind(text, args)
	if err != nil {
		return nil, err
	}
	atMost, _ := args["limit"].(int)
	return readAs[T](ctx, c, q, values, atMost)
}

// readAs runs a query and reads its rows, which are likely to be no more than atMost.
func readAs[T any](ctx context.Context, c dialect.Conn, query string, values []any, atMost int) (out []T, err error) {
	err = c.Query(ctx, query, values, func(rows dialect.Rows) (err error) {
		out, err = scan[T](ctx, rows, atMost)
		return err
	})
	restoreEmpty(out)
	return out, err
}

// on runs statements on one connection.
func (s *Session) on(conn sqlConn) dialect.Conn {
	if one, ok := conn.(*sql.Conn); ok && s.native != nil {
		return s.native.NativeConn(one, stdConn{conn})
	}
	return stdConn{conn}
}

// Do acquires a connection for writing, within ctx, and runs f on it. With Server.ExplicitTx, f runs in a transaction;
// otherwise each statement commits by itself.
func (s *Session) Do(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) error {
	if s.Server.ExplicitTx {
		return s.Tx(ctx, f)
	}
	return s.Autocommit(ctx, f)
}

// Tx runs f in a transaction, and commits if f returns nil. The transaction begins with Statements.Begin or, if that is
// empty, by the driver. Errors are TxErrors. When ctx ends, f's statements are cancelled and rolled back. The end of
// ctx never cancels the COMMIT.
func (s *Session) Tx(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) error {
	return s.LockedTx(ctx, dialect.Lock{}, f)
}

// LockedTx is Tx under a lock. Its connection takes the lock before the transaction begins, and releases it after the
// end, so that the next holder of the lock sees what was committed. A lock without Free is taken in the transaction.
func (s *Session) LockedTx(
	ctx context.Context, lock dialect.Lock, f func(ctx context.Context, c dialect.Conn) error,
) error {
	t := s.try(ctx)
	return t.end(s.lockedTx(t, lock, f))
}

func (s *Session) lockedTx(
	ctx context.Context, lock dialect.Lock, f func(ctx context.Context, c dialect.Conn) error,
) (err error) {
	conn, done, err := s.conn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if lock.Free != "" {
		if _, err = s.Exec(ctx, stdConn{conn}, lock.Take, lock.Args); err != nil {
			s.discard(conn) // it may or may not have the lock
			return &TxError{Err: err}
		}
		defer func() {
			if lock.Free != "" {
				s.free(ctx, conn, lock)
			}
		}()
	}
	begin := s.beginByText
	if len(s.Texts.Begin) == 0 {
		begin = beginByDriver
	}
	tx, err := begin(ctx, conn)
	if err != nil {
		s.discard(conn) // it may or may not be in a transaction
		return &TxError{Err: err}
	}
	finished := false
	defer func() {
		if !finished { // f failed or panicked
			s.end(ctx, tx, tx.rollback) // if this fails, it discards the connection
			s.discardUnfit(conn, err)
		}
	}()
	if lock.Take != "" && lock.Free == "" {
		_, err = s.Exec(ctx, tx.on, lock.Take, lock.Args)
	}
	if err == nil {
		err = f(ctx, tx.on)
	}
	if err == nil && lock.Early {
		if _, err = s.Exec(ctx, tx.on, lock.Free, lock.Args); err == nil {
			lock.Free = ""
		}
	}
	if err != nil {
		return &TxError{Err: err}
	}
	finished = true
	if err = s.end(ctx, tx, tx.commit); err != nil {
		return &TxError{Committing: true, Err: err}
	}
	return nil
}

// free releases a session's lock. If that fails, it discards the connection, which releases the lock, too.
func (s *Session) free(ctx context.Context, conn *sql.Conn, lock dialect.Lock) {
	ctx, stop := graceful(ctx, commitTimeout)
	defer stop()
	if _, err := s.Exec(ctx, stdConn{conn}, lock.Free, lock.Args); err != nil {
		s.discard(conn)
	}
}

// discard closes the driver's connection instead of returning it to the pool.
func (s *Session) discard(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error {
		if d, ok := s.Dialect.(dialect.Discarder); ok {
			d.Discard(c)
		}
		return driver.ErrBadConn
	})
}

// discardUnfit discards a connection whose session cannot do its work, such as one that became read-only in a failover:
// the next connection may lead to a server that serves. The only connection of a database in memory stays.
func (s *Session) discardUnfit(conn *sql.Conn, err error) {
	if err != nil && !s.Server.OneWriter && s.Dialect.Classify(err) == dialect.Unavailable {
		s.discard(conn)
	}
}

// Class returns the class of an error. Inside a transaction a lost connection is Unavailable before the COMMIT was
// sent, and Ambiguous after.
func (s *Session) Class(err error) dialect.Class {
	if err == nil {
		return dialect.Unknown
	}
	if errors.Is(err, dialect.ErrWriterBusy) {
		return dialect.Unavailable
	}
	class := s.Dialect.Classify(err)
	var tx *TxError
	if errors.As(err, &tx) {
		switch {
		case tx.Committing && (class == dialect.Unavailable || ended(err)):
			return dialect.Ambiguous
		case !tx.Committing && class == dialect.Ambiguous:
			return dialect.Unavailable
		}
	}
	return class
}

// ended reports whether err means that a context ended.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Backdated tells the dialect that this client has added tasks that have been due for that long; see dialect.Searcher.
func (s *Session) Backdated(queue string, by time.Duration) {
	if d, ok := s.Dialect.(dialect.Searcher); ok {
		d.Backdated(&s.Session, queue, by)
	}
}

// Next returns the row of Statements.Next for a queue, which the dialect may find in its own way.
func (s *Session) Next(ctx context.Context, c dialect.Conn, queue string) ([]dialect.Row, error) {
	if d, ok := s.Dialect.(dialect.Searcher); ok {
		return d.Next(ctx, &s.Session, c, queue)
	}
	return s.Query(ctx, c, s.Texts.Next, dialect.Args{"queue": queue})
}

// Checkout is the dialect's.
func (s *Session) Checkout(ctx context.Context, r dialect.CheckoutRequest) (dialect.CheckoutResult, error) {
	return s.Dialect.Checkout(ctx, &s.Session, r)
}
