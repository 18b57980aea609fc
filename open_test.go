package dbq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/store"
)

// busy is a dialect whose pools cannot be opened until so many tries have met a conflict.
type busy struct{ sqlite.Dialect }

var errBusy = errors.New("the file is locked")

func (b busy) Classify(err error) dialect.Class {
	if errors.Is(err, errBusy) {
		return dialect.Conflict
	}
	return b.Dialect.Classify(err)
}

func TestOpeningIsTriedAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	open := func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
		if left.Add(-1) >= 0 {
			return dialect.Pool{}, errBusy
		}
		return sqlite.Open(ctx, "sqlite"+dsn[len("busy"):], nil)
	}
	dialect.Register(dialect.Driver{Schemes: []string{"busy"}, Dialect: busy{}, Open: open})
	dsn := "busy:" + filepath.Join(t.TempDir(), "q.db")
	left.Store(3)
	c, err := Open(t.Context(), dsn, WithMigrate())
	check.OK(t, err)
	c.Close()
	left.Store(3)
	if _, _, err := Migrate(t.Context(), dsn); err != nil {
		t.Error(err)
	}
	left.Store(3)
	if err := DropTables(t.Context(), dsn); err != nil {
		t.Error(err)
	}
	left.Store(1 << 40)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, dsn); !errors.Is(err, ErrConflict) || left.Load() < 1<<40-2 {
		t.Errorf("got %v after %d tries, want ErrConflict after one: the caller's context has ended", err, 1<<40-left.Load())
	}
	left.Store(1 << 40)
	const want = 1<<40 - store.ConflictTries - 1
	if _, err := Open(t.Context(), dsn); !errors.Is(err, ErrConflict) || left.Load() != want {
		t.Errorf("got %v after %d tries, want ErrConflict after %d",
			err, 1<<40-left.Load(), store.ConflictTries+1)
	}
}

// A DSN of libpq's keywords is PostgreSQL's, whose dialect these tests do not import.
func TestKeywordsArePostgreSQLs(t *testing.T) {
	t.Parallel()
	const dsn = "host=db.example dbname=app password='hush hush'"
	_, opened := Open(t.Context(), dsn)
	_, _, migrated := Migrate(t.Context(), dsn)
	for _, err := range []error{opened, migrated, DropTables(t.Context(), dsn)} {
		if !errors.Is(err, ErrUnknownScheme) || !strings.Contains(err.Error(), "dialect/postgres") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("got %v, want ErrUnknownScheme with the import", err)
		}
	}
}

// What a dialect wants known is logged once, however many clients there are.
func TestServerNoticeIsLoggedOnce(t *testing.T) {
	t.Parallel()
	// Drivers stay registered, and what was logged stays logged, when the test is run again.
	scheme := fmt.Sprintf("noted%d", time.Now().UnixNano())
	note := "this dialect is a test's, " + scheme
	dialect.Register(dialect.Driver{Schemes: []string{scheme}, Dialect: sqlite.Dialect{}, Note: note,
		Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			return sqlite.Open(ctx, "sqlite"+dsn[len(scheme):], nil)
		}})
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	for range 2 {
		c, err := Open(t.Context(), scheme+":"+filepath.Join(t.TempDir(), "q.db"), WithMigrate(), WithLogger(logger))
		check.OK(t, err)
		c.Close()
	}
	if got := strings.Count(out.String(), note); got != 1 {
		t.Errorf("it is there %d times: %s", got, out.String())
	}
	out.Reset()
	for range 2 {
		logUntested(logger, dialect.Server{Product: "Test", Version: scheme})
		logUntested(logger, dialect.Server{Product: "Test", Version: scheme, Untested: true})
	}
	if got := strings.Count(out.String(), scheme); got != 1 {
		t.Errorf("an untested server is logged %d times: %s", got, out.String())
	}
	if got := noteOf(sqlite.Dialect{}, "sqlite:x"); got != "" {
		t.Errorf("SQLite's note is %q", got)
	}
}
