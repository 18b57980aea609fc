package dialect

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
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
