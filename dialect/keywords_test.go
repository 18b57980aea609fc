package dialect_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

func TestKeywordsBecomeAURL(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]url.Values{
		"host=db.example dbname=app":           {"host": {"db.example"}, "dbname": {"app"}},
		" user = app\n\tpassword=' a b'  ":     {"user": {"app"}, "password": {" a b"}},
		`user=app password='it\'s \\'`:         {"user": {"app"}, "password": {`it's \`}},
		`user=app password=a\ b'@/?#%=+:`:      {"user": {"app"}, "password": {"a b'@/?#%=+:"}},
		"host=/run/postgresql password= port=": {"host": {"/run/postgresql"}, "password": {"port="}},
		"service=main options=''":              {"service": {"main"}, "options": {""}},
		"hostaddr=10.0.0.1 dbname=app":         {"host": {"10.0.0.1"}, "dbname": {"app"}},
		"hostaddr=10.0.0.1 host=h dbname=app":  {"host": {"h"}, "dbname": {"app"}},
	} {
		d, err := dialect.ParseDSN(dsn)
		if err != nil || d.Scheme != "postgres" || d.Params.Encode() != want.Encode() {
			t.Errorf("%s: got %v, %v, want %v", dsn, d.Params, err, want)
		}
	}
	for _, dsn := range []string{"", "queue.db", "a=b.db", "postgres://h/d?host=x", "sqlite:q.db?mode=ro", "host=h user",
		"user=u password='open", `user=u password=\`, "password=hush", "main=postgres://u:p@h/d", "host=postgres://u:p@h/d",
		"app:hush@tcp(h)/d?user=x"} {
		if scheme := dialect.SchemeOf(dsn); scheme == "postgres" != strings.HasPrefix(dsn, "postgres:") {
			t.Errorf("%s: the scheme is %q", dsn, scheme)
		}
	}
}
