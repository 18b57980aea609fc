package dialect

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	// keyword matches the next keyword and its value, which may be quoted, of libpq's form.
	keyword = regexp.MustCompile(
		`(?s)^\s*([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|([^\s\\']|\\.)((?:[^\s\\]|\\.)*)|)(?:\s+|$)`)
	escaped = regexp.MustCompile(`(?s)\\(.)`)
)

// fromKeywords returns a DSN in libpq's form of keywords and values, such as host=db.example dbname=app, in the form of
// a URL of PostgreSQL. It returns any other text unchanged.
func fromKeywords(dsn string) string {
	params := url.Values{}
	for rest := dsn; rest != ""; {
		m := keyword.FindStringSubmatch(rest)
		if m == nil || strings.Contains(m[0], "://") { // a name before a URL, as in main=postgres://db.example/app
			return dsn
		}
		params.Set(m[1], escaped.ReplaceAllString(m[2]+m[3]+m[4], "$1"))
		rest = rest[len(m[0]):]
	}
	if !slices.ContainsFunc([]string{"host", "hostaddr", "dbname", "user", "service"}, params.Has) {
		return dsn
	}
	if address := params.Get("hostaddr"); address != "" && !params.Has("host") {
		params.Set("host", address)
	}
	params.Del("hostaddr") // pgx does not know it
	return "postgres:///?" + params.Encode()
}
