package dbq

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// openPatience bounds for how long openPool tries again. It is what an engine's own waiting for a lock takes, at most once.
const openPatience = 10 * time.Second

// openPool opens the pools of a DSN. Opening can conflict like any statement: SQLite reports "database is locked" at once, whatever its
// busy timeout, while another process switches the same new file to WAL. Nothing has happened then, so openPool tries again.
func openPool(ctx context.Context, dsn string) (dialect.Driver, dialect.Pool, error) {
	begin := time.Now()
	for tries := 0; ; tries++ {
		drv, pool, err := dialect.Open(ctx, dsn)
		if err == nil {
			return drv, pool, nil
		}
		conflict := drv.Dialect != nil && drv.Dialect.Classify(err) == dialect.Conflict
		if !conflict || tries == conflictTries || time.Since(begin) >= openPatience {
			return drv, pool, openError(drv.Dialect, dsn, err)
		}
		pause := min(conflictPause<<min(tries, 10), maxConflictPause)
		if sleep(ctx, pause/2+rand.N(pause/2+1)) != nil {
			return drv, pool, openError(drv.Dialect, dsn, err)
		}
	}
}

// notes are those that were logged, so that each is once in a process.
var notes sync.Map

// logNote logs what a person should know before relying on a dialect's databases.
func logNote(logger *slog.Logger, d dialect.Dialect, dsn string) {
	note := dialect.NoteOf(d, dsn)
	if note == "" {
		return
	}
	if _, logged := notes.LoadOrStore(note, true); !logged {
		logger.Info("dbq: note on this dialect", "dialect", d.Name(), "note", note)
	}
}
