package engines

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// fullPostgres and fullMySQL make the server say that its disk is full to each completion, while there is a row in the
// table full. They are in a schema of their own, as MySQL allows no trigger in the one that the tests are given.
var (
	fullPostgres = []string{`CREATE TABLE dbq_full (n int PRIMARY KEY)`,
		`CREATE FUNCTION dbq_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF new.state = 2 AND EXISTS (SELECT 1 FROM dbq_full) THEN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
  END IF;
  RETURN new; END $$`,
		`CREATE TRIGGER dbq_refuse BEFORE UPDATE ON dbq_task FOR EACH ROW EXECUTE FUNCTION dbq_refuse()`}
	fullMySQL = []string{`CREATE TABLE dbq_full (n int PRIMARY KEY)`,
		`CREATE TRIGGER dbq_refuse BEFORE UPDATE ON dbq_task FOR EACH ROW BEGIN
  IF new.state = 2 AND EXISTS (SELECT 1 FROM dbq_full) THEN
    SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full';
  END IF; END`}
)

// A disk that is full for a while is no property of a task: what was done is completed when there is room again, and
// not poisoned.
func TestFullDisk(t *testing.T) {
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		statements := fullMySQL
		switch {
		case strings.HasPrefix(dsn, "postgres") && target.name != "pgbouncer":
			statements = fullPostgres
		case target.driver != "mysql":
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			fullDisk(t, dsn, statements)
		})
	}
}

// ownDatabase makes a database and returns its DSN.
func ownDatabase(t *testing.T, dsn string) string {
	t.Helper()
	name := fmt.Sprintf("full%x", uuid.New().ID())
	run := func(statement string) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		_, pool, err := sqlrun.Open(ctx, dsn, nil)
		check.OK(t, err)
		defer pool.Close()
		if _, err := pool.Write.ExecContext(ctx, statement); err != nil {
			t.Error(err)
		}
	}
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE " + name) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	u.Path = "/" + name
	return u.String()
}

func fullDisk(t *testing.T, dsn string, statements []string) {
	c, err := dbq.Open(t.Context(), ownDatabase(t, dsn), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	for _, statement := range statements {
		if _, err := c.DB().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	q := c.Queue("q")
	id, err := q.Enqueue(t.Context(), dbq.NewTask{})
	check.OK(t, err)
	var log check.Log
	runs := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- (&worker.Worker{Queue: q, Concurrency: 1, Lease: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Handler: worker.Func(func(ctx context.Context, _ dbq.Task) error {
				runs++
				_, err := c.DB().ExecContext(ctx, `INSERT INTO dbq_full VALUES (1)`)
				return err
			})}).Run(ctx)
	}()
	wait := func(what string, is func() bool) {
		for ; !is() && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		}
		if ctx.Err() != nil {
			t.Errorf("waited for %s: %s", what, log.String())
		}
	}
	wait("a try to settle", func() bool { return strings.Contains(log.String(), "settle") })
	if _, err := c.DB().ExecContext(ctx, `DELETE FROM dbq_full`); err != nil {
		t.Error(err)
	}
	var task dbq.Task
	wait("the end of the task", func() bool {
		task, err = c.Get(ctx, id)
		return err == nil && task.State != dbq.StateProcessing
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if task.State != dbq.StateCompleted || runs != 1 {
		t.Errorf("the task is %v after %d runs, want COMPLETED after one: %s", task.State, runs, task.Result)
	}
}
