package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

const insert = `INSERT INTO {task} (id, queue, reference, kind, state, priority, max_attempts, created, updated)
VALUES (CAST(%s AS uuid), %s, %s, '', %s, %s, 1, 0, 0)`

// Errors as the server really gives them.
func TestClassifyRealErrors(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		write := func(statements ...string) func(t *testing.T) error {
			return func(t *testing.T) (err error) {
				for _, text := range statements {
					err = do(t, s.Pool.Write, s, text)
				}
				return err
			}
		}
		row := func(id, queue, reference, state, priority string) string {
			return fmt.Sprintf(insert, id, queue, reference, state, priority)
		}
		fresh := func() string { return "'" + uuid.NewString() + "'" }
		taken, long := fresh(), "repeat('x', 201)"
		for _, c := range []struct {
			name    string
			provoke func(t *testing.T) error
			want    dialect.Class
		}{
			{"the id is taken",
				write(row(taken, "'q'", "NULL", "0", "0"), row(taken, "'q'", "NULL", "0", "0")), dialect.Duplicate},
			{"the reference is taken",
				write(row(fresh(), "'q'", "'r'", "0", "0"), row(fresh(), "'q'", "'r'", "0", "0")), dialect.Duplicate},
			{"no such table", write("DELETE FROM {prefix}nothing"), dialect.Missing},
			{"no such schema", write("CREATE TABLE dbq_no_such_schema.t (x int)"), dialect.Missing},
			{"no such column", write("UPDATE {task} SET nothing = 1"), dialect.Missing},
			{"no such state", write(row(fresh(), "'q'", "NULL", "5", "0")), dialect.Invalid},
			{"no such priority", write(row(fresh(), "'q'", "NULL", "0", "10")), dialect.Invalid},
			{"null", write(row(fresh(), "NULL", "NULL", "0", "0")), dialect.Invalid},
			{"too long", write(row(fresh(), "'q'", long, "0", "0")), dialect.Invalid},
			{"a byte that text cannot hold", func(t *testing.T) error {
				_, err := s.Pool.Write.ExecContext(t.Context(), "SELECT CAST($1 AS text)", "a\x00b")
				return err
			}, dialect.Invalid},
			{"a syntax error", write("SELEKT 1"), dialect.Unknown},
			{"a deadlock", func(t *testing.T) error { return deadlock(t, s) }, dialect.Conflict},
			{"a statement timeout", onConn(s, "SET statement_timeout = '20ms'", "SELECT pg_sleep(10)"), dialect.Conflict},
			{"a lock timeout", func(t *testing.T) error {
				return whileLocked(t, s, onConn(s, "BEGIN", "SET LOCAL lock_timeout = '20ms'", "LOCK TABLE {task}"))
			}, dialect.Conflict},
			{"a lock not to be had", func(t *testing.T) error {
				return whileLocked(t, s, onConn(s, "BEGIN", "LOCK TABLE {task} NOWAIT"))
			}, dialect.Conflict},
			{"a serialization failure", func(t *testing.T) error { return serialization(t, s) }, dialect.Conflict},
			{"a transaction that takes no writes",
				onConn(s, "SET default_transaction_read_only = on", "DELETE FROM {task}"), dialect.Unavailable},
			{"a session that an operator ended", func(t *testing.T) error { return terminated(t, s) }, dialect.Unavailable},
			{"a context that has ended", dialecttest.InAnEndedContext(s), dialect.Unknown},
			{"no such database", dialecttest.Connect(Open, dsn, func(u *url.URL) {
				u.Path = "/dbq_no_such_database"
			}), dialect.Unavailable},
			{"no such user", dialecttest.Connect(Open, dsn, func(u *url.URL) {
				u.User = url.UserPassword("dbq_no_such_user", "hush")
			}), dialect.Denied},
		} {
			dialecttest.Classifies(t, Dialect{}, c.name, c.want, c.provoke)
		}
	})
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func do(t *testing.T, e execer, s *sqlrun.Session, query string) error {
	_, err := e.ExecContext(t.Context(), s.Names.Filler()(query))
	return err
}

// onConn runs statements on a connection that nobody gets afterwards, and returns the error of the last one.
func onConn(s *sqlrun.Session, statements ...string) func(t *testing.T) error {
	return func(t *testing.T) (err error) {
		conn := own(t, s)
		for _, query := range statements {
			err = do(t, conn, s, query)
		}
		return err
	}
}

// own is a connection that is thrown away when the test ends.
func own(t *testing.T, s *sqlrun.Session) *sql.Conn {
	t.Helper()
	conn, err := s.Pool.Write.Conn(t.Context())
	check.OK(t, err)
	t.Cleanup(func() {
		_ = conn.Raw(func(any) error { return errors.New("not to be used again") })
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		_, _ = conn.ExecContext(context.Background(), "DISCARD ALL")
		conn.Close()
	})
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	check.OK(t, err)
}

func whileLocked(t *testing.T, s *sqlrun.Session, f func(*testing.T) error) error {
	conn := own(t, s)
	must(t, do(t, conn, s, "BEGIN"))
	must(t, do(t, conn, s, "LOCK TABLE {task} IN SHARE MODE"))
	return f(t)
}

// deadlock makes two transactions wait for each other; the server ends one of them.
func deadlock(t *testing.T, s *sqlrun.Session) error {
	a, b := own(t, s), own(t, s)
	locks := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d, ", uuid.New().ID()>>1)
	for _, c := range []*sql.Conn{a, b} {
		must(t, do(t, c, s, "BEGIN"))
	}
	must(t, do(t, a, s, locks+"1)"))
	must(t, do(t, b, s, locks+"2)"))
	waits := make(chan error, 1)
	go func() {
		err := do(t, a, s, locks+"2)")
		_ = do(t, a, s, "ROLLBACK")
		waits <- err
	}()
	err := do(t, b, s, locks+"1)")
	_ = do(t, b, s, "ROLLBACK")
	return errors.Join(err, <-waits)
}

// serialization makes a snapshot write what was changed after it.
func serialization(t *testing.T, s *sqlrun.Session) error {
	id := uuid.NewString()
	must(t, do(t, s.Pool.Write, s, fmt.Sprintf(insert, "'"+id+"'", "'serial'", "NULL", "0", "0")))
	conn := own(t, s)
	must(t, do(t, conn, s, "BEGIN ISOLATION LEVEL REPEATABLE READ"))
	must(t, do(t, conn, s, "SELECT 1 FROM {task}"))
	update := "UPDATE {task} SET fence = fence + 1 WHERE id = '" + id + "'"
	must(t, do(t, s.Pool.Write, s, update))
	return do(t, conn, s, update)
}

// terminated ends a session while it works.
func terminated(t *testing.T, s *sqlrun.Session) error {
	conn := own(t, s)
	var pid int
	must(t, conn.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	done := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(t.Context(), "SELECT pg_sleep(30)")
		done <- err
	}()
	for range 100 { // until it sleeps
		var active bool
		must(t, s.Pool.Write.QueryRowContext(t.Context(), `SELECT query LIKE '%pg_sleep%' AND state = 'active'
  FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&active))
		if active {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, err := s.Pool.Write.ExecContext(t.Context(), "SELECT pg_terminate_backend($1)", pid)
	must(t, err)
	return <-done
}

// A wrong password needs a server that asks for one: the role is made for the test, and the test skipped where anybody
// is trusted.
func TestWrongPasswordIsDenied(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		pool, err := Open(t.Context(), dsn, nil)
		must(t, err)
		defer pool.Close()
		role := fmt.Sprintf("dbqt_%x", uuid.New().ID())
		_, err = pool.Write.ExecContext(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'right'")
		if err != nil {
			t.Skipf("this user makes no roles: %v", err)
		}
		defer func() {
			_, err := pool.Write.ExecContext(context.Background(), "DROP ROLE "+role)
			must(t, err)
		}()
		err = dialecttest.Connect(Open, dsn, func(u *url.URL) { u.User = url.UserPassword(role, "wrong-password") })(t)
		if err == nil {
			t.Skip("the server asks nobody for a password")
		}
		var e *pgconn.PgError
		if got := (Dialect{}).Classify(err); got != dialect.Denied || !errors.As(err, &e) {
			t.Errorf("%v: got %v, want denied", err, got)
		}
	})
}
