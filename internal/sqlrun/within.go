package sqlrun

import (
	"context"
	"maps"

	"github.com/dbq-go/dbq/dialect"
)

// CheckoutWithin is the dialect's Checkout of a queue with limits, in a transaction on c that has locked the limits.
func (s *Session) CheckoutWithin(
	ctx context.Context, c dialect.Conn, r dialect.CheckoutRequest,
) (dialect.Leased, error) {
	within := dialect.Session{
		Server: s.Server, Names: s.Names, Statements: s.withinLimits(), Runner: inTx{Runner: s, conn: c},
	}
	return s.Dialect.Checkout(ctx, &within, r)
}

// withinLimits returns the dialect's statements as they are for queues with limits.
func (s *Session) withinLimits() dialect.Statements {
	s.limited.Do(func() {
		s.limitedTexts = s.Texts.Statements
		s.limitedTexts.Private = maps.Clone(s.Texts.Private)
		for name, b := range s.limitedTexts.Private {
			b.SQL = s.Names.WithinLimits(b.SQL)
			s.limitedTexts.Private[name] = b
		}
	})
	return s.limitedTexts
}

// inTx runs everything on a connection whose transaction has begun, and which its caller ends.
type inTx struct {
	dialect.Runner
	conn dialect.Conn
}

func (r inTx) Read(ctx context.Context, text string, args dialect.Args) ([]dialect.Row, error) {
	return r.Query(ctx, r.conn, text, args)
}

func (r inTx) Do(ctx context.Context, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}

func (r inTx) Autocommit(ctx context.Context, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}

func (r inTx) Tx(ctx context.Context, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}

// LockedTx takes no lock: the limits are locked already.
func (r inTx) LockedTx(ctx context.Context, _ dialect.Lock, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}
