package postgres

import (
	"context"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestLocksDoNotDependOnHowTheSchemaIsNamed takes each lock as a client does that names the schema, while one holds it
// whose search path leads there.
func TestLocksDoNotDependOnHowTheSchemaIsNamed(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		named := migrated(t, dsn)
		pool, err := Open(t.Context(), with(dsn, "search_path="+named.Names.Schema), nil)
		check.OK(t, err)
		defer pool.Close()
		byPath := dialecttest.Session(t, Dialect{}, pool, dialect.Names{Prefix: named.Names.Prefix})
		args := dialect.Args{"name": named.Names.Prefix, "queue": "work"}
		for name, take := range map[string]func(sqlrun.Texts) string{
			"migration": func(st sqlrun.Texts) string { return st.MigrationLock.Take },
			"checkout":  func(st sqlrun.Texts) string { return st.Private["queue lock"].SQL },
		} {
			err := byPath.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				if _, err := byPath.Exec(ctx, c, take(byPath.Texts), args); err != nil {
					return err
				}
				waits := named.Tx(ctx, func(ctx context.Context, c dialect.Conn) error {
					_, err := c.Exec(ctx, "SET LOCAL lock_timeout = '50ms'")
					if err == nil {
						_, err = named.Exec(ctx, c, take(named.Texts), args)
					}
					return err
				})
				if named.Class(waits) != dialect.Conflict {
					t.Errorf("%s: got %v, want a lock that is not had in time", name, waits)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
