package engines

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// TestCheckoutIsOnTheDiskWhenItReturns checks out tasks of a queue with limits by key, whose COMMIT does not wait for
// the disk on PostgreSQL: the checkout itself waits. A crash of the server would otherwise undo leases that workers
// know.
func TestCheckoutIsOnTheDiskWhenItReturns(t *testing.T) {
	onEachPostgres(t, func(t *testing.T, dsn string) {
		c, err := dbq.Open(t.Context(), dsn, dbq.WithMigrate())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		limit := func(l *admin.QueueLimits) { l.KeyLeased = 1 }
		if err := admin.New(c).ConfigureLimits(t.Context(), "q", limit); err != nil {
			t.Fatal(err)
		}
		q := c.Queue("q")
		for range 50 {
			if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
				t.Fatal(err)
			}
			// What the checkout writes comes behind this position of the log.
			before := text(t, c, "SELECT pg_current_wal_insert_lsn()")
			tasks, err := q.Checkout(t.Context(), 1, time.Minute)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%d tasks: %v", len(tasks), err)
			}
			if on := text(t, c, "SELECT pg_current_wal_flush_lsn() > CAST('"+before+"' AS pg_lsn)"); on != "true" {
				t.Fatal("the checkout has returned, and the log is not on the disk")
			}
			if err := q.Complete(t.Context(), tasks[0].Lease, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// onEachPostgres runs a test in parallel on each PostgreSQL server that is configured, on a database of its own.
func onEachPostgres(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		if !strings.HasPrefix(dsn, "postgres") {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			f(t, ownDatabase(t, dsn))
		})
	}
}

// text returns the only value of a query.
func text(t *testing.T, c *dbq.Client, query string) (value string) {
	t.Helper()
	if err := c.DB().QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
