package oracle

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	driver "github.com/sijms/go-ora/v2"
)

func TestOpenReadsADSN(t *testing.T) {
	t.Parallel()
	dialecttest.Opens(t, Open, map[string]int{
		"oracle://app:hush@h/service":                                          16,
		"oracle://app:hush@h:1522/service?":                                    16,
		"Oracle://app:hush@[::1]:1521/service":                                 16,
		"oracle://app:hush@[::1]/service":                                      16,
		"oracle://app:p%40ss%2Fword%3F@h/service?pool_max_conns=3":             3,
		"oracle://app:hush@h/?SID=xe":                                          16,
		"oracle://app:hush@h/service?ssl=enable&ssl+verify=false":              16,
		"oracle://app:hush@h/service?SSL_VERIFY=false&connection%20timeout=10": 16,
		"oracle://h/service?AUTH+TYPE=OS":                                      16,
		"oracle://app:hush@h/service?server=h2:1521&server=h3:1521":            16,
	})
}

func TestOpenRefusesInvalidDSN(t *testing.T) {
	t.Parallel()
	says := map[string]string{
		"oracle:":                                         "write oracle://user:password@host:port/database",
		"oracle:service":                                  "write oracle://",
		"oracle:///service":                               "write oracle://",
		"oracle://app:hush@h":                             "names no service",
		"oracle://app:hush@h/":                            "names no service",
		"oracle://h/service":                              "no user or no password",
		"oracle://app@h/service":                          "no user or no password",
		"oracle://app:hush@h:port/service":                "write oracle://",
		"oracle://app:hush%zz@h/service":                  "escaped",
		"oracle://app:hush@h/service?pool_max_conns=0":    "pool_max_conns must be a number",
		"oracle://app:hush@h/service?pool_max_conns=all":  "be a number from 1 to 10000",
		"oracle://app:hush@h/service?lob+fetch=post":      `the parameter "lob fetch" is not one`,
		"oracle://app:hush@h/service?PREFETCH_ROWS=1":     `"PREFETCH_ROWS"`,
		"oracle://app:hush@h/service?charset=US7ASCII":    `"charset"`,
		"oracle://app:hush@h/service?server+location=UTC": `"server location"`,
		"oracle://app:hush@h/service?trace+file=t.log":    "known are pool_max_conns, SSL",
		"oracle://app:hush@h/service?timeout=5":           `"timeout"`,
		"oracle://app:hush@h/service?failover=3":          `"failover"`,
		"oracle://app:hush@h/service?misspelled=1":        `"misspelled"`,
		"oracle://app:hush@h/service?ssl=true&SSL=false":  "twice",
		"oracle://app:hush@h/service?encryption=maybe":    "encryption",
	}
	dialecttest.Refuses(t, Open, says)
	for dsn := range says {
		if _, err := NewConnector(dsn); !errors.Is(err, dialect.ErrDSN) {
			t.Errorf("%s: NewConnector takes it: %v", dsn, err)
		}
	}
}

func TestUnreadableDSNKeepsItsPassword(t *testing.T) {
	t.Parallel()
	dialecttest.KeepsPasswords(t,
		"oracle://app:%s@h:port/s",
		"oracle://app:%s@[::1/s",
		"oracle://app:%s@h/s?encryption=x",
		"oracle://app:%s@h/s?pool_max_conns=x",
		"oracle://app:%s@h/s?wallet+password=hush&trace+file=x",
		"oracle://app:%s@h",
	)
}

// The password reaches the driver as it was meant, and no error on the way shows it.
func TestPasswordWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	const password = `p@s:s/w?o#r%d&=+ "ü\`
	u := url.URL{Scheme: "oracle", User: url.UserPassword("app", password), Host: "127.0.0.1:1", Path: "/s"}
	text, _, err := config(u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := driver.ParseConfig(text)
	if err != nil || parsed.Password != password || parsed.UserID != "app" || parsed.ServiceName != "s" ||
		parsed.Servers[0].Port != 1 {
		t.Errorf("%s: got %+v, %v", text, parsed, err)
	}
	pool, err := Open(t.Context(), u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = pool.Write.PingContext(t.Context()) // nobody listens there
	if got := (Dialect{}).Classify(err); got != dialect.Unavailable || strings.Contains(err.Error(), "w?o") {
		t.Errorf("%v: got %v, want unavailable", err, got)
	}
}

// A connect descriptor reaches the driver whole, and what is none is refused.
func TestConnectDescriptor(t *testing.T) {
	t.Parallel()
	const described = "(DESCRIPTION=(FAILOVER=on)(ADDRESS_LIST=" +
		"(ADDRESS=(PROTOCOL=tcp)(HOST=one)(PORT=1521))(ADDRESS=(PROTOCOL=tcp)(HOST=two)(PORT=1522)))" +
		"(CONNECT_DATA=(SERVICE_NAME=shop)))"
	dsn := func(before string) string { return before + "?connStr=" + url.QueryEscape(described) }
	text, conns, err := config(dsn("oracle://app:p%40ss@/")+"&pool_max_conns=3", nil)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := driver.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if conns != 3 || parsed.Password != "p@ss" || parsed.UserID != "app" || parsed.ServiceName != "shop" ||
		len(parsed.Servers) != 2 || parsed.Servers[1].Addr != "two" || parsed.Servers[1].Port != 1522 {
		t.Errorf("%d connections, %+v", conns, parsed)
	}
	for _, refused := range []string{
		dsn("oracle://app:hush@h:1521/"),
		dsn("oracle://app:hush@/service"),
		dsn("oracle:///"),
		"oracle://app:hush@/?connStr=shop",
	} {
		if _, _, err := config(refused, nil); !errors.Is(err, dialect.ErrDSN) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v", refused, err)
		}
	}
}
