package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/jmoiron/sqlx"
)

func TestLostConnectionIsAmbiguousOnlyDuringCommit(t *testing.T) {
	t.Parallel()
	s := NewSession(fake{classify: kit.ClassifyConn}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
	for _, c := range []struct {
		err                     error
		plain, inTx, committing dialect.Class
	}{
		{io.EOF, dialect.Ambiguous, dialect.Unavailable, dialect.Ambiguous},
		{driver.ErrBadConn, dialect.Unavailable, dialect.Unavailable, dialect.Ambiguous},
		{context.Canceled, dialect.Unknown, dialect.Unknown, dialect.Ambiguous},
		{context.DeadlineExceeded, dialect.Unknown, dialect.Unknown, dialect.Ambiguous},
		{errors.New("syntax error"), dialect.Unknown, dialect.Unknown, dialect.Unknown},
	} {
		for _, got := range []struct {
			err  error
			want dialect.Class
		}{
			{c.err, c.plain},
			{&TxError{Err: c.err}, c.inTx},
			{&TxError{Committing: true, Err: c.err}, c.committing},
			{wrapped(&TxError{Committing: true, Err: wrapped(c.err)}), c.committing},
		} {
			if class := s.Class(got.err); class != got.want {
				t.Errorf("%v: got %v, want %v", got.err, class, got.want)
			}
		}
	}
	if got := s.Class(nil); got != dialect.Unknown {
		t.Errorf("no error is %v", got)
	}
}

// embedding is built like bun.Tx, and holding like gorm's transaction.
type embedding struct{ *sql.Tx }

type holding struct {
	other
	Tx any
}

// other is a transaction of another kind.
type other struct{ sqlConn }

func (other) Commit() error   { return nil }
func (other) Rollback() error { return nil }

// own is a transaction that is a Conn, as of package postgres.
type own struct {
	other
	dialect.Conn
}

func TestTxConn(t *testing.T) {
	t.Parallel()
	tx := &sql.Tx{}
	for _, x := range []Tx{tx, &sqlx.Tx{Tx: tx}, embedding{tx}, &embedding{tx}, holding{Tx: tx}} {
		if c, err := TxConn(x); c != (txConn{stdConn{tx}}) || err != nil {
			t.Errorf("%T: got %v, %v, want the *sql.Tx itself", x, c, err)
		}
	}
	for _, x := range []Tx{other{}, holding{}} {
		if c, err := TxConn(x); c != (txConn{stdConn{x}}) || err != nil {
			t.Errorf("%T: got %v, %v, want it as it is", x, c, err)
		}
	}
	if c, err := TxConn(own{}); c != (txConn{own{}}) || err != nil {
		t.Errorf("a Conn became %v, %v", c, err)
	}
	for _, x := range []Tx{nil, (*sql.Tx)(nil), &sqlx.Tx{}, embedding{}, (*holding)(nil)} {
		if c, err := TxConn(x); c != nil || !errors.Is(err, ErrTx) {
			t.Errorf("%T: got %v, %v, want ErrTx", x, c, err)
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("outer: %w", err)
}
