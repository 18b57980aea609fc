package dsnredact

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

// register makes a driver known that is never opened.
func register(d dialect.Driver) {
	d.Dialect = struct{ dialect.Dialect }{}
	d.Open = func(context.Context, string, dialect.Password) (dialect.Pool, error) {
		return dialect.Pool{}, errors.New("it opens nothing")
	}
	dialect.Register(d)
}

func init() {
	register(dialect.Driver{Schemes: []string{"sqlite"}, File: true})
	register(dialect.Driver{Schemes: []string{"mysql", "mariadb", "oracle"}})
	register(dialect.Driver{Schemes: []string{"postgres"}, Target: func(d dialect.DSN) dialect.Target {
		t := d.Target
		if host := d.Params.Get("host"); t.Hosts == "" && host != "" {
			if t.Hosts = host; d.Params.Has("port") {
				t.Hosts += ":" + d.Params.Get("port")
			}
		}
		t.Database = cmp.Or(d.Params.Get("dbname"), t.Database)
		return t
	}})
	// boastful would show all that it gets.
	register(dialect.Driver{Schemes: []string{"boastful"}, Target: func(d dialect.DSN) dialect.Target {
		return dialect.Target{Scheme: d.Scheme + d.User + d.Password, Hosts: cmp.Or(d.User+d.Password, d.Hosts),
			Database: cmp.Or(d.Params.Get("password")+d.Params.Get("PASSWORD")+d.Params.Get("sslpassword"), d.Database)}
	}})
	for _, scheme := range []string{"boastful", "acme"} { // acme is nobody's
		for _, name := range []string{"url", "no user", "no host", "bad port", "no slashes", "user at server",
			"slash in user", "query in user", "parameter", "escaped name", "upper case name", "key's password", "description"} {
			_, rest, _ := strings.Cut(shapes[name], ":")
			shapes[name+" of "+scheme] = scheme + ":" + rest
		}
	}
}

func TestTargetOf(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"":                                       "unknown database",
		"hush":                                   "unknown database",
		"app:hush@tcp(h)/d":                      "unknown database",
		"sqlite:queue.db":                        "sqlite:queue.db",
		"sqlite:///var/lib/q.db?busy_timeout=1s": "sqlite:/var/lib/q.db",
		"sqlite:queue@home.db":                   "sqlite:queue@home.db",
		"sqlite://app:x@h/d":                     "sqlite:",
		"postgres://db.example:5432/app":         "postgres://db.example:5432/app",
		"postgres://app@db.example:5432/app":     "postgres://db.example:5432/app",
		"postgres://app:x@one:1,two:2/app":       "postgres://one:1,two:2/app",
		"mysql://app@srv:x@127.0.0.1:3306/db":    "mysql://127.0.0.1:3306/db",
		"mysql://app:x@[::1]:3306/d%2Fe":         "mysql://[::1]:3306/d%2Fe",
		"MariaDB://h/d?tls=true":                 "mariadb://h/d",
		"postgres:///app?host=h&port=5433":       "postgres://h:5433/app",
		"postgres:///app?host=/tmp&dbname=b":     "postgres:///b",
		"postgres:///app?host=a,b&dbname=b%0Ac":  "postgres://a,b/app",
		"postgres://h/d?application_name=a@b":    "postgres://h/d",
		"postgres://app/x:hush@h/d":              "postgres",
		"postgres://app:hush%zz@h/d":             "postgres",
		"oracle://app:x@(DESCRIPTION=(HOST=h))":  "oracle",
		"host=db port=1 password=hush":           "postgres://db:1",
		"port=1 password=hush":                   "unknown database",
		"acme:queue.db":                          "unknown database",
		"acme:app:x@h/d":                         "unknown database",
		"acme://app/x:hush@h/d":                  "unknown database",
		"acme://app:x@h:1/d?password=x":          "acme://h:1/d",
		"boastful://app:x@h/d?password=x":        "boastful://h/d",
	} {
		if got := TargetOf(dsn).String(); got != want {
			t.Errorf("TargetOf(%q) is %q, want %q", dsn, got, want)
		}
	}
}
