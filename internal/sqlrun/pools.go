package sqlrun

import (
	"context"
	"database/sql"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/dsnredact"
)

// conn returns a connection for writing. Call done after use. Its error is a TxError, because nothing was sent.
func (s *Session) conn(ctx context.Context) (conn *sql.Conn, done func(), err error) {
	t := tryOf(ctx)
	t.acquires(s.Pool.Write)
	if conn, err = s.writer(ctx); err != nil {
		return nil, nil, err
	}
	t.answered()
	return conn, func() { _ = conn.Close() }, nil
}

// writer returns a connection of Pool.Write. If the pool has only one, writer waits for it for at most WriterTimeout.
// Its error is a TxError, because nothing was sent.
func (s *Session) writer(ctx context.Context) (*sql.Conn, error) {
	p, wait := s.Pool, ctx
	busy := p.WriterTimeout > 0 && p.Write.Stats().InUse > 0
	if busy { // otherwise no wait, so no timer
		limited, cancel := kit.WithWriterTimeout(ctx, p.WriterTimeout)
		defer cancel()
		wait = limited
	}
	conn, err := p.Write.Conn(wait)
	if err == nil {
		return conn, nil
	}
	if busy && wait.Err() != nil {
		err = kit.WriterBusy(wait)
	}
	return nil, &TxError{Err: err}
}

// Reading runs f on the reading pool. An error of f is returned as a TxError, because nothing was changed.
func (s *Session) Reading(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) error {
	t := s.try(ctx)
	return t.end(s.reading(t, f))
}

func (s *Session) reading(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) (err error) {
	if s.Pool.Read != s.Pool.Write || s.Pool.WriterTimeout == 0 && !busy(s.Pool.Read) {
		err = f(ctx, stdConn{s.Pool.Read})
	} else {
		conn, done, failed := s.conn(ctx)
		if failed != nil {
			return failed
		}
		defer done()
		err = f(ctx, stdConn{conn})
		s.discardUnfit(conn, err)
	}
	if err != nil {
		return &TxError{Err: err}
	}
	return nil
}

// Open opens the pools for a DSN through the driver of its scheme, with a password for each new connection unless that
// is nil. If it fails, it still returns the driver, whose dialect can classify the error. Errors never show the DSN's
// password.
func Open(ctx context.Context, dsn string, password dialect.Password) (dialect.Driver, dialect.Pool, error) {
	d, err := dialect.Lookup(dsn)
	if err != nil {
		return dialect.Driver{}, dialect.Pool{}, err
	}
	pool, err := d.Open(ctx, dsn, password)
	if err != nil {
		return d, dialect.Pool{}, dsnredact.Scrub(err, dsn)
	}
	return d, pool, nil
}
