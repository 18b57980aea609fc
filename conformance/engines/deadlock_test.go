package engines

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// After a deadlock MySQL and MariaDB have rolled a transaction back, and what follows in it is not. A handler that does
// not return that error has not completed its task, and nothing says that it has.
func TestHandlerThatIgnoresADeadlockIsNotCompleted(t *testing.T) {
	onMySQL(t, func(t *testing.T, dsn string) {
		t.Parallel()
		c, err := dbq.Open(t.Context(), ownDatabase(t, dsn), dbq.WithMigrate())
		check.OK(t, err)
		t.Cleanup(func() { c.Close() })
		for _, statement := range []string{"CREATE TABLE effect (k int PRIMARY KEY, n int)",
			"INSERT INTO effect VALUES (1, 0), (2, 0)"} {
			if _, err := c.DB().ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		for name, remove := range map[string]bool{"kept": false, "deleted": true} {
			q := c.Queue(name)
			id, err := q.Enqueue(t.Context(), dbq.NewTask{})
			check.OK(t, err)
			var deadlock error
			h := worker.TxFunc(func(ctx context.Context, tx *sql.Tx, _ dbq.Task) error {
				deadlock = meetDeadlock(t, ctx, c.DB(), tx)
				return nil
			})
			h.Delete = remove
			w := worker.Worker{Queue: q, Lease: time.Hour, Handler: h}
			if _, _, err := w.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !c.IsConflict(deadlock) {
				t.Fatalf("%s: the handler met no deadlock: %v", name, deadlock)
			}
			task, err := c.Get(t.Context(), id)
			if err != nil || task.State != dbq.StateCreated || task.Attempt != 0 {
				t.Errorf("%s: the task is %v with %d attempts, %v; want it to be due again", name, task.State, task.Attempt, err)
			}
			attempts, err := admin.New(c).Attempts(t.Context(), id)
			if err != nil || len(attempts) != 1 || attempts[0].Outcome != dbq.AttemptReleased {
				t.Errorf("%s: the history has %+v, %v; want one attempt that was released", name, attempts, err)
			}
		}
	})
}

// meetDeadlock makes tx, which has written less, the victim of a deadlock with another transaction.
func meetDeadlock(t *testing.T, ctx context.Context, db *sql.DB, tx *sql.Tx) error {
	other, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer other.Rollback()
	rows := make([]string, 100)
	for i := range rows {
		rows[i] = fmt.Sprintf(", (%d, 0)", 10+i)
	}
	for _, in := range []struct {
		tx        *sql.Tx
		statement string
	}{
		{other, "INSERT INTO effect VALUES (3, 0)" + strings.Join(rows, "")},
		{other, "UPDATE effect SET n = n + 1 WHERE k = 2"},
		{tx, "UPDATE effect SET n = n + 1 WHERE k = 1"},
	} {
		if _, err := in.tx.ExecContext(ctx, in.statement); err != nil {
			t.Error(err)
			return nil
		}
	}
	waited := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(ctx, "UPDATE effect SET n = n + 1 WHERE k = 1")
		waited <- err
	}()
	// whichever of the two comes second finds the deadlock
	_, err = tx.ExecContext(ctx, "UPDATE effect SET n = n + 1 WHERE k = 2")
	if err := <-waited; err != nil {
		t.Error(err)
	}
	return err
}
