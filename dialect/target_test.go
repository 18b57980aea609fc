package dialect

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

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

func TestTakeConns(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		conns int
		rest  string
	}{
		"":                                    {16, ""},
		"sslmode=require":                     {16, "sslmode=require"},
		"pool_max_conns=1":                    {1, ""},
		"sslmode=require&pool_max_conns=40":   {40, "sslmode=require"},
		"pool_max_conns=10000&options=-c%20a": {10000, "options=-c+a"},
	} {
		params, err := url.ParseQuery(query)
		check.OK(t, err)
		conns, err := DSN{Params: params}.TakeConns()
		if err != nil || conns != want.conns || params.Encode() != want.rest {
			t.Errorf("%s: got %d %s %v, want %d %s", query, conns, params.Encode(), err, want.conns, want.rest)
		}
	}
}
