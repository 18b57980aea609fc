package engines

import (
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/check"
)

// When the connections of a caller's pgx pool die without being closed, the first call pays for all of them.
func TestPgxPoolOutlivesDeadConnections(t *testing.T) {
	onServers(t, "pgx", func(t *testing.T, dsn string) {
		prefix := ownTables(t, dsn)
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal("the DSN cannot be read") // it may hold a password
		}
		p, err := proxy.New(u.Host)
		check.OK(t, err)
		defer p.Close()
		u.Host = p.Addr()
		pool := newPgxPool(t, u.String(), 8)
		db := postgres.FromPool(pool)
		defer db.Close()
		c, err := dbq.New(t.Context(), db, postgres.Dialect{}, prefix, dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close()
		var warm sync.WaitGroup
		for range 8 {
			warm.Go(func() {
				if _, err := db.ExecContext(t.Context(), "SELECT pg_sleep(0.1)"); err != nil {
					t.Error(err)
				}
			})
		}
		warm.Wait()
		p.Strand()
		for i := range 9 {
			begun := time.Now()
			_, err := c.Now(t.Context())
			if took := time.Since(begun); err != nil || took > 15*time.Second || i > 0 && took > 5*time.Second {
				t.Errorf("call %d took %v: %v", i, took, err)
			}
		}
	})
}
