//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/check"
)

// servedEngines are the engines on which tests crash servers. Those without a DSN in the environment are skipped.
var servedEngines = []string{"sqlite", "postgres18", "mariadb118"}

// ownDatabase returns the DSN of an empty database for a test, and a function that breaks all of its connections.
func ownDatabase(t *testing.T, engine string) (dsn string, cut func()) {
	t.Helper()
	if engine == "sqlite" {
		return "sqlite:" + filepath.Join(t.TempDir(), "q.db") + "?synchronous=normal", func() {}
	}
	variable := "DBQ_TEST_" + strings.ToUpper(engine) + "_DSN"
	server := os.Getenv(variable)
	if server == "" {
		t.Skipf("%s is not set", variable)
	}
	return ownDatabaseOn(t, server)
}

// ownDatabaseOn is ownDatabase on a server of PostgreSQL, MySQL or MariaDB.
func ownDatabaseOn(t *testing.T, at string) (dsn string, cut func()) {
	t.Helper()
	server, err := url.Parse(at)
	if err != nil || server.Host == "" {
		t.Fatalf("the server's DSN has no host: %v", err)
	}
	open, listing, kill := mysql.Open, "SELECT id FROM information_schema.processlist WHERE db = ?", "KILL %d"
	drop := "DROP DATABASE %s"
	if server.Scheme == "postgres" {
		open, drop = postgres.Open, "DROP DATABASE %s WITH (FORCE)"
		listing, kill = "SELECT pid FROM pg_stat_activity WHERE datname = $1", "SELECT pg_terminate_backend(%d)"
	}
	pool, err := open(t.Context(), server.String(), nil)
	check.OK(t, err)
	run := func(format string, arg any) error {
		_, err := pool.Write.ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf(format, arg))
		return err
	}
	name := fmt.Sprintf("dbq_serve_%d_%d", os.Getpid(), time.Now().UnixNano())
	check.OK(t, run("CREATE DATABASE %s", name))
	t.Cleanup(func() {
		if err := run(drop, name); err != nil {
			t.Errorf("left behind: %v", err)
		}
		pool.Close()
	})
	server.Path = "/" + name
	return server.String(), func() {
		for _, id := range connections(t, pool, listing, name) {
			_ = run(kill, id) // it may have ended
		}
	}
}

func connections(t *testing.T, pool dialect.Pool, listing, database string) (ids []int64) {
	rows, err := pool.Write.QueryContext(t.Context(), listing, database)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var id sql.NullInt64
		if err := rows.Scan(&id); err != nil {
			t.Error(err)
		}
		ids = append(ids, id.Int64)
	}
	return ids
}

// restartable is a server that keeps its address when it is killed and started again.
type restartable struct {
	*serving
	u   *user
	dsn string
}

func (u *user) serveRestartable(dsn string) *restartable {
	u.run("migrate", "--dsn", dsn).ok()
	return &restartable{u.serveProcess("--dsn", dsn), u, dsn}
}

// crash kills the server with SIGKILL and starts it again.
func (r *restartable) crash() {
	r.kill()
	r.serving = r.u.serveProcess("--dsn", r.dsn, "--listen", strings.TrimPrefix(r.url, "http://"))
}

// count returns the number of completed tasks, and of all others.
func (r *restartable) count(c *dbq.Client) (completed, others int64) {
	stats, err := admin.New(c).Stats(r.t.Context(), admin.CountAll())
	if err != nil {
		return 0, -1 // the connection was cut
	}
	for _, q := range stats {
		for s, n := range q.Count {
			if s == dbq.StateCompleted {
				completed += n
			} else {
				others += n
			}
		}
	}
	return completed, others
}
