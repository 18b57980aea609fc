package recipes

import (
	"context"
	"log"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/worker"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open opens a database in memory with dbq's tables and those that the statements create.
func open(ctx context.Context, statements ...string) *dbq.Client {
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate())
	must(err)
	for _, s := range statements {
		_, err := c.DB().ExecContext(ctx, s)
		must(err)
	}
	return c
}

// work handles the tasks of a queue until none is due.
func work(ctx context.Context, c *dbq.Client, queue string, h worker.Handler) {
	w := worker.Worker{Queue: c.Queue(queue), Handler: h, UntilEmpty: true}
	must(w.Run(ctx))
}

// workOn handles the tasks of a queue until all have ended that need nothing more.
func workOn(ctx context.Context, c *dbq.Client, queue string, h worker.Handler) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error)
	w := worker.Worker{Queue: c.Queue(queue), Handler: h}
	go func() { done <- w.Run(ctx) }()
	const busy = `SELECT (SELECT count(*) FROM dbq_task WHERE state = 1 OR state IN (0, 3) AND due < 253402300799999999)
		+ (SELECT count(*) FROM dbq_kv WHERE namespace = 'workflow')`
	for number(ctx, c, busy) > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	must(<-done)
}

// number returns the one number that a query selects.
func number(ctx context.Context, c *dbq.Client, query string) (n int) {
	must(c.DB().QueryRowContext(ctx, query).Scan(&n))
	return n
}
