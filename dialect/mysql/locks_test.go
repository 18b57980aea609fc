package mysql

import (
	"net/url"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestLocksDoNotDependOnHowTheSchemaIsNamed takes each session lock as a client that names the schema in its options.
// A client whose DSN names the schema, in any case, must see that lock.
func TestLocksDoNotDependOnHowTheSchemaIsNamed(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		named := migrated(t, dsn)
		u, err := url.Parse(dsn)
		must(t, err)
		u.Path = "/" + named.Names.Schema
		pool, err := Open(t.Context(), u.String(), nil)
		must(t, err)
		defer pool.Close()
		byDSN := dialecttest.Session(t, Dialect{}, pool, dialect.Names{Prefix: named.Names.Prefix})

		a, b := sqlrun.ConnOf(own(t, named)), sqlrun.ConnOf(own(t, byDSN))
		args := dialect.Args{"name": "a lock of " + t.Name()}
		migration := named.Texts.MigrationLock
		locks := map[string]string{migration.Take: migration.Free}
		for take, free := range map[string]string{"queue lock": "queue free", "turn lock": "turn free"} {
			locks[named.Texts.Private[take].SQL] = named.Texts.Private[free].SQL
		}
		type answer struct {
			Holder *int64 `db:"holder"`
		}
		holder := text(byDSN.Names, "SELECT IS_USED_LOCK({lock_name}) AS holder")
		for take, free := range locks {
			_, err = named.Exec(t.Context(), a, take, args)
			must(t, err)
			got, err := sqlrun.QueryAs[answer](t.Context(), byDSN, b, holder, args)
			must(t, err)
			if len(got) != 1 || got[0].Holder == nil {
				t.Errorf("a client whose DSN names the schema does not see the lock of one that names it itself: %s", take)
			}
			_, err = named.Exec(t.Context(), a, free, args)
			must(t, err)
		}
	})
}
