package sqlrun

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
)

// Autocommit is Do without a transaction, even with Server.ExplicitTx: each statement commits by itself.
func (s *Session) Autocommit(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) error {
	if s.Pool.GroupCommit != nil {
		return f(ctx, &groupConn{s: s})
	}
	return s.withConn(ctx, nil, f)
}

// OneStatement is Do for a change of one statement, the first of f, which commits by itself. So its locks end with it,
// even if this process stops at any moment: after the first statement of a transaction, the connection of a stopped
// process would keep its locks. If Begin has several texts, those before the last one set the isolation level of that
// statement. If there are none and the sessions may have another level, f runs in a transaction.
func (s *Session) OneStatement(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) error {
	if s.Server.ExplicitTx && len(s.Texts.Begin) < 2 {
		return s.Tx(ctx, f)
	}
	if begin := s.beginTexts(); len(begin) > 1 {
		return s.withConn(ctx, begin[:len(begin)-1], f)
	}
	return s.Autocommit(ctx, f)
}

// withConn runs f on one connection, after the statements in before, which set the isolation level of the next
// transaction.
func (s *Session) withConn(
	ctx context.Context, before []string, f func(ctx context.Context, c dialect.Conn) error,
) error {
	t := s.try(ctx)
	return t.end(s.onConn(t, before, f))
}

func (s *Session) onConn(
	ctx context.Context, before []string, f func(ctx context.Context, c dialect.Conn) error,
) error {
	conn, done, err := s.conn(ctx)
	if err != nil {
		return err
	}
	defer done()
	inner, stop := GracefulWrite(ctx)
	defer stop()
	for _, text := range before {
		if err == nil {
			_, err = conn.ExecContext(inner, text)
		}
	}
	if err == nil {
		err = f(inner, s.on(conn))
	}
	if err != nil && len(before) > 0 {
		s.discard(conn) // the caller's pool must not get it back with a level for its next transaction
	}
	s.discardUnfit(conn, err)
	if err != nil && inner.Err() != nil { // the statement was interrupted
		err = &TxError{Committing: true, Err: err}
	}
	return err
}

// groupConn runs the statements of Autocommit by Pool.GroupCommit. A statement that GroupCommit does not accept runs on
// a connection of its own.
type groupConn struct {
	s     *Session
	begun bool
}

// Exec is Conn's.
func (c *groupConn) Exec(ctx context.Context, query string, args ...any) (touched int64, err error) {
	ctx, stop := c.next(ctx)
	defer stop()
	touched, ok, err := c.s.Pool.GroupCommit(ctx, c.s.writer, query, args)
	if !ok {
		err = c.s.withConn(ctx, nil, func(ctx context.Context, on dialect.Conn) (err error) {
			touched, err = on.Exec(ctx, query, args...)
			return err
		})
	}
	return touched, err
}

// Query is Conn's.
func (c *groupConn) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	ctx, stop := c.next(ctx)
	defer stop()
	return c.s.withConn(ctx, nil, func(ctx context.Context, on dialect.Conn) error {
		return on.Query(ctx, query, args, read)
	})
}

// next returns the context of the next statement. The first statement ends with the caller's context. Later ones mostly
// determine the outcome of the first, so they get a grace period.
func (c *groupConn) next(ctx context.Context) (inner context.Context, stop func()) {
	if !c.begun {
		c.begun = true
		return ctx, func() {}
	}
	return graceful(ctx, writeTimeout)
}
