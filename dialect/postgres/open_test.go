package postgres

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The password reaches the driver as it was meant, wherever it stands.
func TestPasswordReachesTheDriver(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://app:hush@h/d":                         "hush",
		"postgres://app:p%40s%3As%2Fw@h/d?sslmode=prefer": "p@s:s/w",
		"postgres://app@srv:hu@sh@h:5433,i/d":             "hu@sh",
		"postgres://h/d?user=app&password=a%26b":          "a&b",
		"postgres://app:hush@h/d?pass%77ord=other":        "other",
	} {
		cfg, _, _, err := config(dsn)
		if err != nil || cfg.Password != want || cfg.Database != "d" {
			t.Errorf("%s: %v, password %q, want %q", dsn, err, cfg.Password, want)
		}
	}
}

func TestTargetReadsParameters(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://app:hush@h:1/d":                              "postgres://h:1/d",
		"postgres:///d?host=h&port=5433&password=hush":           "postgres://h:5433/d",
		"cockroachdb:///d?host=/tmp&dbname=b&user=hush":          "cockroachdb:///b",
		"postgres://h/d?host=i&dbname=b&application_name=hush@b": "postgres://h/b",
	} {
		if got := dsnredact.TargetOf(dsn).String(); got != want {
			t.Errorf("%s: got %s, want %s", dsn, got, want)
		}
	}
}

func TestOpenReadsADSN(t *testing.T) {
	t.Parallel()
	dialecttest.Opens(t, Open, map[string]int{
		"postgres://app:hush@h/d":                                   16,
		"PostgreSQL://app@srv:hush@h:5433,i/d?pool_max_conns=3":     3,
		"cockroachdb://h:26257/d?user=app&password=hush":            16,
		"postgres:///d?host=/tmp&password=hush":                     16,
		"postgres://app:hush@[::1]:5432/d?application_name=me@home": 16,
	})
}

func TestOpenRefusesInvalidDSN(t *testing.T) {
	t.Parallel()
	dialecttest.Refuses(t, Open, map[string]string{
		"postgres:":             "write postgres://user:password@host:port/database",
		"postgresql:db":         "write postgresql://user:password@host:port/database",
		"postgres:app:hush@h/d": "write postgres://",
		"postgres://app:hush@h/d?pool_max_conns=0":             "pool_max_conns must be a number",
		"postgres://app:hush@h/d?pool_max_conns=many":          "pool_max_conns must be a number",
		"postgres://app:hush@h/d?pool_max_conns=99999":         "be a number from 1 to 10000",
		"postgres://app:hush@h/d?password=%zz":                 "parameters cannot be read",
		"postgres://app:hush@h:port/d":                         "the port is not one",
		"postgres://app:hush@h/d?sslmode=sometimes":            "sslmode",
		"postgres://app:hush@h/d?connect_timeout=soon":         "connect_timeout",
		"postgres://app:hush@h/d?default_query_exec_mode=fast": "default_query_exec_mode",
	})
}

func TestUnreadableDSNKeepsItsPassword(t *testing.T) {
	t.Parallel()
	dialecttest.KeepsPasswords(t,
		"postgres://app:%s@h:port/d", "postgres://app:%s@[::1/d", "postgres://app:%s@h/d?sslmode=sometimes",
		"postgres://app:%s@h/d?pool_max_conns=x",
	)
}

func TestOpenDoesNotConnect(t *testing.T) {
	t.Parallel()
	pool, err := Open(t.Context(), "postgresql://app@127.0.0.1:1/d?pool_max_conns=3", nil)
	check.OK(t, err)
	defer pool.Close()
	if got := pool.Write.Stats().MaxOpenConnections; got != 3 {
		t.Errorf("the pool takes %d connections, want 3", got)
	}
	err = pool.Write.PingContext(t.Context())
	if got := (Dialect{}).Classify(err); got != dialect.Unavailable {
		t.Errorf("nobody listens: %v: got %v, want unavailable", err, got)
	}
}

func TestBindValue(t *testing.T) {
	t.Parallel()
	id := uuid.UUID{1, 2}
	want := pgtype.UUID{Bytes: id, Valid: true}
	if got := (Dialect{}).BindValue(id); got != want {
		t.Errorf("got %T %v", got, got)
	}
	got, ok := Dialect{}.BindValue([]uuid.UUID{id}).([]pgtype.UUID)
	if !ok || len(got) != 1 || got[0] != want {
		t.Errorf("got %v", got)
	}
	if got := (Dialect{}).BindValue("text"); got != "text" {
		t.Errorf("got %v", got)
	}
}

// Of several servers a connection goes to the first that takes writes, unless the DSN asks for another kind.
func TestDSNListsServers(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]bool{
		"postgres://h/d":                   false,
		"postgres://h/d?sslmode=prefer":    false, // twice the same, with TLS and without
		"postgres://h,h2/d":                true,
		"postgres://app@h:5432,h:5433/d":   true,
		"postgres://app:a%2Cb@h/d":         false,
		"postgres://h,h2/d?sslmode=prefer": true,
	} {
		cfg, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
		} else if got := several(cfg); got != want {
			t.Errorf("%s: several servers: got %v, want %v", dsn, got, want)
		}
	}
}

// A parameter reaches the server as it was meant, blanks and pluses too.
func TestParametersKeepSpacesAndPluses(t *testing.T) {
	t.Parallel()
	cfg, _, _, err := config("postgres://app@h/d?default_transaction_isolation=repeatable%20read&options=-c%20a%3D1%2B2")
	check.OK(t, err)
	got := cfg.RuntimeParams
	if got["default_transaction_isolation"] != "repeatable read" || got["options"] != "-c a=1+2" {
		t.Errorf("got %v", got)
	}
}
