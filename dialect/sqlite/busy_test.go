package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
)

// locked opens a file twice, and gives a connection that writes to it while another one, of another process as far as
// SQLite can tell, has the lock until free is called.
func locked(t *testing.T, timeout string) (write *sql.DB, free func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "busy.db")
	other := openFile(t, path, "").Write
	if _, err := other.ExecContext(t.Context(), "CREATE TABLE t (i INTEGER) STRICT"); err != nil {
		t.Fatal(err)
	}
	write = openFile(t, path, "?busy_timeout="+timeout).Write
	if err := write.PingContext(t.Context()); err != nil { // so that a caller's time is all for the lock
		t.Fatal(err)
	}
	tx, err := other.BeginTx(t.Context(), nil) // immediate
	check.OK(t, err)
	return write, func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// asBusy are statements that want the lock, each its own way.
func asBusy() map[string]func(ctx context.Context, db *sql.DB) error {
	exec := func(text string) func(ctx context.Context, db *sql.DB) error {
		return func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, text)
			return err
		}
	}
	return map[string]func(ctx context.Context, db *sql.DB) error{
		"begin":        exec("BEGIN IMMEDIATE"),
		"short":        exec("INSERT INTO t VALUES (1)"),
		"long":         exec("INSERT INTO t SELECT 1"),
		"not prepared": exec("CREATE TABLE u (i INTEGER)"),
		"query": func(ctx context.Context, db *sql.DB) error {
			return db.QueryRowContext(ctx, "INSERT INTO t VALUES (1) RETURNING i").Scan(new(int))
		},
		"begin by the driver": func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err == nil {
				err = tx.Commit()
			}
			return err
		},
	}
}

func TestWriteWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, write := range asBusy() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, free := locked(t, "1m")
			start := time.Now()
			time.AfterFunc(50*time.Millisecond, free)
			if err := write(t.Context(), db); err != nil || time.Since(start) < 50*time.Millisecond {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		})
	}
}

func TestWriteStopsWaitingAfterBusyTimeout(t *testing.T) {
	t.Parallel()
	for name, write := range asBusy() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, free := locked(t, "60ms")
			defer free()
			if err := write(t.Context(), db); !isBusy(err) {
				t.Errorf("after its patience: %v", err)
			}
			db, freeIt := locked(t, "1m")
			defer freeIt()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := write(ctx, db)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dialect.ErrWriterBusy) ||
				time.Since(start) > 20*time.Second {
				t.Errorf("when its context ended, after %v: %v", time.Since(start), err)
			}
		})
	}
}

func TestIsShort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"BEGIN IMMEDIATE": true, "COMMIT": true, "INSERT INTO t VALUES (?)": true,
		"UPDATE t SET i = 1 WHERE id = ? AND j = 2": true, "UPDATE\n  t\nSET i = 1\nWHERE id = ?": true,
		"INSERT INTO t SELECT 1": false, "UPDATE t SET i = 1": false, "SELECT 1": false,
		"DELETE FROM t WHERE id IN (?)": false,
	} {
		if got := isShort(text); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}
