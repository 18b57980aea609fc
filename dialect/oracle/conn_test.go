package oracle

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/sijms/go-ora/v2/network"
)

// listen is a peer that does with each connection what it is told. It is no Oracle.
func listen(t *testing.T, with func(net.Conn)) (dsn string) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go with(c)
		}
	}()
	return "oracle://app:hush@" + l.Addr().String() + "/service"
}

// A server that never answers costs no more than the caller's patience, and leaves no connection open.
func TestConnectingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 10)
	pool, err := Open(t.Context(), listen(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c) // until the client closes
		c.Close()
		gone <- struct{}{}
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = Dialect{}.Probe(ctx, pool.Write)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the connection was left open")
	}
}

func TestServerThatClosesTheConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	pool, err := Open(t.Context(), listen(t, func(c net.Conn) { c.Close() }), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, err = Dialect{}.Probe(t.Context(), pool.Write)
	if got := (Dialect{}).Classify(err); got != dialect.Unavailable {
		t.Errorf("got %v for %v", got, err)
	}
}

// What a statement's end says about its connection, and what its error means.
func TestWatchKeepsOnlyUsableConnections(t *testing.T) {
	t.Parallel()
	refused := &network.OracleError{ErrCode: 1, ErrMsg: "ORA-00001"}
	killed := &network.OracleError{ErrCode: 28, ErrMsg: "ORA-00028"}
	odd := errors.New("TTC error: received code 77 during response reading")
	for _, c := range []struct {
		name   string
		late   bool // the context ended before
		err    error
		is     error // that the error must be, nil is none
		class  dialect.Class
		broken bool
	}{
		{"all well", false, nil, nil, dialect.Unknown, false},
		{"refused by the server", false, refused, refused, dialect.Duplicate, false},
		{"killed by the server", false, killed, killed, dialect.Unavailable, true},
		{"cut off", false, io.EOF, errLost, dialect.Ambiguous, true},
		{"cut off, as go-ora says it", false, driver.ErrBadConn, errLost, dialect.Ambiguous, true},
		{"reset", false, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("reset")}, errLost, dialect.Ambiguous, true},
		{"a broken answer", false, network.ErrConnReset, errLost, dialect.Ambiguous, true},
		{"an answer that makes no sense", false, odd, odd, dialect.Unknown, true},
		{"too late", true, net.ErrClosed, context.Canceled, dialect.Unknown, true},
		{"too late, said otherwise", true, refused, context.Canceled, dialect.Unknown, true},
		{"done just in time", true, nil, nil, dialect.Unknown, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		here, there := net.Pipe()
		defer there.Close()
		x := &conn{wire: &wire{socket: here}}
		done, err := x.watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c.late {
			cancel()
			if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // until it is closed
				t.Errorf("%s: the socket was not closed: %v", c.name, err)
			}
		}
		err = done(c.err)
		if (err == nil) != (c.is == nil) || !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.is)
		}
		if errors.Is(err, driver.ErrBadConn) {
			t.Errorf("%s: %v says that nothing was sent, so that database/sql would send it again", c.name, err)
		}
		if got := (Dialect{}).Classify(err); got != c.class {
			t.Errorf("%s: got %v, want %v", c.name, got, c.class)
		}
		if x.broken != c.broken || x.IsValid() == c.broken {
			t.Errorf("%s: broken %v, want %v", c.name, x.broken, c.broken)
		}
		if _, err := x.watch(t.Context()); c.broken && !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("%s: a broken connection is used again: %v", c.name, err)
		}
	}
}

func TestNothingIsSentAfterTheContextEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := &conn{wire: &wire{}}
	if _, err := x.ExecContext(ctx, "BEGIN NULL; END;", nil); !errors.Is(err, context.Canceled) || x.broken {
		t.Errorf("got %v, broken %v", err, x.broken)
	}
}
