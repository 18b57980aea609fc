package dialecttest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Classifies checks that d gives the error that provoke returns this class, also when it is wrapped.
func Classifies(t *testing.T, d dialect.Dialect, name string, want dialect.Class, provoke func(t *testing.T) error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		err := provoke(t)
		if err == nil {
			t.Fatal("got no error")
		}
		if got := d.Classify(fmt.Errorf("outer: %w", err)); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	})
}

// Connect returns a function for Classifies that connects to the server under a changed DSN.
func Connect(open Open, dsn string, change func(*url.URL)) func(t *testing.T) error {
	return func(t *testing.T) error {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		pool, err := open(t.Context(), u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		return pool.Write.PingContext(t.Context())
	}
}

// InAnEndedContext returns a function for Classifies that runs a statement in a context that has ended.
func InAnEndedContext(s *sqlrun.Session) func(t *testing.T) error {
	return func(t *testing.T) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Pool.Write.ExecContext(ctx, "SELECT 1")
		return err
	}
}

// ClassifiesWhatIsNotTheServers checks the classes of errors that do not come from a server: those that are the same
// for every dialect, and more, which are the driver's.
func ClassifiesWhatIsNotTheServers(t *testing.T, d dialect.Dialect, more map[error]dialect.Class) {
	t.Helper()
	if got := d.Classify(nil); got != dialect.Unknown {
		t.Errorf("no error: got %v, want unknown", got)
	}
	for _, errs := range []map[error]dialect.Class{more, {
		errors.New("anything"):   dialect.Unknown,
		sql.ErrNoRows:            dialect.Unknown,
		context.Canceled:         dialect.Unknown,
		context.DeadlineExceeded: dialect.Unknown,
		driver.ErrBadConn:        dialect.Unavailable,
		&net.OpError{Op: "dial", Err: errors.New("refused")}: dialect.Unavailable,
		&net.OpError{Op: "read", Err: errors.New("reset")}:   dialect.Ambiguous,
		io.EOF:              dialect.Ambiguous,
		io.ErrUnexpectedEOF: dialect.Ambiguous,
	}} {
		for err, want := range errs {
			if got := d.Classify(err); got != want {
				t.Errorf("%v: got %v, want %v", err, got, want)
			}
		}
	}
}
