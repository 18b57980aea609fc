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
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// manyWriters is SQLite that says that it is not.
type manyWriters struct{ sqlite.Dialect }

func (d manyWriters) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	s, err := d.Dialect.Probe(ctx, db)
	s.OneWriter = false
	return s, err
}

func TestTooFewConnectionsAreReported(t *testing.T) {
	t.Parallel()
	open := func(limit int) *sql.DB {
		pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), nil)
		check.OK(t, err)
		t.Cleanup(func() { pool.Close() })
		pool.Write.SetMaxOpenConns(limit)
		return pool.Write
	}
	for name, c := range map[string]struct {
		d           dialect.Dialect
		shared, own int
		want        bool
	}{
		"handlers can take all connections":    {d: manyWriters{}, shared: 5, want: true},
		"the worker has some left":             {d: manyWriters{}, shared: 6},
		"no limit":                             {d: manyWriters{}},
		"handlers wait for each other":         {d: manyWriters{}, shared: 1, own: 4, want: true},
		"handlers have a pool of their own":    {d: manyWriters{}, shared: 2, own: 4},
		"one writer, so they wait in any case": {d: sqlite.Dialect{}, shared: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log check.Log
			logger := slog.New(slog.NewTextHandler(&log, nil))
			db, opts := open(c.shared), []dbq.Option{dbq.WithMigrate(), dbq.WithLogger(logger)}
			if c.own > 0 {
				db, opts = open(c.own), append(opts, dbq.WithTxDB(db))
			}
			client, err := dbq.New(t.Context(), db, c.d, opts...)
			check.OK(t, err)
			runEmpty(t, worker.Worker{Queue: client.Queue("q"), Concurrency: 2, Logger: logger,
				Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })})
			if got := strings.Contains(log.String(), "too few connections"); got != c.want {
				t.Errorf("reported: %v, want %v: %s", got, c.want, log.String())
			}
		})
	}
}
