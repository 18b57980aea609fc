package dbq

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
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
	dialect.Register(dialect.Driver{Schemes: []string{"busy"}, Dialect: busy{}, Open: func(ctx context.Context, dsn string) (dialect.Pool, error) {
		if left.Add(-1) >= 0 {
			return dialect.Pool{}, errBusy
		}
		return sqlite.Open(ctx, "sqlite"+dsn[len("busy"):])
	}})
	dsn := "busy:" + filepath.Join(t.TempDir(), "q.db")
	left.Store(3)
	c, err := Open(t.Context(), dsn, WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := Open(t.Context(), dsn); !errors.Is(err, ErrConflict) || left.Load() != 1<<40-conflictTries-1 {
		t.Errorf("got %v after %d tries, want ErrConflict after %d", err, 1<<40-left.Load(), conflictTries+1)
	}
}
