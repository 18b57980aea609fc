package cases

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

func errorsOption(t *test) {
	for what, opt := range map[string]dbq.Option{
		"empty prefix":      dbq.WithPrefix(""),
		"prefix with space": dbq.WithPrefix("a b"),
		"long prefix":       dbq.WithPrefix(strings.Repeat("a", 21)),
		"quoted prefix":     dbq.WithPrefix(`a"; --`),
		"empty schema":      dbq.WithSchema(""),
		"no attempts":       dbq.WithMaxAttempts(0),
		"no payload":        dbq.WithMaxPayload(0),
		"empty name":        dbq.WithName(""),
		"name with NUL":     dbq.WithName("a\x00"),
		"no logger":         dbq.WithLogger(nil),
		"no clock":          dbq.WithClock(nil),
		"unknown strategy":  dbq.WithStrategy("hope"),
	} {
		c, err := dbq.Open(t.ctx, t.DSN, t.options(dbq.WithMigrate(), opt)...)
		t.wantInvalid("open with "+what, err, dbq.ErrOption)
		if err == nil {
			c.Close()
		}
	}
	if from, _, err := t.migrate(); err != nil || from != 0 {
		t.Errorf("migrate afterwards came from %d (error %v), want 0: a refused open makes nothing", from, err)
	}
}

func errorsScheme(t *test) {
	for _, dsn := range []string{"nosuchengine://host/db", "postgres", "", "user:secret99@tcp(host)/db",
		"nosuchengine://user:secret99@host/db"} {
		if _, err := dialect.Lookup(dsn); err == nil {
			continue // "postgres" is a scheme by itself where its dialect is there
		}
		_, err := dbq.Open(t.ctx, dsn)
		t.wantErr(fmt.Sprintf("open %q", dsn), err, dbq.ErrUnknownScheme)
		_, _, err = dbq.Migrate(t.ctx, dsn)
		t.wantErr(fmt.Sprintf("migrate %q", dsn), err, dbq.ErrUnknownScheme)
		if err != nil && strings.Contains(err.Error(), "secret99") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	_, err := dbq.Open(t.ctx, "nosuchengine://host/db")
	for _, scheme := range dialect.Schemes() {
		if !strings.Contains(fmt.Sprint(err), scheme) {
			t.Errorf("the error does not name the scheme %q: %v", scheme, err)
		}
	}
}

// serverURL parses the DSN. It skips the case unless the DSN is a URL with a host.
func (t *test) serverURL() *url.URL {
	u, err := url.Parse(t.DSN)
	if err != nil || u.Host == "" {
		t.Skipf("the DSN is not a URL with a host")
	}
	return u
}

// closedPort returns an address on which no program listens.
func (t *test) closedPort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	t.must(err)
	defer l.Close()
	return l.Addr().String()
}

func errorsUnreachable(t *test) {
	u := t.serverURL()
	u.Host = t.closedPort()
	_, err := dbq.Open(t.ctx, u.String(), t.options()...)
	t.wantErr("open of a port where nobody listens", err, dbq.ErrUnavailable)
	var e *dbq.Error
	if !errors.As(err, &e) || e.Op != "open" || e.Class != dialect.Unavailable {
		t.Errorf("got %#v, want op open and class unavailable", err)
	}
	_, _, err = dbq.Migrate(t.ctx, u.String(), t.options()...)
	t.wantErr("migrate there", err, dbq.ErrUnavailable)
}
