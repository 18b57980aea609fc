package dsnredact

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
)

// secrets are passwords as people write them into DSNs, escaped or not, by what is odd about them. Each holds "hush".
var secrets = map[string]string{
	"plain":           "hush",
	"at":              "hush@2",
	"colon":           "a:hush:b",
	"slash":           "a/hush/b",
	"percent":         "100%hush",
	"escaped at":      "hush%402",
	"escaped slash":   "hush%2Fx",
	"broken escape":   "hush%zz",
	"question mark":   "hush?a=b",
	"hash":            "hush#1",
	"quote":           `hush"x`,
	"single quotes":   `'a b'hush`,
	"backslash":       `hush\x`,
	"blank":           "hush hush",
	"plus":            "a+hush",
	"not ASCII":       "hüsch-hush",
	"control":         "hush\x01",
	"brackets":        "hush[1]",
	"everything odd":  `p@ss:w/o%r"d\hush`,
	"looks like port": "p@x:hush/y",
	"looks like host": "hush@db.example:5432/x",
	"behind a ?":      "a?hush=b",
	"as a name":       "a?b&hush",
}

const description = "(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=h)(PORT=1521))(CONNECT_DATA=(SERVICE_NAME=x)))"

// shapes are DSNs around a password, well formed and not.
var shapes = map[string]string{
	"url":               "postgres://app:%s@db.example:5432/app",
	"no user":           "postgres://:%s@db.example/app",
	"no host":           "postgres://app:%s@/app",
	"query behind":      "postgres://app:%s@db.example/app?sslmode=require",
	"bad port":          "postgres://app:%s@db.example:port/app",
	"bad IPv6":          "postgres://app:%s@[::1/app",
	"upper case":        "POSTGRES://app:%s@db.example/app",
	"no slashes":        "mysql:app:%s@db.example/app",
	"bad characters":    "postgres://app:%s@db example/\x7f",
	"escaped user":      "mysql://a%%40b:%s@db.example/app",
	"user at server":    "mysql://app@srv:%s@127.0.0.1:3306/db",
	"slash in user":     "postgres://app/x:%s@db.example/app",
	"query in user":     "postgres://app?x:%s@db.example/app",
	"parameter":         "postgres://db.example/app?user=app&password=%s",
	"escaped name":      "postgres://db.example/app?pass%%77ord=%s",
	"upper case name":   "postgres://db.example/app?PASSWORD=%s",
	"key's password":    "postgres://db.example/app?sslpassword=%s&sslmode=require",
	"wallet":            "oracle://app@db.example/app?wallet+password=%s",
	"keys and values":   "host=db.example user=app password=%s dbname=app",
	"spaced out":        "host=db.example password = %s",
	"go-sql-driver":     "app:%s@tcp(db.example:3306)/app",
	"its own scheme":    "mysql:app:%s@tcp(db.example:3306)/app",
	"description":       "oracle://app:%s@" + description,
	"SQLite's":          "sqlite://app:%s@db.example/app",
	"an unknown scheme": "mongodb://app:%s@db.example/app",
}

func TestTargetShowsNoPassword(t *testing.T) {
	t.Parallel()
	for shape, format := range shapes {
		for odd, secret := range secrets {
			dsn := fmt.Sprintf(format, secret)
			d, err := dialect.ParseDSN(dsn)
			target := TargetOf(dsn)
			text, jsonErr := json.Marshal(map[string]any{"target": target, "dsn": d})
			check.OK(t, jsonErr)
			for _, shown := range []string{
				target.String(),
				fmt.Sprintf("%v %+v %#v %q %s", d, d, d, d, d),
				fmt.Sprintf("%+v %#v", target, err),
				fmt.Sprint(err),
				string(text),
				d.LogValue().String(),
			} {
				if strings.Contains(shown, "hush") {
					t.Errorf("%s, %s: %q shows %q", shape, odd, dsn, shown)
				}
			}
		}
	}
}

// Drivers print a DSN, or its password alone, in many ways.
func TestScrubHidesEveryPassword(t *testing.T) {
	t.Parallel()
	for shape, format := range shapes {
		for odd, secret := range secrets {
			dsn := fmt.Sprintf(format, secret)
			plain, err := url.PathUnescape(secret)
			if err != nil {
				plain = secret
			}
			cause := errors.New("cause")
			said := map[string]error{
				"the DSN":           fmt.Errorf("cannot open %s: %w", dsn, cause),
				"the DSN in quotes": fmt.Errorf("parse %q: %w", dsn, cause),
				"the password":      fmt.Errorf("no such user app with %s: %w", secret, cause),
				"it decoded":        fmt.Errorf("no such user app with %s: %w", plain, cause),
				"it quoted":         fmt.Errorf("no such user app with %q: %w", plain, cause),
				"it escaped as a URL": fmt.Errorf(
					"parse //app%s@db: %w",
					strings.TrimSuffix(url.UserPassword("", plain).String(), "@"),
					cause,
				),
			}
			if u, err := url.Parse(dsn); err == nil {
				said["the URL"] = fmt.Errorf("dial %s: %w", u, cause)
			} else {
				said["the parser's error"] = errors.Join(err, cause)
			}
			for how, err := range said {
				got := Scrub(err, dsn)
				if shows(got, "hush") {
					t.Errorf("%s, %s: an error with %s shows it: %v", shape, odd, how, got)
				}
				if !errors.Is(got, cause) {
					t.Errorf("%s, %s: an error with %s lost its cause", shape, odd, how)
				}
			}
		}
	}
}

// shows reports whether an error, or one that it wraps, shows a text.
func shows(err error, text string) bool {
	if err == nil {
		return false
	}
	if strings.Contains(fmt.Sprintf("%v %+v %q", err, err, err), text) {
		return true
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			if shows(e, text) {
				return true
			}
		}
	}
	return shows(errors.Unwrap(err), text)
}

func TestScrubLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	if Scrub(nil, "postgres://u:secret@h/d") != nil {
		t.Error("Scrub(nil) is not nil")
	}
	err := errors.New(`connection refused by "postgres"`)
	for _, dsn := range []string{
		"",
		"sqlite:x.db",
		"postgres://u:secret@h/d",
		"postgres://u:c@h/d",
		"postgres://postgres:postgres@h/postgres",
	} {
		if got := Scrub(err, dsn); got != err {
			t.Errorf("with DSN %q the error became %v", dsn, got)
		}
	}
}

// Whatever a DSN is, what dbq says about it does not show what is between its first colon and its last @.
func FuzzTargetShowsNoPassword(f *testing.F) {
	for _, format := range shapes {
		for _, secret := range secrets {
			f.Add(format, strings.ReplaceAll(secret, "hush", "S3"))
		}
	}
	f.Fuzz(func(t *testing.T, format, odd string) {
		const secret = "Tr0ub4dor"
		if strings.Count(format, "%s") != 1 || strings.Contains(format, secret) {
			return // not one place for the secret
		}
		before, after, _ := strings.Cut(format, "%s")
		if !strings.Contains(before, ":") || !strings.Contains(after, "@") ||
			strings.HasPrefix(strings.ToLower(before), "sqlite") {
			return // no place for a password
		}
		_, user, _ := strings.Cut(strings.TrimPrefix(before[strings.Index(before, ":")+1:], "//"), ":")
		if user == "" && !strings.HasSuffix(before, ":") {
			t.Skip("the secret is in the place of the user")
		}
		dsn := before + odd + secret + after
		d, err := dialect.ParseDSN(dsn)
		if text := fmt.Sprintf("%v %+v %v", TargetOf(dsn), d, err); strings.Contains(text, secret) {
			t.Errorf("%q: %s", dsn, text)
		}
	})
}
