package dialect

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

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
		"postgres://h/d?application_name=a@b":    "postgres://h/d",
		"postgres://app/x:hush@h/d":              "postgres",
		"postgres://app:hush%zz@h/d":             "postgres",
		"oracle://app:x@(DESCRIPTION=(HOST=h))":  "oracle",
		"host=db password=hush":                  "unknown database",
	} {
		if got := TargetOf(dsn).String(); got != want {
			t.Errorf("TargetOf(%q) is %q, want %q", dsn, got, want)
		}
	}
}

func TestParseDSN(t *testing.T) {
	t.Parallel()
	d, err := ParseDSN("MySQL://app@srv:p%40s:s'@one:3306,[::1]/shop?tls=true&name=a@b")
	want := DSN{Target: Target{"mysql", "one:3306,[::1]", "shop"}, User: "app@srv", Password: "p@s:s'", HasPassword: true,
		Params: url.Values{"tls": {"true"}, "name": {"a@b"}}}
	if fmt.Sprint(
		err,
		d.User,
		d.Password,
		d.HasPassword,
		d.Params,
		d.Target,
	) != fmt.Sprint(
		nil,
		want.User,
		want.Password,
		true,
		want.Params,
		want.Target,
	) {
		t.Errorf("got %q %q %v %v %v", d.User, d.Password, d.Params, d.Target, err)
	}
	for dsn, why := range map[string]string{
		"":                               "a scheme",
		"us_er:x@h":                      "a scheme",
		"mysql:app@h/d":                  "//",
		"mysql://app/x:y@h/d":            "an @ in its path",
		"mysql://app?x:y@h/d":            "behind a ?",
		"mysql://app#x@h/d":              "%23",
		"mysql://app:%zz@h/d":            "part of an escape",
		"mysql://h:port/d":               "host or the port",
		"mysql://h:0/d":                  "host or the port",
		"mysql://h:65536/d":              "host or the port",
		"mysql://h,/d":                   "host or the port",
		"mysql://a b/d":                  "host or the port",
		"mysql://h/%zz":                  "database's name",
		"mysql://h/a%00":                 "database's name",
		"mysql://h/d?a=%zz":              "parameters cannot be read",
		"mysql://h/d?;=x":                "parameters cannot be read",
		"mysql://h/d?x%0ay=z":            "no proper name",
		"mysql://(DESCRIPTION=(HOST=h))": "host or the port",
	} {
		if _, err := ParseDSN(dsn); !errors.Is(err, ErrDSN) || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseDSN(%q): got %v, want %q", dsn, err, why)
		}
	}
}
