package mysql

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
)

func TestOpenReadsADSN(t *testing.T) {
	t.Parallel()
	dialecttest.Opens(t, Open, map[string]int{
		"mysql://h/d":                                         16,
		"mysql://app@h:3307/d":                                16,
		"mysql://app:hush@h/d?":                               16,
		"MariaDB://app:hush@h/d":                              16,
		"tidb://app@h:4000/d?pool_max_conns=1":                1,
		"mysql://app:p%40ss%2Fword%3F@h/d":                    16,
		"mysql://app@[::1]:3306/d":                            16,
		"mysql://app@[::1]/d":                                 16,
		"mariadb://h/d?tls=skip-verify&timeout=2s":            16,
		"mysql://h/d?pool_max_conns=10000&readTimeout=30s":    10000,
		"mysql://h/d?allowNativePasswords=true&compress=true": 16,
		"mysql://app:hush@one,two:3307,[::1]:3308/d":          16,
		"mysql://app:hush@/d?socket=/run/mysqld/mysqld.sock":  16,
	})
}

func TestOpenRefusesInvalidDSN(t *testing.T) {
	t.Parallel()
	dialecttest.Refuses(t, Open, map[string]string{
		"mysql:":                                  "write mysql://user:password@host:port/database",
		"mariadb:db":                              "write mariadb://user:password@host:port/database",
		"mysql://app:hush@h":                      "write mysql://",
		"mysql://app:hush@h/":                     "write mysql://",
		"mysql:///d":                              "write mysql://",
		"mysql:app:hush@h/d":                      "write mysql://",
		"app:hush@tcp(h:3306)/d":                  "user:password@host:port/database",
		"mysql://app:hush@h:port/d":               "write mysql://",
		"mysql://app:hush%zz@h/d":                 "escaped",
		"mysql://app:hush@h,/d":                   "write mysql://",
		"mysql://app:hush@,h/d":                   "write mysql://",
		"mysql://app:hush@h,h:port/d":             "write mysql://",
		"mysql://app:hush@h,h?x/d":                "write mysql://",
		"mysql://app:hush@h/d?pool_max_conns=0":   "pool_max_conns must be a number",
		"mysql://app:hush@h/d?pool_max_conns=all": "pool_max_conns must be a number",
		"mysql://app:hush@h/d?pool_max_conns=1e9": "be a number from 1 to 10000",
		"mysql://app:hush@h/d?parseTime=true":     `the parameter "parseTime" is not one`,
		"mysql://app:hush@h/d?multiStatements=1":  "known are pool_max_conns, socket, tls_ca, tls",
		"mysql://app:hush@h/d?sql_mode=ANSI":      `"sql_mode"`,
		"mysql://app:hush@h/d?time_zone=%2701:00": `"time_zone"`,
		"mysql://app:hush@h/d?timeout=soon":       "timeout",
		"mysql://app:hush@h/d?tls=nonesuch":       "tls",
		"mysql://app:hush@h/d?socket=/s":          "needs no host",
		"mysql://app:hush@/d?socket=/s&tls=true":  "no TLS",
		"mysql://app:hush@h/d?tls_ca=nonesuch":    "tls_ca",
		"mysql://app:hush@h/d?tls_ca=open.go":     "no certificate",
		"mysql://app:hush@h/d?tls=verify-ca":      "tls_ca",

		"mysql://app:hush@h/d?tls_ca=open.go&tls=skip-verify": "tls=true",

		"mysql://app:hush@h/d?allowCleartextPasswords=true":                 "unless tls=true",
		"mysql://app:hush@h/d?allowCleartextPasswords=true&tls=preferred":   "unless tls=true",
		"mysql://app:hush@h/d?allowCleartextPasswords=true&tls=skip-verify": "unless tls=true",
	})
}

func TestWeakTLSIsReported(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		"": "", "?tls=true": "", "?tls=false": "", "?tls=true&allowCleartextPasswords=true": "",
		"?tls=skip-verify": "does not check", "?tls=preferred": "without TLS",
	} {
		pool, err := Open(t.Context(), "mysql://app:hush@h/d"+params, nil)
		check.OK(t, err)
		if got := pool.Warning; (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: the warning is %q, want %q", params, got, want)
		}
		pool.Close()
	}
}

func TestUnreadableDSNKeepsItsPassword(t *testing.T) {
	t.Parallel()
	dialecttest.KeepsPasswords(t,
		"mysql://app:%s@h:port/d",
		"mariadb://app:%s@[::1/d",
		"mysql://app:%s@h/d?tls=nonesuch",
		"tidb://app:%s@h/d?pool_max_conns=x",
		"mysql://app:%s@h/d?password=hush",
		"mysql://app:%s@h",
		"mysql://app:%s@h,i:port/d",
		"mysql://app:%s@h,i/d?tls=nonesuch",
	)
}

// The password reaches the server as it was meant, and no error on the way shows it.
func TestPasswordWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	const password = `p@s:s/w?o#r%d&=+ "ü\`
	u := url.URL{Scheme: "mysql", User: url.UserPassword("app", password), Host: "127.0.0.1:1", Path: "/d"}
	dsn := u.String()
	parsed, addresses, _, err := config(dsn)
	if err != nil || parsed.Passwd != password || parsed.User != "app" || parsed.DBName != "d" {
		t.Errorf("%s: got %+v, %v", dsn, parsed, err)
	}
	if !slices.Equal(addresses, []string{"127.0.0.1:1"}) {
		t.Errorf("%s: got addresses %v", dsn, addresses)
	}
	pool, err := Open(t.Context(), dsn+"?pool_max_conns=3", nil)
	check.OK(t, err)
	defer pool.Close()
	err = pool.Write.PingContext(t.Context()) // nobody listens there
	if got := (Dialect{}).Classify(err); got != dialect.Unavailable || strings.Contains(err.Error(), "w?o") {
		t.Errorf("%v: got %v, want unavailable", err, got)
	}
}
