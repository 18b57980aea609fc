package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/check"
)

func TestSplitDSN(t *testing.T) {
	t.Parallel()
	const full, tenSeconds = "synchronous(FULL)", "busy_timeout(10000)"
	for _, c := range []struct{ dsn, path, busy, sync string }{
		{"sqlite:queue.db", "queue.db", tenSeconds, full},
		{"sqlite:./a/queue.db", "./a/queue.db", tenSeconds, full},
		{"sqlite:/var/lib/queue.db", "/var/lib/queue.db", tenSeconds, full},
		{"sqlite:///var/lib/queue.db", "/var/lib/queue.db", tenSeconds, full},
		{"sqlite://queue.db", "queue.db", tenSeconds, full},
		{"sqlite::memory:", ":memory:", tenSeconds, full},
		{"sqlite:my queue#1 100%.db", "my queue#1 100%.db", tenSeconds, full},
		{"sqlite:q.db?", "q.db", tenSeconds, full},
		{"sqlite:q.db?synchronous=normal", "q.db", tenSeconds, "synchronous(NORMAL)"},
		{"sqlite:q.db?synchronous=EXTRA", "q.db", tenSeconds, "synchronous(EXTRA)"},
		{"sqlite:q.db?busy_timeout=250ms", "q.db", "busy_timeout(250)", full},
		{"sqlite:q.db?busy_timeout=0&synchronous=full", "q.db", "busy_timeout(0)", full},
	} {
		path, query, _, err := split(c.dsn)
		if err != nil || path != c.path || strings.Join(query["_pragma"], " ") != c.busy+" "+c.sync {
			t.Errorf("%s: got %q %v %v, want %q %s %s", c.dsn, path, query, err, c.path, c.busy, c.sync)
		}
	}
}

func TestOpenRefusesInvalidDSN(t *testing.T) {
	t.Parallel()
	dialecttest.Refuses(t, Open, map[string]string{
		"sqlite:":                         "no file named",
		"sqlite://":                       "no file named",
		"sqlite:?synchronous=full":        "no file named",
		"sqlite:a\x00b":                   "NUL",
		"sqlite:q.db?synchronous=off":     "synchronous must be one of full, normal, extra",
		"sqlite:q.db?busy_timeout=10":     "busy_timeout must be a duration",
		"sqlite:q.db?busy_timeout=-1s":    "busy_timeout must be",
		"sqlite:q.db?busy_timeout=2h":     "busy_timeout must be",
		"sqlite:q.db?cache=shared":        `unknown parameter "cache"`,
		"sqlite:q.db?mode=memory":         "mode must be ro or rw",
		"sqlite:q.db?_pragma=foreign_key": `unknown parameter "_pragma"`,
		"sqlite:q.db?a=%zz":               "cannot be read",
	})
}

func TestOpenSetsEveryConnectionUp(t *testing.T) {
	t.Parallel()
	pool := openFile(t, filepath.Join(t.TempDir(), "my queue#1 100%.db"), "?busy_timeout=3s")
	for _, c := range []struct {
		db           *sql.DB
		pragma, want string
	}{
		{pool.Write, "journal_mode", "wal"},
		{pool.Write, "synchronous", "2"},
		{pool.Write, "busy_timeout", "0"},
		{pool.Write, "query_only", "0"},
		{pool.Read, "journal_mode", "wal"},
		{pool.Read, "busy_timeout", "3000"},
		{pool.Read, "query_only", "1"},
	} {
		var got string
		if err := c.db.QueryRowContext(t.Context(), "PRAGMA "+c.pragma).Scan(&got); err != nil || got != c.want {
			t.Errorf("PRAGMA %s: got %q %v, want %q", c.pragma, got, err, c.want)
		}
	}
	if got := pool.Write.Stats().MaxOpenConnections; got != 1 {
		t.Errorf("%d connections write, want 1", got)
	}
}

func TestMemoryIsOneDatabase(t *testing.T) {
	t.Parallel()
	pool, err := Open(t.Context(), "sqlite::memory:", nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	if pool.Write != pool.Read || pool.Write.Stats().MaxOpenConnections != 1 {
		t.Errorf("a database in memory wants one connection for all: %+v", pool.Write.Stats())
	}
}

func TestMemoryOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	pool, err := Open(t.Context(), "sqlite::memory:", nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	if _, err := pool.Write.ExecContext(t.Context(), "CREATE TABLE kept (x)"); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Write.Conn(t.Context())
	check.OK(t, err)
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // what happens to it when a write was cut off
	if _, err := pool.Write.ExecContext(t.Context(), "INSERT INTO kept VALUES (1)"); err != nil {
		t.Error(err)
	}
	other, err := Open(t.Context(), "sqlite::memory:", nil)
	check.OK(t, err)
	t.Cleanup(func() { other.Close() })
	if _, err := other.Write.ExecContext(t.Context(), "INSERT INTO kept VALUES (1)"); err == nil {
		t.Error("two databases in memory are one")
	}
}

func TestMissingDirectoryIsUnavailable(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "no", "such", "q.db"), nil)
	if err == nil || !strings.Contains(err.Error(), "cannot open") || (Dialect{}).Classify(err) != dialect.Unavailable {
		t.Errorf("got %v, class %v", err, Dialect{}.Classify(err))
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	pool := openFile(t, filepath.Join(t.TempDir(), "q.db"), "")
	s, err := Dialect{}.Probe(t.Context(), pool.Read)
	check.OK(t, err)
	strategies := []dialect.Strategy{dialect.CAS}
	if s.Product != "SQLite" || !kit.AtLeast(s.Version, 3, 42) || s.MaxPayload == 0 ||
		!slices.Equal(s.Strategies, strategies) {
		t.Errorf("got %+v", s)
	}
	pool.Close()
	if _, err := (Dialect{}).Probe(t.Context(), pool.Read); err == nil {
		t.Error("a probe of a closed pool gave no error")
	}
}

// openFile opens a database with the dialect's own pools.
func openFile(t *testing.T, path, params string) dialect.Pool {
	t.Helper()
	pool, err := Open(context.WithoutCancel(t.Context()), "sqlite:"+path+params, nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}
