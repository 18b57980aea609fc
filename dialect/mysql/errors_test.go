package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// Errors as the servers really give them.
func TestClassifyRealErrors(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		write := func(statements ...string) func(t *testing.T) error {
			return func(t *testing.T) (err error) {
				for _, query := range statements {
					err = do(t, s.Pool.Write, s, query)
				}
				return err
			}
		}
		long := "repeat('x', 801)"
		sameID := row(fresh(), "'q'", "NULL", "0", "0")
		referred := func() string { return row(fresh(), "'q'", "'r'", "0", "0") }
		for _, c := range []struct {
			name    string
			provoke func(t *testing.T) error
			want    dialect.Class
		}{
			{"the id is taken", write(sameID, sameID), dialect.Duplicate},
			{"the reference is taken", write(referred(), referred()), dialect.Duplicate},
			{"no such table", write("DELETE FROM {prefix}nothing"), dialect.Missing},
			{"no such column", write("UPDATE {task} SET nothing = 1"), dialect.Missing},
			{"no such state", write(row(fresh(), "'q'", "NULL", "5", "0")), dialect.Invalid},
			{"no such priority", write(row(fresh(), "'q'", "NULL", "0", "10")), dialect.Invalid},
			{"null", write(row(fresh(), "NULL", "NULL", "0", "0")), dialect.Invalid},
			{"too long", write(row(fresh(), "'q'", long, "0", "0")), dialect.Invalid},
			{"out of range", write(row(fresh(), "'q'", "NULL", "0", "1000")), dialect.Invalid},
			{"a syntax error", write("SELEKT 1"), dialect.Unknown},
			{"a deadlock", func(t *testing.T) error { return deadlock(t, s) }, dialect.Conflict},
			{"a lock timeout", func(t *testing.T) error { return whileLocked(t, s, "FOR UPDATE") }, dialect.Conflict},
			{"a row's lock is not available", func(t *testing.T) error {
				return whileLocked(t, s, "FOR UPDATE NOWAIT")
			}, dialect.Conflict},
			{"the queue's lock is not available", func(t *testing.T) error { return namedLock(t, s) }, dialect.Conflict},
			{"a read-only transaction",
				onConn(s, "START TRANSACTION READ ONLY", "DELETE FROM {task}"), dialect.Unavailable},
			{"a query that an operator ended", func(t *testing.T) error { return killed(t, s, "KILL QUERY") }, dialect.Conflict},
			{"a session that an operator ended", func(t *testing.T) error { return killed(t, s, "KILL") }, dialect.Ambiguous},
			{"a context that has ended", dialecttest.InAnEndedContext(s), dialect.Unknown},
			{"no such database", dialecttest.Connect(Open, dsn, func(u *url.URL) {
				u.Path = "/dbq_no_such_database"
			}), dialect.Unavailable},
			{"no such user", dialecttest.Connect(Open, dsn, func(u *url.URL) {
				u.User = url.UserPassword("dbq_no_such_user", "hush")
			}), dialect.Denied},
			{"a right that is missing", func(t *testing.T) error { return withoutRights(t, s, dsn) }, dialect.Denied},
		} {
			dialecttest.Classifies(t, Dialect{}, c.name, c.want, c.provoke)
		}
	})
}

// row is an INSERT.
func row(id, queue, reference, state, priority string) string {
	return fmt.Sprintf(`INSERT INTO {task} (id, queue, reference, kind, state, priority, max_attempts, created, updated)
VALUES (%s, %s, %s, '', %s, %s, 1, 0, 0)`, id, queue, reference, state, priority)
}

func fresh() string {
	id := uuid.New()
	return fmt.Sprintf("x'%x'", id[:])
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func do(t *testing.T, e execer, s *sqlrun.Session, query string) error {
	_, err := e.ExecContext(t.Context(), text(s.Names, query))
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

// own is a connection that gives up on a lock after a second, and is without a transaction when the test ends.
func own(t *testing.T, s *sqlrun.Session) *sql.Conn {
	t.Helper()
	conn, err := s.Pool.Write.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		_, _ = conn.ExecContext(context.Background(), "SET SESSION innodb_lock_wait_timeout = DEFAULT")
		conn.Close()
	})
	must(t, do(t, conn, s, "SET SESSION innodb_lock_wait_timeout = 1"))
	return conn
}

// whileLocked asks for the lock of a row that another transaction has.
func whileLocked(t *testing.T, s *sqlrun.Session, lock string) error {
	id := fresh()
	must(t, do(t, s.Pool.Write, s, row(id, "'q'", "NULL", "0", "0")))
	holder, waiter := own(t, s), own(t, s)
	must(t, do(t, holder, s, "START TRANSACTION"))
	must(t, do(t, holder, s, "UPDATE {task} SET fence = fence + 1 WHERE id = "+id))
	must(t, do(t, waiter, s, "START TRANSACTION"))
	return do(t, waiter, s, "SELECT id FROM {task} WHERE id = "+id+" "+lock)
}

// deadlock makes two transactions wait for each other; the server ends one of them.
func deadlock(t *testing.T, s *sqlrun.Session) error {
	one, two := fresh(), fresh()
	lock := func(c *sql.Conn, id string) error {
		return do(t, c, s, "UPDATE {task} SET fence = fence + 1 WHERE id = "+id)
	}
	a, b := own(t, s), own(t, s)
	for _, id := range []string{one, two} {
		must(t, do(t, s.Pool.Write, s, row(id, "'q'", "NULL", "0", "0")))
	}
	for _, c := range []*sql.Conn{a, b} {
		must(t, do(t, c, s, "SET SESSION innodb_lock_wait_timeout = 60"))
		must(t, do(t, c, s, "START TRANSACTION"))
	}
	must(t, lock(a, one))
	must(t, lock(b, two))
	waits := make(chan error, 1)
	go func() {
		err := lock(a, two)
		_ = do(t, a, s, "ROLLBACK")
		waits <- err
	}()
	err := lock(b, one)
	_ = do(t, b, s, "ROLLBACK")
	return errors.Join(err, <-waits)
}

// namedLock waits for a lock that another session has.
func namedLock(t *testing.T, s *sqlrun.Session) error {
	a, b := sqlrun.ConnOf(own(t, s)), sqlrun.ConnOf(own(t, s))
	args := dialect.Args{"name": s.Names.Schema}
	take, free := s.Statements.Private["queue lock"].SQL, s.Statements.Private["queue free"].SQL
	take = strings.Replace(take, ", 30)", ", 0)", 1)
	_, err := s.Exec(t.Context(), a, take, args)
	must(t, err)
	_, err = s.Exec(t.Context(), b, take, args)
	_, freeErr := s.Exec(t.Context(), a, free, args)
	must(t, freeErr)
	return err
}

// killed ends a session, or what it does, while it works.
func killed(t *testing.T, s *sqlrun.Session, kill string) error {
	conn := own(t, s)
	var id int
	must(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	done := make(chan error, 1)
	go func() {
		// An UPDATE: SLEEP alone answers 1 when it is killed, and no error.
		err := do(t, conn, s, `
UPDATE {task} AS t
  JOIN (SELECT SLEEP(30) AS x) AS d ON d.x >= 0
   SET t.fence = t.fence + 1
 WHERE t.id = x'00'`)
		if err == nil {
			err = do(t, conn, s, `
SELECT COUNT(*)
  FROM information_schema.columns AS a
  JOIN information_schema.columns AS b
  JOIN information_schema.columns AS c`)
		}
		done <- err
	}()
	for range 200 { // until it works
		// MySQL answers error 3854 while another session's statement has bytes in its text that are not UTF-8, such
		// as a payload.
		var busy int
		err := s.Pool.Write.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND command = 'Query'", id).Scan(&busy)
		if err == nil && busy == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, err := s.Pool.Write.ExecContext(t.Context(), fmt.Sprintf("%s %d", kill, id))
	must(t, err)
	return <-done
}

// withoutRights reads a table as a user who may not.
func withoutRights(t *testing.T, s *sqlrun.Session, dsn string) error {
	user := fmt.Sprintf("dbqt_%x", uuid.New().ID())
	if _, err := s.Pool.Write.ExecContext(t.Context(), "CREATE USER "+user+" IDENTIFIED BY 'right'"); err != nil {
		t.Skipf("this user makes no users: %v", err)
	}
	defer func() {
		_, err := s.Pool.Write.ExecContext(context.Background(), "DROP USER "+user)
		must(t, err)
	}()
	_, err := s.Pool.Write.ExecContext(t.Context(), text(s.Names, "GRANT SELECT ON {migration} TO "+user))
	must(t, err)
	u, err := url.Parse(dsn)
	must(t, err)
	u.User, u.Path = url.UserPassword(user, "right"), "/"+s.Names.Schema
	pool, err := Open(t.Context(), u.String(), nil)
	must(t, err)
	defer pool.Close()
	must(t, do(t, pool.Write, s, "DO (SELECT MAX(version) FROM {migration})"))
	return do(t, pool.Write, s, "DELETE FROM {task}")
}
