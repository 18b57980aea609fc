package engines

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/internal/check"
)

// A session of a caller's pool may wait for a locked row for as long as its server says, 50 seconds by default, so a
// batch that settles does not begin to wait. Transactions that a program begins on a pool of Open's wait for as long as
// the server says, too.
func TestLockWaitsOfPools(t *testing.T) {
	onMySQL(t, func(t *testing.T, dsn string) {
		prefix := ownTables(t, dsn)
		db, err := sql.Open("mysql", driverDSN(t, dsn, "innodb_lock_wait_timeout=30"))
		check.OK(t, err)
		defer db.Close()
		c, err := dbq.New(t.Context(), db, mysql.Dialect{}, prefix, dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close()
		own, err := dbq.Open(t.Context(), dsn, prefix)
		check.OK(t, err)
		defer own.Close()
		if !c.Info().Server.LongLockWaits || own.Info().Server.LongLockWaits {
			t.Errorf("long waits: the caller's pool %v, that of Open %v, want true and false",
				c.Info().Server.LongLockWaits, own.Info().Server.LongLockWaits)
		}
		var server, caller int
		err = db.QueryRowContext(t.Context(), "SELECT @@GLOBAL.innodb_lock_wait_timeout").Scan(&server)
		if err == nil {
			err = own.DB().QueryRowContext(t.Context(), "SELECT @@SESSION.innodb_lock_wait_timeout").Scan(&caller)
		}
		if err != nil || caller != server {
			t.Errorf("transactions of Open's DB wait %d s, %v, want the server's %d", caller, err, server)
		}

		q := c.Queue("q")
		if _, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 20)); err != nil {
			t.Fatal(err)
		}
		tasks, err := q.Checkout(t.Context(), 20, time.Minute)
		if err != nil || len(tasks) != 20 {
			t.Fatalf("got %d tasks, %v", len(tasks), err)
		}
		tx, err := own.DB().BeginTx(t.Context(), nil)
		check.OK(t, err)
		defer tx.Rollback()
		check.OK(t, own.Queue("q").CompleteTx(t.Context(), tx, tasks[7].Lease, nil))
		ss := make([]dbq.Settlement, len(tasks))
		for i, task := range tasks {
			ss[i] = dbq.Settlement{Lease: task.Lease, Outcome: dbq.Completed(nil)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than the session would wait
		defer cancel()
		out, err := q.SettleMany(ctx, ss)
		check.OK(t, err)
		for i, o := range out {
			if locked := errors.Is(o.Err, dbq.ErrLocked); locked != (i == 7) || !locked && o.Err != nil {
				t.Errorf("task %d: %v", i, o.Err)
			}
		}
	})
}
