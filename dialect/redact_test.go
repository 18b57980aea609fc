package dialect

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
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
	"backslash":       `hush\x`,
	"blank":           "hush hush",
	"plus":            "a+hush",
	"not ASCII":       "hüsch-hush",
	"control":         "hush\x01",
	"brackets":        "hush[1]",
	"everything odd":  `p@ss:w/o%r"d\hush`,
	"looks like port": "p@x:hush/y",
	"looks like host": "hush@db.example:5432/x",
}

// shapes are DSNs around a password, well formed and not.
var shapes = map[string]string{
	"url":            "postgres://app:%s@db.example:5432/app",
	"no user":        "postgres://:%s@db.example/app",
	"no host":        "postgres://app:%s@/app",
	"query behind":   "postgres://app:%s@db.example/app?sslmode=require",
	"bad port":       "postgres://app:%s@db.example:port/app",
	"bad IPv6":       "postgres://app:%s@[::1/app",
	"upper case":     "POSTGRES://app:%s@db.example/app",
	"no slashes":     "mysql:app:%s@db.example/app",
	"bad characters": "postgres://app:%s@db example/\x7f",
	"escaped user":   "mysql://a%%40b:%s@db.example/app",
}

func TestRedactHidesEveryPassword(t *testing.T) {
	t.Parallel()
	for shape, format := range shapes {
		for odd, secret := range secrets {
			t.Run(shape+"/"+odd, func(t *testing.T) {
				t.Parallel()
				dsn := fmt.Sprintf(format, secret)
				if got := Redact(dsn); strings.Contains(got, "hush") || !strings.Contains(got, mask) {
					t.Errorf("Redact(%q) = %q", dsn, got)
				}
			})
		}
	}
}

func TestRedactKeepsTheRest(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"":                                       "",
		"sqlite:queue.db":                        "sqlite:queue.db",
		"sqlite:///var/lib/q.db?busy_timeout=1s": "sqlite:///var/lib/q.db?busy_timeout=1s",
		"sqlite:queue@home.db":                   "sqlite:queue@home.db",
		"postgres://db.example:5432/app":         "postgres://db.example:5432/app",
		"postgres://app@db.example:5432/app":     "postgres://app@db.example:5432/app",
		"postgres://app:x@db.example:5432/app":   "postgres://app:xxxxx@db.example:5432/app",
		"postgres://db/app?user=u&password=hush&sslmode=require": "postgres://db/app?user=u&password=xxxxx&sslmode=require",
		"postgres://db/app?PASSWORD=hush":                        "postgres://db/app?PASSWORD=xxxxx",
		"postgres://db/app?sslpassword=hush&a=b":                 "postgres://db/app?sslpassword=xxxxx&a=b",
		"host=db user=u password=hush dbname=app":                "host=db user=u password=xxxxx dbname=app",
		"host=db password='hu sh' dbname=app":                    "host=db password=xxxxx dbname=app",
	} {
		if got := Redact(dsn); got != want {
			t.Errorf("Redact(%q) = %q, want %q", dsn, got, want)
		}
	}
}

// Drivers print a DSN, or its password alone, in many ways.
func TestScrubHidesEveryPassword(t *testing.T) {
	t.Parallel()
	for shape, format := range shapes {
		for odd, secret := range secrets {
			t.Run(shape+"/"+odd, func(t *testing.T) {
				t.Parallel()
				dsn := fmt.Sprintf(format, secret)
				plain, err := url.PathUnescape(secret)
				if err != nil {
					plain = secret
				}
				cause := errors.New("cause")
				said := map[string]error{
					"the DSN":             fmt.Errorf("cannot open %s: %w", dsn, cause),
					"the DSN in quotes":   fmt.Errorf("parse %q: %w", dsn, cause),
					"the password":        fmt.Errorf("no such user app with %s: %w", secret, cause),
					"it decoded":          fmt.Errorf("no such user app with %s: %w", plain, cause),
					"it quoted":           fmt.Errorf("no such user app with %q: %w", plain, cause),
					"it escaped as a URL": fmt.Errorf("parse //app%s@db: %w", strings.TrimSuffix(url.UserPassword("", plain).String(), "@"), cause),
				}
				if u, err := url.Parse(dsn); err == nil {
					said["the URL"] = fmt.Errorf("dial %s: %w", u, cause)
				} else {
					said["the parser's error"] = errors.Join(err, cause)
				}
				for how, err := range said {
					got := Scrub(err, dsn)
					if strings.Contains(got.Error(), "hush") {
						t.Errorf("an error with %s shows it: %v", how, got)
					}
					if !errors.Is(got, cause) {
						t.Errorf("an error with %s lost its cause", how)
					}
				}
			})
		}
	}
}

func TestScrubLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	if Scrub(nil, "postgres://u:secret@h/d") != nil {
		t.Error("Scrub(nil) is not nil")
	}
	err := errors.New("connection refused")
	for _, dsn := range []string{"", "sqlite:x.db", "postgres://u:secret@h/d", "postgres://u:c@h/d"} {
		if got := Scrub(err, dsn); got != err {
			t.Errorf("with DSN %q the error became %v", dsn, got)
		}
	}
}
