package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5/pgproto3"
)

// asksForPasswords is a server that asks each connection for its password, sends it to the channel, and refuses it.
func asksForPasswords(t *testing.T) (host string, passwords <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	got := make(chan string, 10)
	ask := func(conn net.Conn) {
		defer conn.Close()
		b := pgproto3.NewBackend(conn, conn)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationCleartextPassword{})
		if b.Flush() != nil || b.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		if m, err := b.Receive(); err == nil {
			got <- m.(*pgproto3.PasswordMessage).Password
		}
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "wrong"})
		_ = b.Flush()
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go ask(conn)
		}
	}()
	return l.Addr().String(), got
}

func TestEachConnectionHasThePasswordOfItsTime(t *testing.T) {
	t.Parallel()
	host, passwords := asksForPasswords(t)
	file, now := filepath.Join(t.TempDir(), "pgpass"), ""
	own := func(context.Context) (string, error) { return now, nil }
	for name, tt := range map[string]struct {
		dsn      string
		password dialect.Password
	}{
		"passfile": {"postgres://app@" + host + "/db?sslmode=disable&passfile=" + file, nil},
		"option":   {"postgres://app:old@" + host + "/db?sslmode=disable", own},
	} {
		must(t, os.WriteFile(file, nil, 0o600))
		pool, err := Open(t.Context(), tt.dsn, tt.password)
		must(t, err)
		defer pool.Close()
		for _, now = range []string{"one", "two"} {
			must(t, os.WriteFile(file, fmt.Appendf(nil, "*:*:*:*:%s\n", now), 0o600))
			for kind, connect := range map[string]func() error{
				"pool":   func() error { return pool.Write.PingContext(t.Context()) },
				"caller": func() error { return pool.Caller.PingContext(t.Context()) },
				"listen": func() error {
					return Dialect{}.Listen(t.Context(), pool.Write, "c", func() {}, func(string) {})
				},
			} {
				if err := connect(); (Dialect{}).Classify(err) != dialect.Denied {
					t.Errorf("%s, %s: %v", name, kind, err)
				}
				if got := <-passwords; got != now {
					t.Errorf("%s, %s: the password is %q, want %q", name, kind, got, now)
				}
			}
		}
	}
}

func TestPasswordThatCannotBeReadMakesTheServerUnavailable(t *testing.T) {
	t.Parallel()
	none := errors.New("the token service is away")
	pool, err := Open(t.Context(), "postgres://app@127.0.0.1:1/db",
		func(context.Context) (string, error) { return "", none })
	must(t, err)
	defer pool.Close()
	if err := pool.Write.PingContext(t.Context()); !errors.Is(err, none) ||
		(Dialect{}).Classify(err) != dialect.Unavailable {
		t.Errorf("got %v of class %v", err, (Dialect{}).Classify(err))
	}
}
