package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

const insert = `INSERT INTO dbq_task (id, queue, reference, kind, state, priority, max_attempts, created, updated)
VALUES (%s, 'q', %s, '', %s, %s, 1, 0, 0)`

// Errors as SQLite really gives them, on a file.
func TestClassifyRealErrors(t *testing.T) {
	t.Parallel()
	write := func(statements ...string) func(t *testing.T, s *sqlrun.Session) error {
		return func(t *testing.T, s *sqlrun.Session) (err error) {
			for _, text := range statements {
				_, err = s.Pool.Write.ExecContext(t.Context(), text)
			}
			return err
		}
	}
	row := func(id, reference, state, priority string) string {
		return fmt.Sprintf(insert, id, reference, state, priority)
	}
	first := row("zeroblob(16)", "'r'", "0", "0")
	for _, c := range []struct {
		name    string
		provoke func(t *testing.T, s *sqlrun.Session) error
		want    dialect.Class
	}{
		{"the id is taken", write(first, row("zeroblob(16)", "'s'", "0", "0")), dialect.Duplicate},
		{"the reference is taken", write(first, row("randomblob(16)", "'r'", "0", "0")), dialect.Duplicate},
		{"no such table", write("DELETE FROM dbq_nothing"), dialect.Missing},
		{"no such column", write("UPDATE dbq_task SET missing = 1"), dialect.Missing},
		{"no such column to insert into", write("INSERT INTO dbq_task (missing) VALUES (1)"), dialect.Missing},
		{"no such state", write(row("randomblob(16)", "NULL", "5", "0")), dialect.Invalid},
		{"no such priority", write(row("randomblob(16)", "NULL", "0", "10")), dialect.Invalid},
		{"an id of another length", write(row("randomblob(15)", "NULL", "0", "0")), dialect.Invalid},
		{"null", write(row("NULL", "NULL", "0", "0")), dialect.Invalid},
		{"text for a number", write(row("randomblob(16)", "NULL", "'x'", "0")), dialect.Invalid},
		{"too large", write("SELECT zeroblob(2000000000)"), dialect.Invalid},
		{"a syntax error", write("SELEKT 1"), dialect.Unknown},
		{"a write through the readers", func(t *testing.T, s *sqlrun.Session) error {
			_, err := s.Pool.Read.ExecContext(t.Context(), first)
			return err
		}, dialect.Denied},
		{"another writer", func(t *testing.T, s *sqlrun.Session) error {
			conn := anotherWriter(t, s)
			return errors.Join(write(first)(t, s), rollback(t, conn))
		}, dialect.Conflict},
		{"a transaction that another writer overtook", func(t *testing.T, s *sqlrun.Session) error {
			// A transaction that reads first and writes later: what dbq itself avoids by BEGIN IMMEDIATE.
			conn := rawConn(t, s)
			var n int
			if _, err := conn.ExecContext(t.Context(), "BEGIN DEFERRED"); err != nil {
				return err
			}
			if err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM dbq_task").Scan(&n); err != nil {
				return err
			}
			check.OK(t, write(first)(t, s))
			_, err := conn.ExecContext(t.Context(), "DELETE FROM dbq_task")
			return errors.Join(err, rollback(t, conn))
		}, dialect.Conflict},
		{"a commit after everything was rolled back", write("COMMIT"), dialect.Conflict},
		{"a context that has ended", func(t *testing.T, s *sqlrun.Session) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := s.Pool.Write.ExecContext(ctx, first)
			return err
		}, dialect.Unknown},
		{"a statement that is cut off", func(t *testing.T, s *sqlrun.Session) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50e6)
			defer cancel()
			_, err := s.Pool.Write.ExecContext(ctx, `
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
SELECT count(*) FROM n`)
			return err
		}, dialect.Unknown},
		{"a closed pool", func(t *testing.T, s *sqlrun.Session) error {
			s.Pool.Close()
			return write(first)(t, s)
		}, dialect.Unknown},
	} {
		dialecttest.Classifies(t, Dialect{}, c.name, c.want, func(t *testing.T) error {
			return c.provoke(t, migrated(t, "?busy_timeout=20ms"))
		})
	}
}

func TestClassifyReadOnlyFile(t *testing.T) {
	t.Parallel()
	s := migrated(t, "")
	var path string
	check.OK(t, s.Pool.Read.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&path))
	// The rights of a file do not stop root: the file is opened to read.
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	check.OK(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "DELETE FROM dbq_task")
	if got := (Dialect{}).Classify(err); err == nil || got != dialect.Denied {
		t.Errorf("%v: got %v, want denied", err, got)
	}
}

func TestClassifyAFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q.db")
	check.OK(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	pool, err := Open(t.Context(), "sqlite:"+path, nil)
	if err == nil {
		pool.Close()
		t.Fatal("it was opened")
	}
	if !errors.Is(err, dialect.ErrDSN) || !strings.Contains(err.Error(), "is not a SQLite database") {
		t.Errorf("got %v, want an ErrDSN that says so", err)
	}
}

// A program that looks for its tables while others make theirs in the same file is told that they are missing, or to
// ask again.
func TestClassifyWhileOthersMigrate(t *testing.T) {
	t.Parallel()
	s := migrated(t, "?synchronous=normal")
	other := rawConn(t, s)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 400 && err == nil; i++ {
			if _, err = other.ExecContext(t.Context(), "CREATE TABLE theirs (n INTEGER)"); err == nil {
				_, err = other.ExecContext(t.Context(), "DROP TABLE theirs")
			}
		}
		done <- err
	}()
	seen := map[dialect.Class]int{}
	for {
		select {
		case err := <-done:
			check.OK(t, err)
			if seen[dialect.Missing] == 0 || len(seen) > 2 || len(seen) == 2 && seen[dialect.Conflict] == 0 {
				t.Errorf("got %v, want only missing and conflict", seen)
			}
			t.Log(seen)
			return
		default:
			_, err := s.Pool.Write.ExecContext(t.Context(), "SELECT max(version) FROM missing")
			seen[(Dialect{}).Classify(err)]++
		}
	}
}

func TestClassifyForeignErrors(t *testing.T) {
	t.Parallel()
	dialecttest.ClassifiesWhatIsNotTheServers(t, Dialect{}, nil)
}

// rawConn is a connection of another process, not through the pool of one writer.
func rawConn(t *testing.T, s *sqlrun.Session) *sql.Conn {
	t.Helper()
	var path string
	check.OK(t, s.Pool.Read.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&path))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20)")
	check.OK(t, err)
	t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(t.Context())
	check.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func anotherWriter(t *testing.T, s *sqlrun.Session) *sql.Conn {
	t.Helper()
	conn := rawConn(t, s)
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return conn
}

func rollback(t *testing.T, conn *sql.Conn) error {
	_, err := conn.ExecContext(t.Context(), "ROLLBACK")
	return err
}
