package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect/kit"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// busyPauses are between looks at a lock that another process has, as SQLite's own waiting has them; the last one is
// repeated.
var busyPauses = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond,
	20 * time.Millisecond, 25 * time.Millisecond, 25 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
}

// waiting runs f, and again while another process has the lock, until the connection's patience or ctx ends. SQLite
// would wait within f, where only a watcher of its own for each statement can end it, which takes longer than a short
// statement.
func (c *conn) waiting(ctx context.Context, f func() error) error {
	var waited time.Duration
	for i := 0; ; i++ {
		err := f()
		if err != nil && i > 0 && ctx.Err() != nil { // it was busy when ctx ended
			return kit.WriterBusy(ctx)
		}
		if err == nil || waited >= c.patience || !isBusy(err) {
			return err
		}
		pause := min(busyPauses[min(i, len(busyPauses)-1)], c.patience-waited)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return kit.WriterBusy(ctx)
		case <-timer.C:
		}
		waited += pause
	}
}

// isBusy reports whether a statement did nothing since another process has the lock. One whose snapshot is too old is
// none: it would find that forever.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY && e.Code() != sqlite3.SQLITE_BUSY_SNAPSHOT
}

// watched is the context that the driver is given for a statement. It starts a goroutine for each one whose context can
// end, a quarter of what a single enqueue takes. A statement that is over at once needs none: no writing connection
// waits for a lock within SQLite.
func watched(ctx context.Context, p *prepared) (context.Context, error) {
	if !p.short {
		return ctx, nil
	}
	return context.Background(), ctx.Err()
}

// isShort reports whether a statement touches no more rows than its text names. When it is wrong, a caller whose
// context ends waits for the statement's end.
func isShort(text string) bool {
	switch verb(text) {
	case "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT":
		return true
	}
	return changesFew(text)
}

// verb is the first word of a text.
func verb(text string) string {
	if end := strings.IndexAny(text, " \n"); end >= 0 {
		return text[:end]
	}
	return text
}

// changesFew reports whether a statement is a change that touches no more rows than its text names.
func changesFew(text string) bool {
	switch verb(text) {
	case "INSERT":
		return !strings.Contains(text, "SELECT")
	case "UPDATE", "DELETE":
		return strings.Contains(text, "WHERE id = ?")
	}
	return false
}

// BeginTx waits for other processes.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.waiting(ctx, func() (err error) {
		tx, err = c.driverConn.BeginTx(ctx, opts)
		return err
	})
	return tx, err
}
