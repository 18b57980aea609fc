package kit

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

	"github.com/dbq-go/dbq/dialect"
)

func TestClassifyConn(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	read := &net.OpError{Op: "read", Err: errors.New("reset")}
	for _, c := range []struct {
		err  error
		want dialect.Class
	}{
		{nil, dialect.Unknown},
		{errors.New("anything"), dialect.Unknown},
		{context.Canceled, dialect.Unknown},
		{context.DeadlineExceeded, dialect.Unknown},
		{sql.ErrNoRows, dialect.Unknown},
		{driver.ErrBadConn, dialect.Unavailable},
		{dial, dialect.Unavailable},
		{&net.DNSError{Err: "no such host"}, dialect.Unavailable},
		{read, dialect.Ambiguous},
		{&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, dialect.Ambiguous},
		{io.EOF, dialect.Ambiguous},
		{io.ErrUnexpectedEOF, dialect.Ambiguous},
		{io.ErrClosedPipe, dialect.Ambiguous},
		{net.ErrClosed, dialect.Ambiguous},
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
