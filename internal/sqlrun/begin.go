package sqlrun

import (
	"context"
	"database/sql"
)

// transaction is an open transaction of a connection, with the two ways to end it.
type transaction struct {
	conn             *sql.Conn
	on               sqlConn // what statements run on
	commit, rollback func(ctx context.Context) error
}

// beginTexts returns what begins a transaction in this session's pool.
func (s *Session) beginTexts() []string {
	if s.Pool.Begin != nil {
		return s.Pool.Begin
	}
	return s.Texts.Begin
}

// beginByText begins by Statements.Begin, and ends by COMMIT or ROLLBACK.
func (s *Session) beginByText(ctx context.Context, conn *sql.Conn) (transaction, error) {
	for _, text := range s.beginTexts() {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return transaction{}, err
		}
	}
	say := func(text string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := conn.ExecContext(ctx, text)
			return err
		}
	}
	return transaction{conn: conn, on: conn, commit: say("COMMIT"), rollback: say("ROLLBACK")}, nil
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
	return transaction{conn: conn, on: tx, commit: within(tx.Commit), rollback: within(tx.Rollback)}, nil
}

// end commits or rolls back. The end of the caller's context does not interrupt it. If it fails, end discards the
// connection.
func (t transaction) end(ctx context.Context, how func(context.Context) error) error {
	ctx, stop := graceful(ctx, commitTimeout)
	defer stop()
	err := how(ctx)
	if err != nil {
		discard(t.conn)
	}
	return err
}
