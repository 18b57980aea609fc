package worker_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

// manyWriters is SQLite that says that it is not.
type manyWriters struct{ sqlite.Dialect }

func (d manyWriters) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	s, err := d.Dialect.Probe(ctx, db)
	s.OneWriter = false
	return s, err
}

func TestMoreHandlersThanConnectionsAreReported(t *testing.T) {
	t.Parallel()
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for name, c := range map[string]struct {
		d           dialect.Dialect
		concurrency int
		want        bool
	}{
		"too many":   {manyWriters{}, 2, true},
		"as many":    {manyWriters{}, 1, false},
		"one writer": {sqlite.Dialect{}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			client, err := dbq.New(t.Context(), pool.Write, c.d, dbq.WithMigrate(), dbq.WithLogger(logger))
			if err != nil {
				t.Fatal(err)
			}
			runEmpty(t, worker.Worker{Queue: client.Queue("q"), Concurrency: c.concurrency, Logger: logger,
				Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
			if got := strings.Contains(log.String(), "concurrency=2 connections=1"); got != c.want {
				t.Errorf("reported: %v, want %v: %s", got, c.want, log.String())
			}
			want := !client.Info().Server.OneWriter
			if got := strings.Contains(log.String(), "has one connection"); got != want {
				t.Errorf("a pool of one connection is reported: %v, want %v: %s", got, want, log.String())
			}
		})
	}
}
