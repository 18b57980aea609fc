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
