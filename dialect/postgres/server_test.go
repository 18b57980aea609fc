package postgres

import (
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// onEachServer runs f on each server that the environment names, and skips with the reason when it names none.
func onEachServer(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	t.Parallel()
	dialecttest.OnEachServer(t, "PostgreSQL", dialecttest.PostgresServers, f)
}

// migrated is a session on dbq's tables in a schema of the test's own.
func migrated(t *testing.T, dsn string) *sqlrun.Session {
	t.Helper()
	s := dialecttest.OwnSchema(t, Dialect{}, Open, dsn, "DROP SCHEMA IF EXISTS %s CASCADE")
	dialecttest.Migrate(t, s)
	return s
}

func TestProbe(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		pool, err := Open(t.Context(), dsn, nil)
		check.OK(t, err)
		defer pool.Close()
		s, err := Dialect{}.Probe(t.Context(), pool.Write)
		check.OK(t, err)
		if s.Product == "" || s.Version == "" || s.Version == "?" || len(s.Strategies) == 0 ||
			s.MaxPayload == 0 || s.Precision == 0 {
			t.Errorf("got %+v", s)
		}
		if old := !kit.AtLeast(s.Version+".0", 15, 0) || s.Product != "PostgreSQL"; s.Untested != old {
			t.Errorf("%s %s: untested is %v, want %v", s.Product, s.Version, s.Untested, old)
		}
		t.Logf("%+v", s)
	})
}

func TestProbeRefusesAServerThatTakesNoWrites(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		pool, err := Open(t.Context(), with(dsn, "default_transaction_read_only=on"), nil)
		check.OK(t, err)
		defer pool.Close()
		if s, err := (Dialect{}).Probe(t.Context(), pool.Write); err == nil || !strings.Contains(err.Error(), "no writes") {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

func TestProbeDetectsOtherIsolationLevels(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		for isolation, want := range map[string]bool{
			"read%20committed": false, "repeatable%20read": true, "serializable": true,
		} {
			pool, err := Open(t.Context(), with(dsn, "default_transaction_isolation="+isolation), nil)
			check.OK(t, err)
			s, err := Dialect{}.Probe(t.Context(), pool.Write)
			if err != nil || s.ExplicitTx != want {
				t.Errorf("%s: got %+v, %v, want ExplicitTx %v", isolation, s, err, want)
			}
			pool.Close()
		}
	})
}

// with adds a parameter to a DSN.
func with(dsn, param string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + param
	}
	return dsn + "?" + param
}

// Of the servers in a DSN, those that cannot be reached or take no writes are passed over.
func TestConnectionGoesToTheServerThatTakesWrites(t *testing.T) {
	t.Parallel()
	nodes := strings.Fields(os.Getenv("DBQ_TEST_POSTGRESHA_NODES"))
	if len(nodes) == 0 {
		t.Skip("no cluster: set DBQ_TEST_POSTGRESHA_NODES, as ci/engines/native.sh start postgresha prints it")
	}
	for i, dsn := range nodes {
		u, err := url.Parse(dsn)
		check.OK(t, err)
		u.Host = "127.0.0.1:1," + u.Host
		pool, err := Open(t.Context(), u.String(), nil)
		check.OK(t, err)
		var standby bool
		err = pool.Write.QueryRowContext(t.Context(), "SELECT pg_is_in_recovery()").Scan(&standby)
		if err != nil || standby {
			t.Errorf("node %d first: the connection leads to a standby: %v, %v", i+1, standby, err)
		}
		pool.Close()

		u.Host = "127.0.0.1:1,127.0.0.1:2"
		none, err := Open(t.Context(), u.String(), nil)
		check.OK(t, err)
		if err := none.Write.PingContext(t.Context()); (Dialect{}).Classify(err) != dialect.Unavailable {
			t.Errorf("nobody listens: got %v, want unavailable", err)
		}
		none.Close()
	}
}

// A role or a database may have a setting that changes what text means. Open sets it; a caller's pool is refused.
func TestTextIsUTF8(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		dsn += "&client_encoding=LATIN1"
		pool, err := Open(t.Context(), dsn, nil)
		check.OK(t, err)
		defer pool.Close()
		if _, err := (Dialect{}).Probe(t.Context(), pool.Write); err != nil {
			t.Error(err)
		}
		own, err := sql.Open("pgx", dsn)
		check.OK(t, err)
		defer own.Close()
		_, err = Dialect{}.Probe(t.Context(), own)
		if !errors.Is(err, dialect.ErrServer) || !strings.Contains(err.Error(), "client_encoding=LATIN1") {
			t.Errorf("got %v, want an error that names client_encoding", err)
		}
	})
}
