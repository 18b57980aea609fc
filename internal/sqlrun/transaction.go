package sqlrun

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// transaction is an open transaction of a connection, with the two ways to end it.
type transaction struct {
	conn             *sql.Conn
	on               dialect.Conn // the connection or transaction of the statements
	commit, rollback func(ctx context.Context) error
}

// beginTexts returns the statements that begin a transaction in this session's pool.
func (s *Session) beginTexts() []string {
	if s.Pool.Begin != nil {
		return s.Pool.Begin
	}
	return s.Texts.Begin
}

// beginByText begins by Statements.Begin, and ends by COMMIT or ROLLBACK. In a pipeline it begins with the first
// statement.
func (s *Session) beginByText(ctx context.Context, conn *sql.Conn) (transaction, error) {
	on := s.on(conn)
	texts := s.beginTexts()
	if bound := s.Texts.BoundWaits; bound != "" && patience(ctx) < slowTimeout {
		texts = append(slices.Clip(texts), bound)
	}
	for _, text := range texts {
		if _, err := later(ctx, on, text); err != nil {
			return transaction{}, err
		}
	}
	say := func(c dialect.Conn, text string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Exec(ctx, text)
			return err
		}
	}
	// ROLLBACK does not wait for statements that have not been sent.
	return transaction{conn: conn, on: on, commit: say(on, "COMMIT"), rollback: say(stdConn{conn}, "ROLLBACK")}, nil
}

// later runs a statement, in a pipeline together with the next one. touched is the number of affected rows, as soon as
// the next statement has run.
func later(ctx context.Context, c dialect.Conn, query string, args ...any) (touched *int64, err error) {
	touched = new(int64)
	if p, ok := c.(dialect.Pipeline); ok {
		return touched, p.Later(ctx, touched, query, args...)
	}
	*touched, err = c.Exec(ctx, query, args...)
	return touched, err
}

// ExecLater is Exec for a statement that need not run before the next one on c, whose error may then come from either.
// touched is set when that has run.
func (s *Session) ExecLater(
	ctx context.Context, c dialect.Conn, text string, args dialect.Args,
) (touched *int64, err error) {
	q, values, err := s.binder.bind(text, args)
	if err != nil {
		return nil, err
	}
	return later(ctx, c, q, values...)
}

// beginByDriver begins and ends by database/sql. Such a transaction is rolled back when its context ends, so it gets a
// context that does not end with the caller's. Its statements use the caller's context, and COMMIT has a timeout of its
// own.
func beginByDriver(ctx context.Context, conn *sql.Conn) (transaction, error) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	tx, err := conn.BeginTx(inner, nil)
	if !detach() && err == nil { // it is being rolled back
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return transaction{}, err
	}
	within := func(end func() error) func(context.Context) error {
		return func(ctx context.Context) error {
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return end()
		}
	}
	return transaction{conn: conn, on: stdConn{tx}, commit: within(tx.Commit), rollback: within(tx.Rollback)}, nil
}

// BeginTx begins a transaction of the pool for the program's transactions, which ends with ctx. cancel ends ctx. Call
// done after the transaction, with the error of a statement in it, if one failed.
func (s *Session) BeginTx(ctx context.Context, cancel func(), opts *sql.TxOptions) (
	tx *sql.Tx, done func(error), err error,
) {
	db, t := cmp.Or(s.Pool.Caller, s.Pool.Write), s.try(ctx)
	stop := context.AfterFunc(t, cancel)
	t.acquires(db)
	var conn *sql.Conn
	for range 3 { // as *sql.DB does
		if conn, err = db.Conn(ctx); err != nil {
			break
		}
		t.answered()
		if tx, err = conn.BeginTx(ctx, opts); err == nil {
			break
		}
		s.discardUnfit(conn, err)
		_ = conn.Close()
		if !errors.Is(err, driver.ErrBadConn) {
			break
		}
	}
	stop()
	if err != nil {
		return nil, nil, t.end(&TxError{Err: err})
	}
	return tx, func(err error) {
		s.discardUnfit(conn, err)
		_ = conn.Close()
	}, t.end(nil)
}

// Undoable runs f in a caller's transaction. If f fails, it has changed nothing, and the transaction stays usable
// unless the error ended it.
func (s *Session) Undoable(ctx context.Context, c dialect.Conn, f func() error) error {
	if _, err := c.Exec(ctx, "SAVEPOINT dbq_call"); err != nil {
		return err
	}
	err := f()
	if err != nil {
		var stop func()
		ctx, stop = graceful(ctx, commitTimeout)
		defer stop()
		if _, ended := c.Exec(ctx, "ROLLBACK TO SAVEPOINT dbq_call"); ended != nil {
			return err
		}
	}
	if s.Texts.NestedSavepoints {
		if _, failed := c.Exec(ctx, "RELEASE SAVEPOINT dbq_call"); err == nil {
			err = failed
		}
	}
	return err
}

// end commits or rolls back. The end of the caller's context does not interrupt it. If it fails, end discards the
// connection.
func (s *Session) end(ctx context.Context, t transaction, how func(context.Context) error) error {
	ctx, stop := graceful(ctx, commitTimeout)
	defer stop()
	err := how(ctx)
	if err != nil {
		s.discard(t.conn)
	}
	return err
}

// writeTimeout bounds a write whose caller gave no deadline.
const writeTimeout = time.Minute

// grace is how long a running write may continue after its caller's context has ended.
const grace = 2 * time.Second

type withoutGrace struct{}

// WithoutGrace makes writes end with ctx. Use it for writes that are safe to repeat.
func WithoutGrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutGrace{}, true)
}

// GracefulWrite returns a context for one write. If a write is interrupted, its outcome is unknown. So the context ends
// 2 seconds after ctx, and a minute after the call at the latest. There is no such grace if ctx has already ended or is
// from WithoutGrace. Call stop when the write is done.
func GracefulWrite(ctx context.Context) (inner context.Context, stop func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	return graceful(ctx, writeTimeout)
}

// graceful returns a context that ends a grace after ctx, or when most has passed. With WithoutGrace it ends with ctx.
func graceful(ctx context.Context, most time.Duration) (inner context.Context, stop func()) {
	if ctx.Value(withoutGrace{}) != nil {
		return context.WithTimeout(ctx, most)
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	detach := context.AfterFunc(ctx, func() {
		if Silent(context.Cause(ctx)) { // it has waited long enough
			cancel()
			return
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-inner.Done():
		}
	})
	return inner, func() {
		detach()
		cancel()
	}
}

// A TxError is an error inside a transaction that Session.Tx ran or that is the caller's, or of a connection that could
// not be acquired. Committing reports that COMMIT had been sent. If the connection was lost before, nothing happened;
// if it was lost after, the change may have happened.
type TxError struct {
	Committing bool
	Err        error
}

// Error is the text of the wrapped error.
func (e *TxError) Error() string {
	if e.Committing {
		return "commit: " + e.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap returns the driver's error.
func (e *TxError) Unwrap() error { return e.Err }
