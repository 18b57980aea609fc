package engines

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/check"
)

// A session that became read-only, as after a failover behind one address, leaves the pool: the call that meets it is
// repeated on another one.
func TestReadOnlySessionLeavesCallersPool(t *testing.T) {
	set := map[string]string{
		"pgx": "SET default_transaction_read_only = on", "mysql": "SET SESSION transaction_read_only = 1",
	}
	for name, kind := range map[string]struct {
		driver  string
		dialect dialect.Dialect
		open    func(t *testing.T, dsn string) (*sql.DB, error)
	}{
		"pgx": {"pgx", postgres.Dialect{}, func(_ *testing.T, dsn string) (*sql.DB, error) { return sql.Open("pgx", dsn) }},
		"pgxpool": {"pgx", postgres.Dialect{}, func(t *testing.T, dsn string) (*sql.DB, error) {
			return postgres.FromPool(newPgxPool(t, dsn, 1)), nil
		}},
		"mysql": {"mysql", mysql.Dialect{}, func(t *testing.T, dsn string) (*sql.DB, error) {
			return sql.Open("mysql", driverDSN(t, dsn, ""))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, kind.driver, func(t *testing.T, dsn string) {
				prefix := ownTables(t, dsn)
				db, err := kind.open(t, dsn)
				check.OK(t, err)
				defer db.Close()
				db.SetMaxOpenConns(1)
				c, err := dbq.New(t.Context(), db, kind.dialect, prefix, dbq.WithMigrate())
				check.OK(t, err)
				defer c.Close()
				if _, err := db.ExecContext(t.Context(), set[kind.driver]); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
					t.Errorf("an enqueue: %v", err)
				}
			})
		})
	}
	t.Run("dsn", func(t *testing.T) {
		onEngines(t, func(t *testing.T, target target, dsn string) {
			if set[target.driver] == "" {
				t.Skip("it has no sessions on another server")
			}
			c, err := dbq.Open(t.Context(), dsn, ownTables(t, dsn), dbq.WithMigrate())
			check.OK(t, err)
			defer c.Close()
			c.DB().SetMaxOpenConns(1)
			if _, err := c.DB().ExecContext(t.Context(), set[target.driver]); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				tx, err := c.DB().BeginTx(t.Context(), nil)
				check.OK(t, err)
				_, err = c.Queue("q").EnqueueTx(t.Context(), tx, dbq.NewTask{})
				if wrong := i == 0 && !errors.Is(err, dbq.ErrUnavailable) || i > 0 && err != nil; wrong {
					t.Errorf("transaction %d: %v", i, err)
				}
				_ = tx.Rollback()
			}
		})
	})
}
