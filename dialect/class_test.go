package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"
)

// The numbers may be in people's metrics.
func TestClassNumbersAndNamesNeverChange(t *testing.T) {
	t.Parallel()
	for number, want := range []struct {
		class Class
		name  string
	}{
		{Unknown, "unknown"}, {Duplicate, "duplicate"}, {Conflict, "conflict"}, {Unavailable, "unavailable"},
		{Ambiguous, "ambiguous"}, {Missing, "missing"}, {Denied, "denied"}, {Invalid, "invalid"}, {Class(8), "class(8)"},
	} {
		if int(want.class) != number || want.class.String() != want.name {
			t.Errorf("got %d %q, want %d %q", want.class, want.class, number, want.name)
		}
	}
}

func TestClassifyConn(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	read := &net.OpError{Op: "read", Err: errors.New("reset")}
	for _, c := range []struct {
		err  error
		want Class
	}{
		{nil, Unknown},
		{errors.New("anything"), Unknown},
		{context.Canceled, Unknown},
		{context.DeadlineExceeded, Unknown},
		{sql.ErrNoRows, Unknown},
		{driver.ErrBadConn, Unavailable},
		{dial, Unavailable},
		{&net.DNSError{Err: "no such host"}, Unavailable},
		{read, Ambiguous},
		{&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, Ambiguous},
		{io.EOF, Ambiguous},
		{io.ErrUnexpectedEOF, Ambiguous},
		{io.ErrClosedPipe, Ambiguous},
		{net.ErrClosed, Ambiguous},
	} {
		for _, err := range []error{c.err, wrapped(c.err)} {
			if got := ClassifyConn(err); got != c.want {
				t.Errorf("%v: got %v, want %v", err, got, c.want)
			}
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("outer: %w", err)
}

func TestCommitDecidesWhatALostConnectionMeans(t *testing.T) {
	t.Parallel()
	s := NewSession(fake{classify: ClassifyConn}, Pool{}, Server{}, Names{})
	for _, c := range []struct {
		err                     error
		plain, inTx, committing Class
	}{
		{io.EOF, Ambiguous, Unavailable, Ambiguous},
		{driver.ErrBadConn, Unavailable, Unavailable, Ambiguous},
		{context.Canceled, Unknown, Unknown, Ambiguous},
		{context.DeadlineExceeded, Unknown, Unknown, Ambiguous},
		{errors.New("syntax error"), Unknown, Unknown, Unknown},
	} {
		for _, got := range []struct {
			err  error
			want Class
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
	if got := s.Class(nil); got != Unknown {
		t.Errorf("no error is %v", got)
	}
}

// embedding is what bun.Tx is, and holding what gorm's transaction is.
type embedding struct{ *sql.Tx }

type holding struct{ Tx any }

func TestTxConn(t *testing.T) {
	t.Parallel()
	tx := &sql.Tx{}
	for _, x := range []any{tx, &sqlx.Tx{Tx: tx}, embedding{tx}, &embedding{tx}, holding{tx}} {
		if c, err := TxConn(x); c != (txConn{stdConn{tx}}) || err != nil {
			t.Errorf("%T: got %v, %v, want the *sql.Tx itself", x, c, err)
		}
	}
	own := stdConn{}
	if c, err := TxConn(own); c != (txConn{own}) || err != nil {
		t.Errorf("a Conn became %v, %v", c, err)
	}
	for _, x := range []any{
		nil, (*sql.Tx)(nil), &sqlx.Tx{}, embedding{}, holding{}, (*holding)(nil), "text",
		&sql.DB{}, &sql.Conn{}, &sqlx.DB{DB: &sql.DB{}}, &sqlx.Conn{Conn: &sql.Conn{}},
	} {
		if c, err := TxConn(x); c != nil || !errors.Is(err, ErrTx) {
			t.Errorf("%T: got %v, %v, want ErrTx", x, c, err)
		}
	}
}

func TestConnOf(t *testing.T) {
	t.Parallel()
	for _, x := range []any{&sql.DB{}, &sql.Conn{}, &sql.Tx{}, &sqlx.DB{DB: &sql.DB{}}, &sqlx.Tx{Tx: &sql.Tx{}}} {
		if c, err := ConnOf(x); c == nil || err != nil {
			t.Errorf("%T: got %v, %v", x, c, err)
		}
	}
	own := stdConn{}
	if c, err := ConnOf(own); c != own || err != nil {
		t.Errorf("a Conn became %v, %v", c, err)
	}
	for _, x := range []any{nil, "text", 1, struct{}{}} {
		if c, err := ConnOf(x); c != nil || !errors.Is(err, ErrTx) {
			t.Errorf("%T: got %v, %v, want ErrTx", x, c, err)
		}
	}
}
